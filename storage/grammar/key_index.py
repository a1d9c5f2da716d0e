"""Index of rules by key.

The index is log-structured: sorted runs of fingerprints and rule ids. Keys are random numbers, so in a B-tree of a
large store each new key would change a different page. Here, a commit adds one run with its new rules. A run that is
not much larger than the runs after it is merged with them, so the number of runs is logarithmic in the size of the
store, and each entry is rewritten only a few times. A process reads each run once and looks keys up by binary search in
memory. A fingerprint has 32 bits, so matches must be verified by comparing keys. Deleting a rule adds a tombstone, an
entry with a negative rule id. A merge with the run of the original entry removes both.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, insert, select

from hierogram.storage.database.transactions import WriteTransaction
from hierogram.storage.grammar.counts import rule_keys
from hierogram.storage.records.columns import KeyRun
from hierogram.storage.schema.tables import rule_key_runs

_MIN_RATIO = 4
"""A run is merged with the newer runs unless it has at least this many times as many entries."""

_MAX_RUN = 16_000_000
"""Maximum number of entries of a run. Larger runs would approach the databases' maximum value size."""

_RUNS_PER_POSITION = 1_000
"""Run ids per store position. Run ids encode the position of the commit, so they are never reused."""

_HALF = np.uint64(32)
_INDEX_MASK = np.uint64((1 << 32) - 1)


