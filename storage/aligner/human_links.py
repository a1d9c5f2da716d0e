"""Links that users fix or forbid. The aligner keeps fixed links and does not use forbidden links."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, insert, select, update

from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.database.transactions import StoreAccess, WriteTransaction, read_rows
from hierogram.storage.exceptions import HumanLinksError
from hierogram.storage.pairs.ingest import correction_row, human_link_rows, text_digest
from hierogram.storage.pairs.pairs import is_undamaged
from hierogram.storage.records.aligner import LinkCorrection
from hierogram.storage.records.pairs import GIVEN, UNALIGNED
from hierogram.storage.schema.tables import human_links, link_corrections, sentence_pairs

Texts = tuple[str, str]

_CORRECTIONS = select(link_corrections.c.pair_id, link_corrections.c.version, link_corrections.c.input_alignment)


class HumanLinks(StoreAccess):
    """Links of pairs that users fix or forbid."""

    def set_human_links(self, pair_id: int, links: KnownLinks, origin: str) -> bool:
        """Replace the human links of a pair. Returns False if the pair is not stored. Raises `HumanLinksError`."""
        with self._writing() as transaction:
            connection = transaction.connection
            columns = sentence_pairs.c
            pair = connection.execute(
                select(
                    columns.source, columns.target, columns.alignment, columns.aligned_by, columns.source_length,
                    columns.target_length,
                ).where(columns.id == pair_id)
            ).one_or_none()  # fmt: skip
            if pair is None:
                return False
            problem = links.problem(pair.source_length, pair.target_length)
            if problem:
                raise HumanLinksError(f"pair {pair_id}: {problem}: words are counted from 0")
            connection.execute(delete(human_links).where(human_links.c.pair_id == pair_id))
            rows = human_link_rows(pair_id, links, origin)
            if rows:
                connection.execute(insert(human_links), rows)
            changed = connection.execute(
                update(link_corrections)
                .where(link_corrections.c.pair_id == pair_id)
                .values(version=link_corrections.c.version + 1)
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
            rows = connection.execute(
                _CORRECTIONS.join(sentence_pairs, sentence_pairs.c.id == link_corrections.c.pair_id)
                .where(
                    link_corrections.c.applied_version < link_corrections.c.version,
                    sentence_pairs.c.state != UNALIGNED,
                    is_undamaged(sentence_pairs.c.id),
                )
                .order_by(link_corrections.c.pair_id)
                .limit(limit)
            )
            return [LinkCorrection._make(row) for row in rows]

    def corrections_by_pair(self, ids: Collection[int]) -> list[LinkCorrection]:
        """Return the corrections of these pairs, ordered by id. Includes pairs that no longer have human links."""
        with self._reading() as connection:
            if not ids:
                return []
            chosen = set(ids)
            rows = connection.execute(
                _CORRECTIONS.where(link_corrections.c.pair_id.between(min(chosen), max(chosen))).order_by(
                    link_corrections.c.pair_id
                )
            )
            return [LinkCorrection._make(row) for row in rows if row.pair_id in chosen]

    def is_corrected(self, pair_id: int) -> bool:
        """Check if the pair's alignment follows its human links."""
        pending = select(link_corrections.c.pair_id).where(
            link_corrections.c.pair_id == pair_id, link_corrections.c.applied_version < link_corrections.c.version
        )
        with self._reading() as connection:
            return connection.scalar(pending) is None


def known_links(connection: Connection, ids: Collection[int]) -> dict[int, KnownLinks]:
    """Return the human links by pair id. Pairs without human links are omitted."""
    if not ids:
        return {}
    chosen = set(ids)
    fixed: dict[int, set[Link]] = {}
    forbidden: dict[int, set[Link]] = {}
    # Read one range of the index, because few pairs between these ids have human links.
    rows = connection.execute(
        select(human_links.c.pair_id, human_links.c.source, human_links.c.target, human_links.c.fixed).where(
            human_links.c.pair_id.between(min(chosen), max(chosen))
        )
    )
    for pair_id, source, target, is_fixed in rows:
        (fixed if is_fixed else forbidden).setdefault(pair_id, set()).add((source, target))
    return {
        pair_id: KnownLinks(frozenset(fixed.get(pair_id, ())), frozenset(forbidden.get(pair_id, ())))
        for pair_id in sorted((fixed.keys() | forbidden.keys()) & chosen)
    }


def known_links_of_texts(connection: Connection, texts: Sequence[Texts]) -> dict[Texts, KnownLinks]:
    """Return the human links of stored pairs by text. If texts are equal, the first pair with human links is used."""
    if not texts:
        return {}
    digests = {text_digest(*pair): pair for pair in texts}
    parameters = {f"d{n}": digest for n, digest in enumerate(sorted(digests))}
    names = ", ".join(f":{name}" for name in parameters)
    rows = read_rows(
        connection,
        f"SELECT text_digest, pair_id FROM link_corrections WHERE text_digest IN ({names}) ORDER BY pair_id DESC",
        parameters,
    )
    links_by_pair = known_links(connection, {pair_id for _, pair_id in rows})
    return {digests[bytes(digest)]: links_by_pair[pair_id] for digest, pair_id in rows if pair_id in links_by_pair}


def finish_corrections(transaction: WriteTransaction, corrected: Sequence[tuple[int, int]]) -> None:
    """Record the version of the human links that each alignment follows. Deletes rows of pairs without links."""
    connection = transaction.connection
    for pair_id, version in corrected:
        connection.execute(
            update(link_corrections).where(link_corrections.c.pair_id == pair_id).values(applied_version=version)
        )
        has_links = select(human_links.c.pair_id).where(human_links.c.pair_id == pair_id).exists()
        connection.execute(
            delete(link_corrections).where(
                link_corrections.c.pair_id == pair_id,
                link_corrections.c.applied_version == link_corrections.c.version,
                ~has_links,
            )
        )
