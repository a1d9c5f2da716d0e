"""Writes of derivations, sweeps and labels, and re-keying of all rules."""

from collections.abc import Iterable, Sequence

import numpy as np
from sqlalchemy import func, insert, select, text, update

from hierogram.samplers.grammar.columns import split_blobs
from hierogram.storage.database.transactions import WriteTransaction, now, staged_keys, staged_progress
from hierogram.storage.exceptions import StoreError
from hierogram.storage.grammar.changes import change_rules, merge_deltas
from hierogram.storage.grammar.key_runs import rebuild
from hierogram.storage.records.columns import PairUpdates, RuleDeltas
from hierogram.storage.records.grammar import LabelRow, SweepRecord
from hierogram.storage.records.pairs import SAMPLING, SETTLED
from hierogram.storage.schema.tables import rules, sentence_pairs, sweeps


def save_derivations(transaction: WriteTransaction, updates: PairUpdates | None, deltas: RuleDeltas | None) -> None:
    """Write the pairs' derivations and progress, and apply the rule count changes."""
    if updates is not None and len(updates):
        _save_pairs(transaction, updates)
    if deltas is not None and len(deltas):
        change_rules(transaction, merge_deltas(deltas))


def _save_pairs(transaction: WriteTransaction, updates: PairUpdates) -> None:
    transaction.loader.stage(
        staged_progress,
        zip(
            updates.ids.tolist(),
            split_blobs(updates.states),
            split_blobs(updates.averages),
            [SETTLED if burned_in else SAMPLING for burned_in in updates.burned_in.tolist()],
            updates.stages.tolist(),
            updates.sweeps.tolist(),
            updates.expected_sweeps.tolist(),
            updates.checksums(),
            strict=True,
        ),
    )
    connection, totals, columns = transaction.connection, transaction.state, staged_progress.c
    pairs, burned_in = len(updates), int(updates.burned_in.sum())
    ids, times = np.unique(updates.ids, return_counts=True)
    if (times > 1).any():
        raise StoreError(f"pair {ids[times > 1][0]} has two new derivations in one commit: merge them first")
    before = connection.execute(
        select(sentence_pairs.c.state, func.count())
        .select_from(staged_progress.join(sentence_pairs, sentence_pairs.c.id == columns.pair_id))
        .group_by(sentence_pairs.c.state)
    ).all()
    if sum(number for _, number in before) != pairs:
        missing = connection.scalar(
            select(func.min(columns.pair_id))
            .outerjoin(sentence_pairs, sentence_pairs.c.id == columns.pair_id)
            .where(sentence_pairs.c.id.is_(None))
        )
        raise StoreError(f"pair {missing} was withdrawn while it was sampled: run the command again")
    moved = connection.execute(
        select(columns.pair_id, columns.expected_sweep, sentence_pairs.c.sweep)
        .join(sentence_pairs, sentence_pairs.c.id == columns.pair_id)
        .where(columns.expected_sweep >= 0, columns.expected_sweep != sentence_pairs.c.sweep)
        .limit(1)
    ).one_or_none()
    if moved is not None:
        raise StoreError(
            f"pair {moved.pair_id} was read at sweep {moved.expected_sweep}, but is at sweep {moved.sweep} now, "
            "because another process learns on this store: stop one process and restart the other"
        )
    for state, number in before:
        totals.count_pairs(state, -number)
    totals.count_pairs(SETTLED, burned_in)
    totals.count_pairs(SAMPLING, pairs - burned_in)
    connection.execute(
        update(sentence_pairs)
        .values(state=columns.state, stage=columns.stage, sweep=columns.sweep)
        .where(sentence_pairs.c.id == columns.pair_id)
    )
    connection.execute(
        text(
            "INSERT INTO derivations (pair_id, current, averages, checksum)"
            " SELECT pair_id, current, averages, checksum FROM staged_progress WHERE true ORDER BY pair_id"
            " ON CONFLICT (pair_id) DO UPDATE SET current = excluded.current, averages = excluded.averages,"
            " checksum = excluded.checksum"
        )
    )
    connection.execute(
        text(
            "INSERT INTO pair_positions (pair_id, position)"
            " SELECT pair_id, :position FROM staged_progress WHERE true ORDER BY pair_id"
            " ON CONFLICT (pair_id) DO UPDATE SET position = excluded.position"
        ),
        {"position": transaction.state.position + 1},
    )


def append_sweeps(transaction: WriteTransaction, records: Sequence[SweepRecord]) -> None:
    """Record finished sweeps with the current time, and add them to the sweep count of the store."""
    if not records:
        return
    finished_at = now()
    transaction.connection.execute(
        insert(sweeps), [{**record._asdict(), "finished_at": finished_at} for record in records]
    )
    transaction.state.sweeps += len(records)


def save_labels(transaction: WriteTransaction, rows: Sequence[LabelRow]) -> None:
    """Insert or update the parameters of labels. Other labels are unchanged."""
    if not rows:
        return
    transaction.connection.execute(
        text(
            "INSERT INTO labels (label, strength, expansion_probability)"
            " VALUES (:label, :strength, :expansion_probability)"
            " ON CONFLICT (label) DO UPDATE SET strength = excluded.strength,"
            " expansion_probability = excluded.expansion_probability"
        ),
        [row._asdict() for row in rows],
    )


def rekey(transaction: WriteTransaction, keys: Iterable[tuple[int, int, int]]) -> None:
    """Replace the keys of all rules, given as (id, high, low)."""
    connection = transaction.connection
    transaction.loader.stage(staged_keys, keys)
    offered, ids, pairs = connection.execute(
        text(
            "SELECT (SELECT count(*) FROM staged_keys),"
            " (SELECT count(DISTINCT rule_id) FROM staged_keys),"
            " (SELECT count(*) FROM (SELECT DISTINCT key_high, key_low FROM staged_keys) AS k)"
        )
    ).one()
    stored = connection.scalar(select(func.count()).select_from(rules))
    count = connection.scalar(
        select(func.count()).select_from(rules.join(staged_keys, rules.c.id == staged_keys.c.rule_id))
    )
    if not offered == ids == pairs == stored == count:
        raise StoreError(
            f"new keys must match the stored rules one to one: {stored} rules are stored, got {offered} keys, {count} "
            f"of them for a stored rule and {pairs} distinct: try another salt"
        )
    connection.execute(
        update(rules)
        .values(key_high=staged_keys.c.key_high, key_low=staged_keys.c.key_low)
        .where(rules.c.id == staged_keys.c.rule_id)
    )
    rebuild(transaction)
