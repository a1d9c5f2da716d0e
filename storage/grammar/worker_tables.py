"""Worker tables on Postgres: parts of a commit that workers write and the lease holder merges into the store.

A worker writes a part of a commit to separate tables of pairs, rules and words, and commits them, so that other
connections see them. They are not part of the store. The lease holder merges and drops them in one transaction. Tables
of a lease that has ended are dropped when the next lease is taken, see `leases`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, Connection, Integer, MetaData, Table, text
from sqlalchemy.schema import CreateTable

from hierogram.samplers.grammar.columns import Blobs, Texts, join_blobs
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.database.copying import read_numbers_on_postgres
from hierogram.storage.database.loading import (
    PostgresLoader,
    read_columns,
    staged_candidates,
    staged_progress,
    staged_rule_words,
)
from hierogram.storage.database.settings import read_notation
from hierogram.storage.database.transactions import WriteTransaction
from hierogram.storage.exceptions import RuleKeyCollisionError, StoreError
from hierogram.storage.grammar.changes import Rows, StoredUses, change_rules, index_words
from hierogram.storage.grammar.commits import save_progress
from hierogram.storage.grammar.key_runs import find_candidates
from hierogram.storage.grammar.rule_words import RuleWords
from hierogram.storage.pairs.vocabulary import known_words
from hierogram.storage.records import SAMPLING, SETTLED
from hierogram.storage.records.columns import NUMBERS, PairUpdates, RuleChanges, RuleDeltas, WrittenPart
from hierogram.storage.schema.tables import SERIAL, rules

_RULE_COLUMNS = ("source", "target", "key_high", "key_low", *NUMBERS)
_STATES = np.array([SAMPLING, SETTLED])


def write_part(connection: Connection, name: str, updates: PairUpdates, deltas: RuleDeltas) -> WrittenPart:
    """Write a part of a commit to new tables with the prefix `name`."""
    pairs, of_rules, of_words = tables = _tables(name)
    for table in tables:
        connection.execute(CreateTable(table))
    loader = PostgresLoader(connection)
    states = join_blobs([state.encode() for state in _STATES[updates.burned_in.astype(np.int64)].tolist()])
    progress = (updates.states, updates.averages, states, updates.stages, updates.sweeps, updates.since)
    loader.insert_columns(pairs, [updates.ids, *progress, np.array(updates.checksums(), np.int64)])
    keys = np.ascontiguousarray(deltas.keys).view(np.int64)
    sides = [_text_bytes(side) for side in (deltas.sources, deltas.targets)]
    numbers = [deltas.numbers(column) for column in NUMBERS]
    loader.insert_columns(of_rules, [np.arange(len(deltas)), *sides, keys[:, 0], keys[:, 1], *numbers])
    rows = np.flatnonzero(_has_words(deltas))
    words = RuleWords(read_notation(connection), partial(_word_ids, connection), len(deltas))
    found = words.find({SOURCE: deltas.sources.at(rows), TARGET: deltas.targets.at(rows)}, rows)
    loader.insert_columns(of_words, [words.word_ids(found), words.rule_ids(found)])
    for table in tables:
        loader.analyze(table)
    changes = RuleChanges(*(getattr(deltas, column) for column in RuleChanges._fields))
    return WrittenPart(name, len(updates), int(updates.burned_in.sum()), changes)


def _tables(name: str) -> tuple[Table, Table, Table]:
    """Return the tables of a part: pairs as in `staged_progress`, rules by row, and words of rules by row."""

    def table(ending: str, *columns: Column[object]) -> Table:
        return Table(f"{name}_{ending}", MetaData(), *columns, prefixes=["UNLOGGED"])

    return (
        table("pairs", *(Column(column.name, column.type) for column in staged_progress.columns)),
        table("rules", Column("n", Integer), *(Column(one, rules.c[one].type) for one in _RULE_COLUMNS)),
        table("words", Column("word_id", SERIAL), Column("n", SERIAL)),
    )


def _has_words(deltas: RuleDeltas | RuleChanges) -> NDArray[np.bool_]:
    """Return a mask of the rules whose words a worker writes: most rules that will be indexed or deleted."""
    written: NDArray[np.bool_] = (deltas.counts != 0) | (np.abs(deltas.expected_uses) >= 0.5)
    return written


def _text_bytes(texts: Texts) -> Blobs:
    """Return the texts without their final line feeds."""
    content = np.delete(texts.content, texts.offsets[1:] - 1)
    return Blobs(content, texts.offsets - np.arange(len(texts.offsets)))


def _word_ids(connection: Connection, side: str, tokens: Iterable[str]) -> Mapping[str, int]:
    wanted = list(dict.fromkeys(tokens))
    found = known_words(connection, side, wanted)
    missing = [token for token in wanted if token not in found]
    if missing:
        raise StoreError(
            f"the {side} word {missing[0]!r} of a pair is missing from the vocabulary: run `hierogram verify`"
        )
    return found


def merge_part(transaction: WriteTransaction, part: WrittenPart) -> None:
    """Merge a worker's part into the transaction and drop its tables. Raises the errors of `save_derivations`."""
    tables = _tables(part.name)
    pairs, of_rules, of_words = tables
    save_progress(transaction, pairs, part.pairs, part.burned_in)
    if len(part.changes.keys):
        change_rules(transaction, _WorkerRules(part.changes, of_rules.name, of_words.name))
    for table in tables:
        transaction.connection.execute(text(f"DROP TABLE {table.name}"))


