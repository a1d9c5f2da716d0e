"""Links that users fix or forbid. The aligner keeps fixed links and does not use forbidden links."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, insert, select

from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.database.transactions import StoreAccess, WriteTransaction, rows_with
from hierogram.storage.exceptions import HumanLinksError
from hierogram.storage.pairs.ingest import correction_row, human_link_rows, text_digest
from hierogram.storage.pairs.pairs import is_undamaged
from hierogram.storage.records.aligner import LinkCorrection
from hierogram.storage.records.pairs import GIVEN, UNALIGNED
from hierogram.storage.schema.tables import human_links, link_corrections, sentence_pairs

Texts = tuple[str, str]

_CORRECTIONS = select(*(link_corrections.c[name] for name in ("pair_id", "version", "input_alignment")))
_IS_PENDING = link_corrections.c.applied_version < link_corrections.c.version


class HumanLinks(StoreAccess):
    """Links of pairs that users fix or forbid."""

    def set_human_links(self, pair_id: int, links: KnownLinks, origin: str) -> bool:
        """Replace the human links of a pair. Returns False if the pair is not stored. Raises `HumanLinksError`."""
        with self._writing() as transaction:
            connection = transaction.connection
            pair = connection.execute(select(sentence_pairs).where(sentence_pairs.c.id == pair_id)).one_or_none()
            if pair is None:
                return False
            problem = links.problem(pair.source_length, pair.target_length)
            if problem:
                raise HumanLinksError(f"pair {pair_id}: {problem}: words are counted from 0")
            transaction.execute("DELETE FROM human_links WHERE pair_id = :pair", pair=pair_id)
            rows = human_link_rows(pair_id, links, origin)
            if rows:
                connection.execute(insert(human_links), rows)
            changed = transaction.execute(
                "UPDATE link_corrections SET version = version + 1 WHERE pair_id = :pair", pair=pair_id
            )
            if rows and not changed.rowcount:
                input_alignment = pair.alignment if pair.aligned_by == GIVEN else None
                row = correction_row(pair_id, pair.source, pair.target, input_alignment)
                connection.execute(insert(link_corrections).values(row))
            return True

    def human_links(self, ids: Collection[int]) -> dict[int, KnownLinks]:
        """Return the human links by pair id. Pairs without human links are omitted."""
        with self._reading() as connection:
            return known_links(connection, ids)

    def pending_corrections(self, limit: int) -> list[LinkCorrection]:
        """Return up to `limit` undamaged, aligned pairs whose alignment does not follow their human links, by id."""
        with self._reading() as connection:
            aligned = _CORRECTIONS.join(sentence_pairs, sentence_pairs.c.id == link_corrections.c.pair_id).where(
                _IS_PENDING, sentence_pairs.c.state != UNALIGNED, is_undamaged(sentence_pairs.c.id)
            )
            rows = connection.execute(aligned.order_by(link_corrections.c.pair_id).limit(limit))
            return [LinkCorrection._make(row) for row in rows]

    def corrections_by_pair(self, ids: Collection[int]) -> list[LinkCorrection]:
        """Return the corrections of these pairs, ordered by id. Includes pairs that no longer have human links."""
        with self._reading() as connection:
            rows = rows_with(connection, _CORRECTIONS, link_corrections.c.pair_id, ids)
            return [LinkCorrection._make(row) for row in rows]

    def is_corrected(self, pair_id: int) -> bool:
        """Check if the pair's alignment follows its human links."""
        pending = select(link_corrections.c.pair_id).where(link_corrections.c.pair_id == pair_id, _IS_PENDING)
        with self._reading() as connection:
            return connection.scalar(pending) is None


def known_links(connection: Connection, ids: Collection[int]) -> dict[int, KnownLinks]:
    """Return the human links by pair id. Pairs without human links are omitted."""
    fixed: dict[int, set[Link]] = {}
    forbidden: dict[int, set[Link]] = {}
    for row in rows_with(connection, select(human_links), human_links.c.pair_id, ids):
        (fixed if row.fixed else forbidden).setdefault(row.pair_id, set()).add((row.source, row.target))
    return {
        pair_id: KnownLinks(frozenset(fixed.get(pair_id, ())), frozenset(forbidden.get(pair_id, ())))
        for pair_id in sorted(fixed.keys() | forbidden.keys())
    }


def known_links_of_texts(connection: Connection, texts: Sequence[Texts]) -> dict[Texts, KnownLinks]:
    """Return the human links of stored pairs by text. If texts are equal, the first pair with human links is used."""
    digests = {text_digest(*pair): pair for pair in texts}
    columns = link_corrections.c.pair_id, link_corrections.c.text_digest
    found = rows_with(connection, select(*columns), link_corrections.c.text_digest, digests)
    pairs = sorted(((pair_id, bytes(digest)) for pair_id, digest in found), reverse=True)
    links_by_pair = known_links(connection, [pair_id for pair_id, _ in pairs])
    return {digests[digest]: links_by_pair[pair_id] for pair_id, digest in pairs if pair_id in links_by_pair}


def finish_corrections(transaction: WriteTransaction, corrected: Sequence[tuple[int, int]]) -> None:
    """Record the version of the human links that each alignment follows. Deletes rows of pairs without links."""
    for pair_id, version in corrected:
        transaction.execute(
            "UPDATE link_corrections SET applied_version = :version WHERE pair_id = :pair",
            version=version,
            pair=pair_id,
        )
        transaction.execute(
            "DELETE FROM link_corrections WHERE pair_id = :pair AND applied_version = version"
            " AND NOT EXISTS (SELECT 1 FROM human_links WHERE pair_id = :pair)",
            pair=pair_id,
        )