def key_fingerprints(keys: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the fingerprints uint32[n] of signed or unsigned keys [n, 2] (high, low)."""
    mixed = keys.view(np.uint64)[:, 0] ^ keys.view(np.uint64)[:, 1]
    return (mixed ^ mixed >> _HALF).astype(np.uint32)


def make_run(fingerprints: NDArray[np.uint32], rule_ids: NDArray[np.int64]) -> KeyRun:
    """Return a run of the given entries, which may be in any order. Negative ids are tombstones."""
    order = _stable_argsort(fingerprints)
    return KeyRun(fingerprints[order], rule_ids[order])


def _stable_argsort(fingerprints: NDArray[np.uint32]) -> NDArray[np.int64]:
    # Pack fingerprint and index into one number, because sorting is several times as fast as argsort.
    numbers = fingerprints.astype(np.uint64) << _HALF | np.arange(len(fingerprints), dtype=np.uint64)
    return (np.sort(numbers) & _INDEX_MASK).astype(np.int64)


def find_matches(run: KeyRun, fingerprints: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all matches of fingerprints in a run, as indices into `fingerprints` and into the run."""
    first = np.searchsorted(run.fingerprints, fingerprints, "left")
    counts = np.zeros(len(fingerprints), np.int64)
    candidates = np.flatnonzero(first < len(run.fingerprints))
    candidates = candidates[run.fingerprints[first[candidates]] == fingerprints[candidates]]
    counts[candidates] = np.searchsorted(run.fingerprints, fingerprints[candidates], "right") - first[candidates]
    before = np.cumsum(counts) - counts
    indices = np.repeat(np.arange(len(fingerprints)), counts)
    return indices, np.arange(len(indices)) + np.repeat(first - before, counts)


def merge_runs(older: KeyRun, newer: KeyRun, *, is_oldest: bool) -> KeyRun:
    """Merge two runs. Tombstones cancel entries of `older`. Unmatched ones are kept unless `is_oldest`."""
    removed = np.flatnonzero(newer.rule_ids < 0)
    indices, rows = find_matches(older, newer.fingerprints[removed])
    is_same_rule = older.rule_ids[rows] == -newer.rule_ids[removed[indices]]
    kept_older = np.ones(len(older.rule_ids), np.bool_)
    kept_older[rows[is_same_rule]] = False
    kept_newer = np.ones(len(newer.rule_ids), np.bool_)
    kept_newer[removed if is_oldest else removed[indices[is_same_rule]]] = False
    fingerprints, rule_ids = older.fingerprints[kept_older], older.rule_ids[kept_older]
    added = newer.fingerprints[kept_newer]
    insert_at = np.searchsorted(fingerprints, added, "right")
    return KeyRun(np.insert(fingerprints, insert_at, added), np.insert(rule_ids, insert_at, newer.rule_ids[kept_newer]))


def encode_run(run: KeyRun) -> bytes:
    """Encode a run: all fingerprints, then all rule ids, little-endian."""
    return run.fingerprints.astype("<u4").tobytes() + run.rule_ids.astype("<i8").tobytes()


def decode_run(content: bytes) -> KeyRun:
    """Decode a run of the table `rule_key_runs`. This is the inverse of `encode_run`."""
    entries = len(content) // 12
    return KeyRun(
        np.frombuffer(content, "<u4", entries).astype(np.uint32),
        np.frombuffer(content, "<i8", entries, 4 * entries).astype(np.int64),
    )


def _runs(transaction: WriteTransaction) -> dict[int, KeyRun]:
    """Return the store's runs by id, oldest first. Reads only runs that are not cached."""
    columns, cached = rule_key_runs.c, transaction.key_runs
    ids = transaction.connection.scalars(select(columns.id).order_by(columns.id)).all()
    missing = [run_id for run_id in ids if run_id not in cached]
    if missing:
        rows = transaction.connection.execute(select(columns.id, columns.content).where(columns.id.in_(missing)))
        cached |= {row.id: decode_run(row.content) for row in rows}
    transaction.key_runs = {run_id: cached[run_id] for run_id in ids}
    return transaction.key_runs


def find_candidates(
    transaction: WriteTransaction, keys: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the key indices and rule ids of all possible matches of keys int64[n, 2], sorted by rule id.

    Includes every rule with one of the keys, and false matches: rules with an equal fingerprint, and deleted rules.
    """
    fingerprints = key_fingerprints(keys)
    # Search in ascending order, because successive searches then hit the processor's cache.
    ascending = _stable_argsort(fingerprints)
    fingerprints = fingerprints[ascending]
    indices, rule_ids = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for run in _runs(transaction).values():
        fingerprint_rows, run_rows = find_matches(run, fingerprints)
        indices.append(ascending[fingerprint_rows])
        rule_ids.append(run.rule_ids[run_rows])
    key_indices, ids = np.concatenate(indices), np.concatenate(rule_ids)
    order = np.argsort(ids, kind="stable")
    order = order[ids[order] > 0]
    return key_indices[order], ids[order]


def add_keys(transaction: WriteTransaction, keys: NDArray[np.int64], rule_ids: NDArray[np.int64]) -> None:
    """Add rules with keys int64[n, 2] to the index. Negative ids are tombstones of deleted rules."""
    if not len(rule_ids):
        return
    runs = _runs(transaction)
    new_run = make_run(key_fingerprints(keys), rule_ids)
    merged = []
    for run_id, run in sorted(runs.items(), reverse=True):
        entries = len(new_run.rule_ids)
        if len(run.rule_ids) >= _MIN_RATIO * entries or len(run.rule_ids) + entries > _MAX_RUN:
            break
        merged.append(run_id)
        new_run = merge_runs(run, new_run, is_oldest=len(merged) == len(runs))
    transaction.connection.execute(delete(rule_key_runs).where(rule_key_runs.c.id.in_(merged)))
    for run_id in merged:
        del transaction.key_runs[run_id]
    _write(transaction, new_run)


def rebuild_runs(transaction: WriteTransaction) -> None:
    """Replace the index by an index of the table `rules`."""
    transaction.connection.execute(delete(rule_key_runs))
    transaction.key_runs.clear()
    rule_ids, keys = rule_keys(transaction.connection)
    entries = make_run(key_fingerprints(keys), rule_ids)
    for first in range(0, len(entries.rule_ids), _MAX_RUN):
        last = first + _MAX_RUN
        _write(transaction, KeyRun(entries.fingerprints[first:last], entries.rule_ids[first:last]))


def stored_runs(connection: Connection) -> Iterator[KeyRun]:
    """Yield the store's runs, oldest first. Reads one run at a time, to limit memory."""
    statement = select(rule_key_runs.c.content).order_by(rule_key_runs.c.id)
    for content in connection.scalars(statement, execution_options={"yield_per": 1}):
        yield decode_run(content)


def _write(transaction: WriteTransaction, run: KeyRun) -> None:
    if not len(run.rule_ids):
        return
    # Give each run a higher id than all older runs, because runs are ordered by id.
    run_id = max((transaction.state.position + 1) * _RUNS_PER_POSITION, 1 + max(transaction.key_runs, default=0))
    transaction.connection.execute(
        insert(rule_key_runs).values(id=run_id, entries=len(run.rule_ids), content=encode_run(run))
    )
    transaction.key_runs[run_id] = run