@dataclass(frozen=True, slots=True)
class _WorkerRules:
    """Rules in a worker's tables; implements `ChangedRules`."""

    deltas: RuleChanges
    rules: str
    words: str

    def stored(self, transaction: WriteTransaction) -> StoredUses:
        stored = StoredUses.nothing(len(self.deltas.keys))
        rows, ids = find_candidates(transaction, np.ascontiguousarray(self.deltas.keys).view(np.int64))
        if not len(ids):
            return stored
        transaction.loader.stage_columns(staged_candidates, [rows, ids])
        found = f"FROM staged_candidates AS c JOIN {self.rules} AS w ON w.n = c.n JOIN rules AS r ON r.id = c.rule_id"
        same = "r.key_high = w.key_high AND r.key_low = w.key_low"
        columns = {"w.n": "i4", "r.id": "i8", "r.count": "i8", "r.minimal_uses": "i8", "r.expected_uses": "f8"}
        columns |= {"r.expected_uses_variance": "f8", "(r.source <> w.source OR r.target <> w.target)::int": "i4"}
        numbers, ids, counts, minimal, expected, variances, differs = read_numbers_on_postgres(
            transaction.connection, columns, f"{found} WHERE {same}"
        )
        if differs.any():
            other = f"w.n = {int(numbers[differs != 0][0])}"
            rows_found = transaction.connection.execute(
                text(f"SELECT r.source, r.target, w.source, w.target {found} WHERE {same} AND {other}")
            )
            sides = tuple(rows_found.one())
            raise RuleKeyCollisionError(" ||| ".join(sides[:2]), " ||| ".join(sides[2:]))
        stored.ids[numbers], stored.counts[numbers], stored.minimal[numbers] = ids, counts, minimal
        stored.expected[numbers], stored.variances[numbers] = expected, variances
        return stored

    def sides(self, transaction: WriteTransaction, rows: Rows) -> tuple[list[str], list[str]]:
        if not len(rows):
            return [], []
        self._stage(transaction, rows, np.arange(len(rows)))
        found = read_columns(
            transaction.connection,
            text(
                f"SELECT w.source, w.target FROM staged_candidates AS c JOIN {self.rules} AS w ON w.n = c.n"
                " ORDER BY c.rule_id"
            ),
        )
        return list(found[0]), list(found[1])

    def insert(self, transaction: WriteTransaction, rows: Rows, ids: NDArray[np.int64]) -> None:
        self._stage(transaction, rows, ids)
        columns = ", ".join(_RULE_COLUMNS)
        transaction.connection.execute(
            text(
                f"INSERT INTO rules (id, {columns}) SELECT c.rule_id, {columns} FROM staged_candidates AS c"
                f" JOIN {self.rules} AS w ON w.n = c.n ORDER BY c.rule_id"
            )
        )

    def insert_words(self, transaction: WriteTransaction, rows: Rows, ids: NDArray[np.int64]) -> None:
        # The deltas of a new rule are its counts, so each new rule to index has its words in the table.
        self._stage(transaction, rows, ids)
        transaction.connection.execute(text(f"INSERT INTO rule_words (word_id, rule_id) {self._words()} ORDER BY 1, 2"))

    def stage_words(self, transaction: WriteTransaction, rows: Rows, ids: NDArray[np.int64]) -> None:
        written = _has_words(self.deltas)[rows]
        others = np.flatnonzero(~written)
        found: Sequence[NDArray[np.int64]] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        if len(others):
            found = index_words(transaction, self.sides(transaction, rows[others]), ids[others])
        transaction.loader.stage_columns(staged_rule_words, found)
        self._stage(transaction, rows[written], ids[written])
        transaction.connection.execute(text(f"INSERT INTO staged_rule_words (word_id, rule_id) {self._words()}"))

    def _words(self) -> str:
        return f"SELECT w.word_id, c.rule_id FROM staged_candidates AS c JOIN {self.words} AS w ON w.n = c.n WHERE true"

    def _stage(self, transaction: WriteTransaction, rows: Rows, ids: NDArray[np.int64]) -> None:
        """Stage row numbers of the part's rules, with an id for each, in `staged_candidates`."""
        transaction.loader.stage_columns(staged_candidates, [rows, ids])
