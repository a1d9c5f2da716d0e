"""Builders of rows for test stores, and shortcuts that write to stores and read their tables."""

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from sqlalchemy import Row, select, text
from tests.storage.rows import rule_rows

from hierogram.samplers.grammar.columns import join_blobs, join_texts
from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.records.aligner import AlignerChange, AlignerCounts
from hierogram.storage.records.columns import PairUpdates, RuleDeltas
from hierogram.storage.records.grammar import LabelRow, SweepRecord
from hierogram.storage.records.pairs import NewPairs, PairRow
from hierogram.storage.schema.tables import exports
from hierogram.storage.store import Store


class Delta(NamedTuple):
    """A row of `RuleDeltas`, with its key as two signed integers as in the databases."""

    key_high: int
    key_low: int
    source: str
    target: str
    length: int
    scope: int
    nonterminals: int
    source_terminals: int
    target_terminals: int
    hiero: bool
    count: int
    expected_uses: float
    expected_uses_variance: float = 0.0
    minimal_uses: int = 0


class Update(NamedTuple):
    """A row of `PairUpdates`."""

    id: int
    current: bytes
    averages: bytes
    state: str
    stage: int
    sweep: int
    expected_sweep: int = -1


class NewPair(NamedTuple):
    """A row of `NewPairs`."""

    source: str
    target: str
    alignment: str | None
    source_length: int
    target_length: int
    line: int
    external_id: str | None = None
    occurrence: int = 0


def make_pairs(rows: Iterable[NewPair]) -> NewPairs:
    return NewPairs(*(list(zip(*rows, strict=True)) or [()] * 8))


def list_rows(pairs: NewPairs) -> list[NewPair]:
    return [NewPair(*(getattr(pairs, name)[k] for name in NewPairs.__slots__[:8])) for k in range(len(pairs))]


def make_deltas(rows: Iterable[Delta]) -> RuleDeltas:
    columns = list(zip(*rows, strict=True)) or [()] * 14
    keys = np.array(columns[:2], np.int64).T.reshape(-1, 2).copy().view(np.uint64)
    shape = (np.array(column, np.int32) for column in columns[4:9])
    uses = (np.array(column, np.float64) for column in columns[11:13])
    sides = (join_texts(column) for column in columns[2:4])
    hiero, counts, minimal = np.array(columns[9], np.bool_), *(np.array(columns[k], np.int64) for k in (10, 13))
    return RuleDeltas(keys, *sides, *shape, hiero, counts, *uses, minimal)


def make_updates(rows: Iterable[Update]) -> PairUpdates:
    ids, currents, expectations, states, *numbers = list(zip(*rows, strict=True)) or [()] * 7
    assert set(states) <= {"sampling", "settled"}
    burned_in = np.array([state == "settled" for state in states], np.bool_)
    columns = (np.array(column, np.int64) for column in numbers)
    return PairUpdates(np.array(ids, np.int64), join_blobs(currents), join_blobs(expectations), burned_in, *columns)


def commit(
    store: Store,
    updates: Iterable[Update] = (),
    deltas: Iterable[Delta] = (),
    sweeps: Sequence[SweepRecord] = (),
    labels: Sequence[LabelRow] = (),
) -> None:
    store.commit([(make_updates(updates), make_deltas(deltas))], sweeps, labels)


def align(store: Store, change: AlignerChange, updates: Iterable[Update] = (), deltas: Iterable[Delta] = ()) -> None:
    store.commit_alignments(change, make_updates(updates), make_deltas(deltas))


def withdraw(
    store: Store, rows: Sequence[PairRow], deltas: Iterable[Delta] = (), aligner: AlignerChange | None = None
) -> None:
    store.withdraw(rows, make_deltas(deltas), aligner)


NONTERMINAL = re.compile(r"\[X,[1-9][0-9]*\]\Z")


def pair(
    source: str,
    target: str,
    alignment: str = "0-0",
    *,
    line: int = 1,
    external_id: str | None = None,
    occurrence: int = 0,
) -> NewPair:
    return NewPair(
        source, target, alignment, len(source.split(" ")), len(target.split(" ")), line, external_id, occurrence
    )


def make_key(source: str, target: str) -> tuple[int, int]:
    digest = blake2b(json.dumps([source, target]).encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big", signed=True), int.from_bytes(digest[8:], "big", signed=True)


def delta(
    source: str, target: str, count: int = 0, expected_uses: float = 0, minimal_uses: int = 0,
    *, key: tuple[int, int] | None = None,
) -> Delta:  # fmt: skip
    key_high, key_low = key or make_key(source, target)
    variables = [bool(NONTERMINAL.match(symbol)) for symbol in source.split(" ")]
    scope = sum(a and b for a, b in zip([True, *variables], [*variables, True], strict=True))
    nonterminals = sum(variables)
    source_terminals = len(variables) - nonterminals
    target_terminals = len(target.split(" ")) - nonterminals
    return Delta(
        key_high,
        key_low,
        source,
        target,
        source_terminals + target_terminals + scope,
        scope,
        nonterminals,
        source_terminals,
        target_terminals,
        nonterminals <= 2 and len(variables) <= 5,
        count,
        expected_uses,
        minimal_uses=minimal_uses,
    )


def update(pair_id: int, derivation: bytes = b"d", *, state: str = "sampling", sweep: int = 1) -> Update:
    return Update(pair_id, derivation, b"uses of " + derivation, state, 1, sweep)


def ingest(store: Store, pairs: Iterable[NewPair], corpus: str = "corpus") -> int:
    """Store the pairs as one finished batch and return its id."""
    batch = store.begin_ingest(corpus, "file.txt", "bars")
    store.add_pairs(batch, make_pairs(pairs))
    store.finish_ingest(batch)
    return batch


def read_counts(store: Store) -> dict[tuple[str, str], tuple[int, float]]:
    """Return (count, expected uses) of every stored rule."""
    with store.snapshot() as snapshot:
        return {(rule.source, rule.target): (rule.count, rule.expected_uses) for rule in rule_rows(snapshot)}


def export_rows(store: Store, job: str | None = None) -> list[Row[tuple[object, ...]]]:
    """Return the recorded exports, newest first. If `job` is given, only its exports are returned."""
    statement = select(exports).order_by(exports.c.id.desc())
    with store.engine.connect() as connection:
        return list(connection.execute(statement if job is None else statement.where(exports.c.job == job)))


def query(url: str, statement: str, **parameters: object) -> list[tuple[object, ...]]:
    """Execute a statement on a separate connection and commit it. Returns its rows, if any."""
    engine = make_engine(parse_url(url))
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement), parameters)
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


def count_deliveries(store: Store) -> dict[str, int]:
    """Return the number of webhook deliveries in each state."""
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT state, count(*) FROM webhook_deliveries GROUP BY state").all()
    return {"waiting": 0, "done": 0, "failed": 0} | {row[0]: row[1] for row in rows}


def aligner_counts(store: Store) -> AlignerCounts:
    """Return all counts of the aligner, sorted."""
    with store.snapshot() as snapshot:
        parts = list(snapshot.aligner_counts())
    return AlignerCounts(
        sorted(row for part in parts for row in part.lexicon),
        sorted(row for part in parts for row in part.words),
        sorted(row for part in parts for row in part.jumps),
    )


def integrity(store: Store) -> list[str]:
    """Return the damage of the database file, or else the inconsistencies between the tables."""
    with store.snapshot() as snapshot:
        return snapshot.file_damage() or snapshot.table_problems()
