"""Consistent snapshots for reading a whole store while other processes write.

Exports read blocks of a few thousand rows. The database concatenates each column of a block into one text with one
value per line, because reading rows as tuples would take longer than the rest of an export, and would hold the GIL.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Connection, Executable, select, text
from sqlalchemy.exc import DatabaseError

from hierogram.samplers.grammar.numbers import ONE_MINIMAL_USE, ONE_USE
from hierogram.storage.aligner.aligner import iterate_aligner_counts, link_rows
from hierogram.storage.database.connection import POSTGRES, SQLITE
from hierogram.storage.database.transactions import (
    IDS_PER_BLOCK,
    array_parameter,
    in_array,
    largest_id,
    read_rows,
    read_settings,
    read_state,
    rows_with,
)
from hierogram.storage.pairs.pairs import pair_rows
from hierogram.storage.records.aligner import AlignerCounts, LinkRow
from hierogram.storage.records.columns import StoredRules
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.records.operations import StoreState
from hierogram.storage.records.pairs import WAITING, PairOrigin, PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.schema.tables import BLOCK_BITS, corpora, derivations, ingest_batches, pair_links, sentence_pairs

T = TypeVar("T")

_ROWS_PER_FETCH = 5_000

Block = tuple[int, Sequence[str]]
"""Number of rows up to the end of the block, and its columns: one value per line, no final newline."""

PAIR_COLUMNS = ("source", "target", "alignment")

TERM_COLUMNS = ("id", "corpus_id", "day", "source", "target", "alignment")
"""Columns of `Snapshot.pair_blocks` for terms. `day` is the day of storing, in days since 1970-01-01."""

_DAYS = {
    POSTGRES: "CAST(extract(epoch FROM date_trunc('day', added_at AT TIME ZONE 'UTC')) / 86400 AS bigint)",
    SQLITE: "CAST(julianday(date(added_at)) - 2440587.5 AS integer)",
}


class Snapshot:
    """Reads of one state of the store, valid within `Store.snapshot` or `Store.repairing`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def state(self) -> StoreState:
        """Return the positions, last ids and totals of the store."""
        return read_state(self._connection)

    def last_event_id(self) -> int:
        """Return the id of the last event, or 0 before the first event."""
        return largest_id(self._connection, "event_state", "last_event_id")

    def settings(self) -> Settings:
        """Return the settings. Raises `StoreError` if one is missing or invalid."""
        return read_settings(self._connection)

    def rule_ranges(self) -> Iterator[StoredRules]:
        """Yield the table `rules` as columns, in ranges of ids."""
        from hierogram.storage.grammar.counts import IDS_PER_RANGE, stored_rules

        for after in range(0, largest_id(self._connection, "rules"), IDS_PER_RANGE):
            yield stored_rules(self._connection, after, after + IDS_PER_RANGE)

    def rule_blocks(self, columns: Sequence[str], kind: CountKind) -> Iterator[Block]:
        """Yield `columns` of all rules with uses of this `kind`, then the uses as integers (see `_uses`)."""
        used, number = _uses(kind)
        last = read_state(self._connection).last_rule_id
        return self._blocks("rules", (*columns, number), last, f"AND {used} > 0")

    def matching_rule_blocks(
        self, columns: Sequence[str], sides: Mapping[str, Collection[str | int]], kind: CountKind
    ) -> Iterator[Block]:
        """Yield columns like `rule_blocks`, for rules with a `source`, `target` or `id` listed in `sides`."""
        used, number = _uses(kind)
        parameters: dict[str, object] = {}
        source_rows = []
        for side, texts in sides.items():
            parameters[side] = array_parameter(self._connection, texts)
            condition = f"{side} {in_array(self._connection, side)}"
            if side != "id" and self._connection.dialect.name == SQLITE:
                # Name all blocks, because SQLite's indexes by side are ordered by block first.
                blocks = range((read_state(self._connection).last_rule_id >> BLOCK_BITS) + 1)
                parameters["blocks"] = array_parameter(self._connection, blocks)
                condition = f"id >> {BLOCK_BITS} {in_array(self._connection, 'blocks')} AND {condition}"
            source_rows.append(f"SELECT id FROM rules WHERE {condition}")
        statement = text(
            f"SELECT {', '.join((*columns, number))} FROM rules"
            f" WHERE id IN ({' UNION '.join(source_rows)}) AND {used} > 0 ORDER BY id"
        )
        rows = 0
        for partition in self._connection.execute(statement, parameters).partitions(_ROWS_PER_FETCH):
            rows += len(partition)
            yield rows, ["\n".join(map(str, column)) for column in zip(*partition, strict=True)]

    def newest(self) -> tuple[int, int]:
        """Return the largest id of a pair with a derivation, and the last assigned rule id. 0 if none exists."""
        return largest_id(self._connection, "derivations", "pair_id"), read_state(self._connection).last_rule_id

    def count_rules(self, kind: CountKind = CountKind.CURRENT_SAMPLE) -> int:
        """Return the number of rules with uses of this `kind`, as in `rule_blocks`."""
        used, _ = _uses(kind)
        [(number,)] = read_rows(self._connection, f"SELECT count(*) FROM rules WHERE {used} > 0")
        return int(number)

    def variance_per_use(self) -> float | None:
        """Return the total variance of expected uses divided by their sum, or None without uses."""
        statement = "SELECT sum(expected_uses_variance), sum(expected_uses) FROM rules"
        [(variance, uses)] = read_rows(self._connection, statement)
        return float(variance) / float(uses) if uses else None

    def pair_blocks(self, corpus_id: int | None = None, columns: Sequence[str] = PAIR_COLUMNS) -> Iterator[Block]:
        """Yield `PAIR_COLUMNS` or `TERM_COLUMNS` of all aligned pairs, or of the aligned pairs of a corpus."""
        day = _DAYS[self._connection.dialect.name]
        last = read_state(self._connection).last_pair_id
        only = "" if corpus_id is None else f" AND corpus_id = {int(corpus_id)}"
        selected = [day if name == "day" else name for name in columns]
        return self._blocks("sentence_pairs", selected, last, f"AND state <> 'unaligned'{only}")

    def pair_origins(self, pair_ids: Sequence[int]) -> dict[int, PairOrigin]:
        """Return the origins of the given pairs by id. Omits pairs that are not stored."""
        statement = (
            select(sentence_pairs.c.id, sentence_pairs.c.external_id, corpora.c.name, ingest_batches.c.origin)
            .join(corpora, corpora.c.id == sentence_pairs.c.corpus_id)
            .join(ingest_batches, ingest_batches.c.id == sentence_pairs.c.batch_id)
        )
        rows = rows_with(self._connection, statement, sentence_pairs.c.id, pair_ids)
        return {row.id: PairOrigin(row.external_id, row.name, row.origin) for row in rows}

    def target_sides(self, limit: int) -> Iterator[str]:
        """Yield the target sides of the first `limit` pairs, in id order."""
        statement = select(sentence_pairs.c.target).order_by(sentence_pairs.c.id).limit(limit)
        return chain.from_iterable(self._batches(lambda row: str(row[0]), statement, _ROWS_PER_FETCH))

    def word_counts(self, side: str) -> list[tuple[str, int]]:
        """Return the vocabulary of a side (`source` or `target`) with word counts, ordered by word id."""
        statement = "SELECT token, count FROM vocabulary WHERE side = :side ORDER BY id"
        return [(token, count) for token, count in read_rows(self._connection, statement, {"side": side})]

    def corpus_ids(self) -> dict[str, int]:
        """Return the ids of the corpora by name."""
        return dict(read_rows(self._connection, "SELECT name, id FROM corpora"))

    def iterate_derivations(
        self, batch: int = 1_000, corpus_id: int | None = None, after_id: int = 0
    ) -> Iterator[list[PairRow]]:
        """Yield pairs with a derivation and id > `after_id`, also damaged pairs, in id order, in lists."""
        has_derivation = derivations.c.pair_id.is_not(None)
        statement = pair_rows().where(has_derivation, sentence_pairs.c.id > after_id).order_by(sentence_pairs.c.id)
        if corpus_id is not None:
            statement = statement.where(sentence_pairs.c.corpus_id == corpus_id)
        return self._batches(PairRow._make, statement, batch)

    def iterate_waiting(self, batch: int) -> Iterator[list[PairRow]]:
        """Yield the aligned pairs without a derivation, in id order, in lists of up to `batch` pairs."""
        statement = pair_rows().where(sentence_pairs.c.state == WAITING, derivations.c.pair_id.is_(None))
        return self._batches(PairRow._make, statement.order_by(sentence_pairs.c.id), batch)

    def aligner_counts(self) -> Iterator[AlignerCounts]:
        """Yield all counts of the aligner, in parts. Each row is in one part."""
        return iterate_aligner_counts(self._connection)

    def count_human_links(self) -> int:
        """Return the number of human links, fixed or forbidden."""
        [(number,)] = read_rows(self._connection, "SELECT count(*) FROM human_links")
        return int(number)

    def iterate_links(self, batch: int) -> Iterator[list[LinkRow]]:
        """Yield pairs whose links the aligner has counted, also from the input, in batches ordered by id."""
        linked = link_rows().join_from(pair_links, sentence_pairs, sentence_pairs.c.id == pair_links.c.pair_id)
        return self._batches(LinkRow._make, linked.order_by(pair_links.c.pair_id), batch)

    def file_damage(self) -> list[str]:
        """Return the damage that SQLite finds in the store's file, one line each. Always empty for Postgres."""
        if self._connection.dialect.name != SQLITE:
            return []
        problems: list[str] = []
        try:
            problems += self._connection.execute(text("PRAGMA integrity_check")).scalars()
        except DatabaseError as error:
            problems.append(str(error.orig))
        return [f"SQLite reports a damaged file: {line}" for line in problems if line != "ok"]

    def table_problems(self, on_rules: Callable[[StoredRules], None] = lambda _: None) -> list[str]:
        """Return the inconsistencies between the tables. `on_rules` receives all rules by range of ids."""
        from hierogram.storage.checks.integrity import table_problems

        return table_problems(self._connection, on_rules)

    def _blocks(self, table: str, columns: Sequence[str], last: int, condition: str) -> Iterator[Block]:
        # Aggregate each column separately, because concatenating the columns of each row is slow. No column has NULLs,
        # which the aggregates would skip.
        postgres = self._connection.dialect.name == POSTGRES
        joined = (
            f"string_agg(CAST({name} AS text), '\n')" if postgres else f"group_concat({name}, '\n')" for name in columns
        )
        statement = text(f"SELECT {', '.join(joined)} FROM {table} WHERE id > :after AND id <= :until {condition}")
        rows = 0
        for after in range(0, last, IDS_PER_BLOCK):
            block_end = min(after + IDS_PER_BLOCK, last)
            [block] = self._connection.execute(statement, {"after": after, "until": block_end})
            if block[0] is not None:
                rows += str(block[0]).count("\n") + 1
                yield rows, block

    def _batches(self, make: Callable[[Any], T], statement: Executable, batch: int) -> Iterator[list[T]]:
        result = self._connection.execute(statement, execution_options={"yield_per": batch})
        for rows in result.partitions():
            yield list(map(make, rows))


def _uses(kind: CountKind) -> tuple[str, str]:
    """Return two SQL expressions: one > 0 for rules with uses of this `kind`, and the uses as an integer.

    The unit is one use for `CURRENT_SAMPLE`, else 1 / `ONE_USE`.
    """
    if kind is CountKind.CURRENT_SAMPLE:
        return "count", "count"
    number = f"CAST(expected_uses * {ONE_USE} AS BIGINT)"
    if kind is CountKind.POSTERIOR_MEAN:
        return "expected_uses", number
    return "expected_uses + minimal_uses", f"{number} + {ONE_MINIMAL_USE} * minimal_uses"
