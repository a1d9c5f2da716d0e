"""Links that people fix or forbid, of pairs as they come in."""

from collections.abc import Sequence
from hashlib import blake2b

from sqlalchemy import insert

from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.database.transactions import Writing, now
from hierogram.storage.operations.settings import read_notation
from hierogram.storage.records import NewPairs
from hierogram.storage.schema.tables import corrections, human_links

_DIGEST_BYTES = 16


def text_digest(source: str, target: str) -> bytes:
    """BLAKE2b-128 of both sides of a pair."""
    return blake2b(f"{len(source)}:{source}{target}".encode(), digest_size=_DIGEST_BYTES).digest()


def insert_links(writing: Writing, pair_ids: Sequence[int], pairs: NewPairs, origin: str) -> None:
    """Enters what people say of the links of pairs that come in just now; it is known to fit them."""
    if not pairs.known:
        return
    linked = read_notation(writing.connection).linked
    said, changed = [], []
    for place, links in sorted(pairs.known.items()):
        pair_id = pair_ids[place]
        said += rows_of_links(pair_id, links, origin)
        digest = text_digest(pairs.sources[place], pairs.targets[place])
        given = pairs.alignments[place] if linked else pairs.alignments[place] or ""
        changed.append({"pair_id": pair_id, "asked": 1, "done": 0, "given": given, "digest": digest})
    writing.connection.execute(insert(human_links), said)
    writing.connection.execute(insert(corrections), changed)


def rows_of_links(pair_id: int, links: KnownLinks, origin: str) -> list[dict[str, object]]:
    """What people say of a pair's links as rows of `human_links`."""
    moment = now()
    return [
        {"pair_id": pair_id, "source": s, "target": t, "fixed": fixed, "origin": origin, "added_at": moment}
        for fixed, some in ((True, links.fixed), (False, links.forbidden))
        for s, t in sorted(some)
    ]
