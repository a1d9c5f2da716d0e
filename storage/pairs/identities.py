"""Identities of pairs: digests by which a repeated pair of an input is recognized, and their check."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from sqlalchemy import Connection, select, text

from hierogram.storage.database.transactions import read_grammar_kind
from hierogram.storage.records.pairs import GIVEN, NewPairs
from hierogram.storage.schema.tables import corpora

IDENTITY_BYTES = 16


def pair_identities(corpus: str, pairs: NewPairs) -> list[bytes]:
    """Return the identity of each pair in the corpus with the name `corpus`, a BLAKE2b-128 digest.

    The digest covers the corpus and the external id. If a pair has no external id, the digest covers the corpus, the
    texts, the alignment from the input and the occurrence. The same texts with and without an alignment are different
    content. Each text is prefixed with its length, so that different lists of texts have different encodings.
    """
    corpus_digest = _digest_corpus(corpus)
    contents = zip(pairs.sources, pairs.targets, pairs.alignments, pairs.external_ids, pairs.occurrences, strict=True)
    identities = []
    for source, target, alignment, external_id, occurrence in contents:
        content = f"{_content(source, target, alignment)}{occurrence}"
        identities.append(_identity(corpus_digest, content if external_id is None else _external_content(external_id)))
    return identities


def _external_content(external_id: str) -> str:
    return f"x{len(external_id)}:{external_id}"


def _identity(corpus_digest: blake2b, content: str) -> bytes:
    digest = corpus_digest.copy()
    digest.update(content.encode())
    return digest.digest()


def _digest_corpus(corpus: str) -> blake2b:
    return blake2b(f"{len(corpus)}:{corpus}".encode(), digest_size=IDENTITY_BYTES)


def _content(source: str, target: str, alignment: str | None) -> str:
    if alignment is None:
        return f"r{len(source)}:{source}{len(target)}:{target}"
    return f"c{len(source)}:{source}{len(target)}:{target}{len(alignment)}:{alignment}"


_FIRST_OCCURRENCES = 16
"""Number of occurrences to try for each pair individually."""
_TRIES_PER_WITHDRAWAL = 10
"""Limit of tries for the occurrences of withdrawn pairs, so that the check takes linear time."""

_ALL_CONTENTS = text(
    "SELECT p.id, p.identity, p.corpus_id, p.external_id, p.source, p.target, p.alignment, p.aligned_by,"
    " c.input_alignment FROM sentence_pairs AS p LEFT JOIN link_corrections AS c ON c.pair_id = p.id ORDER BY p.id"
).execution_options(yield_per=10_000)


def wrong_identities(connection: Connection) -> list[int]:
    """Return the sorted ids of pairs whose identity does not match their external id or content.

    Occurrences are not stored, so possible occurrences are tried. The occurrence of a pair is at most the number of
    other stored or withdrawn pairs with the same content.
    """
    linked = read_grammar_kind(connection).needs_links
    corpus_digests = {
        row.id: _digest_corpus(row.name) for row in connection.execute(select(corpora.c.id, corpora.c.name))
    }
    wrong: list[int] = []
    # Try higher occurrences later, for all pairs with the same corpus and content together.
    frequent: dict[tuple[int, tuple[str, ...]], dict[bytes, int]] = {}
    for pair_id, identity, corpus_id, external_id, *sides, alignment, aligned_by, input_alignment in connection.execute(
        _ALL_CONTENTS
    ):
        corpus_digest = corpus_digests.get(corpus_id)
        if corpus_digest is None:
            # Missing corpora are another problem of the store.
            continue
        if external_id is not None:
            if _identity(corpus_digest, _external_content(external_id)) != identity:
                wrong.append(pair_id)
            continue
        source, target = sides
        contents: tuple[str, ...] = ()
        if aligned_by == GIVEN:
            # Use the alignment from the input, because human links change the alignment of the pair.
            contents = (_content(source, target, alignment if input_alignment is None else input_alignment),)
        if aligned_by != GIVEN or not linked:
            contents += (_content(source, target, None),)
        if not _occurs(corpus_digest, contents, range(_FIRST_OCCURRENCES), {identity}):
            frequent.setdefault((corpus_id, contents), {})[identity] = pair_id
    withdrawn = connection.execute(text("SELECT count(*) FROM withdrawals WHERE done_at IS NOT NULL")).scalar_one()
    spare_tries = _TRIES_PER_WITHDRAWAL * withdrawn
    for (corpus_id, contents), pairs in frequent.items():
        extra = min(withdrawn, spare_tries)
        tried = range(_FIRST_OCCURRENCES, _FIRST_OCCURRENCES + len(pairs) + extra)
        remaining = set(pairs)
        if not _occurs(corpus_digests[corpus_id], contents, tried, remaining):
            spare_tries -= extra
        wrong += [pairs[identity] for identity in remaining]
    return sorted(wrong)


def _occurs(
    corpus_digest: blake2b, contents: Sequence[str], occurrences: Iterable[int], identities: set[bytes]
) -> bool:
    """Remove identities that match an occurrence of the contents. Returns True if all were removed."""
    for occurrence in occurrences:
        identities.difference_update(_identity(corpus_digest, f"{content}{occurrence}") for content in contents)
        if not identities:
            return True
    return not identities
