"""When two lines are the same pair, and two rejected lines the same rejection."""

from hashlib import blake2b

from hierogram.storage.records import NewPairs

IDENTITY_BYTES = 16


def pair_identities(corpus: str, pairs: NewPairs) -> list[bytes]:
    """BLAKE2b-128 of each pair: of corpus and external id if any, else of corpus, content and occurrence.

    With and without an alignment are two contents.

    Every text is preceded by its length, so that no two different lists of texts have one encoding.
    """
    base = blake2b(f"{len(corpus)}:{corpus}".encode(), digest_size=IDENTITY_BYTES)
    identities = []
    contents = zip(pairs.sources, pairs.targets, pairs.alignments, pairs.external_ids, pairs.occurrences, strict=True)
    for source, target, alignment, external_id, occurrence in contents:
        if external_id is not None:
            text = f"x{len(external_id)}:{external_id}"
        elif alignment is not None:
            text = f"c{len(source)}:{source}{len(target)}:{target}{len(alignment)}:{alignment}{occurrence}"
        else:
            text = f"r{len(source)}:{source}{len(target)}:{target}{occurrence}"
        digest = base.copy()
        digest.update(text.encode())
        identities.append(digest.digest())
    return identities


def rejection_digest(corpus: str, origin: str, line: int, content: bytes) -> bytes:
    """BLAKE2b-128 of a rejected line: of corpus, origin, line number and content."""
    head = f"{len(corpus)}:{corpus}{len(origin)}:{origin}{line}:"
    return blake2b(head.encode() + content, digest_size=IDENTITY_BYTES).digest()
