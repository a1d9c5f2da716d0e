"""Changes of a commit: derivations, sweeps, labels, and counts, keys, history and events of rules.

The first commit of a day that changes a frequent rule also records the rule's uses at the start of the day in
`rule_history`. Rare and unchanged rules are not recorded, so the cost of a commit does not depend on the store's size.

An event reports a rule when it becomes frequent, when it becomes rare again, and when its expected uses have changed
since the last report by more than twice the error (as in the view `rule_changes`) and by more than a tenth. A slow
change is therefore reported step by step, and noise is not reported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import insert, select, text, update

from hierogram.samplers.grammar.columns import split_blobs
from hierogram.samplers.grammar.keys import first_rows_by_key
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.database.transactions import (
    WriteTransaction,
    now,
    read_grammar_kind,
    read_rows,
    staged_counts,
    staged_history,
    staged_ids,
    staged_keys,
    staged_progress,
    staged_rule_words,
    upsert,
)
from hierogram.storage.events.feed import append
from hierogram.storage.exceptions import RuleKeyCollisionError, StoreError
from hierogram.storage.grammar.key_index import add_keys, find_candidates, rebuild_runs
from hierogram.storage.grammar.word_index import RuleWords, is_indexed_by_words
from hierogram.storage.pairs.vocabulary import find_or_add_ids
from hierogram.storage.records.columns import CHANGES, NUMBERS, PairUpdates, RuleDeltas
from hierogram.storage.records.grammar import LabelRow, SweepRecord
from hierogram.storage.records.operations import RULE_ADDED, RULE_REMOVED, RULE_UPDATED, RULES_CHANGED, NewEvent
from hierogram.storage.records.pairs import SAMPLING, SETTLED, compute_checksum
from hierogram.storage.records.uncertainty import squared_errors
from hierogram.storage.schema.tables import (
    derivations,
    labels,
    pair_positions,
    reported_rules,
    rule_history,
    rule_words,
    rules,
    sweeps,
)

Rows = NDArray[np.int64]
"""Indices of rows of `NamedChanges`, int64[m]."""
_COLUMNS = ("id", *CHANGES)
_USES = np.dtype([(name, np.float64 if "expected" in name else np.int64) for name in _COLUMNS])
"""Dtype of the uses of a rule, as in the table `rules`. The id of a rule that is not stored is 0."""
Uses = NDArray[Any]


@dataclass(frozen=True, slots=True)
class NamedChanges:
    """Deltas with rule sides as strings. If rows have the same key, only the first has changes.

    `keys` int64[n, 2] are the signed keys of `deltas`. `texts` are all source sides and all target sides.
    """

    deltas: RuleDeltas
    keys: NDArray[np.int64]
    texts: tuple[list[str], list[str]]

    def sides(self, rows: Rows) -> tuple[list[str], list[str]]:
        """Return the source and target sides of the rows."""
        indices = rows.tolist()
        source, target = ([texts[row] for row in indices] for texts in self.texts)
        return source, target


def save_derivations(transaction: WriteTransaction, updates: PairUpdates | None, deltas: RuleDeltas | None) -> None:
    """Write the pairs' derivations and progress, and apply the rule count changes."""
    if updates is not None and len(updates):
        _save_pairs(transaction, updates)
    if deltas is not None and len(deltas):
        change_rules(transaction, merge_deltas(deltas))


def _save_pairs(transaction: WriteTransaction, updates: PairUpdates) -> None:
    contents = updates.ids.tolist(), split_blobs(updates.states), split_blobs(updates.averages)
    transaction.loader.stage(
        staged_progress,
        zip(
            *contents,
            [SETTLED if burned_in else SAMPLING for burned_in in updates.burned_in.tolist()],
            updates.stages.tolist(),
            updates.sweeps.tolist(),
            updates.expected_sweeps.tolist(),
            map(compute_checksum, *contents),
            strict=True,
        ),
    )
    ids, times = np.unique(updates.ids, return_counts=True)
    if (times > 1).any():
        raise StoreError(f"pair {ids[times > 1][0]} has two new derivations in one commit: merge them first")
    before = transaction.execute(
        "SELECT sentence_pairs.state, count(*) FROM staged_progress JOIN sentence_pairs ON id = pair_id"
        " GROUP BY sentence_pairs.state"
    ).all()
    pairs, burned_in = len(updates), int(updates.burned_in.sum())
    if sum(number for _, number in before) != pairs:
        missing = transaction.execute(
            "SELECT min(pair_id) FROM staged_progress WHERE pair_id NOT IN (SELECT id FROM sentence_pairs)"
        ).scalar()
        raise StoreError(f"pair {missing} was withdrawn while it was sampled: run the command again")
    conflict = transaction.execute(
        "SELECT pair_id, expected_sweep, sentence_pairs.sweep FROM staged_progress JOIN sentence_pairs ON id = pair_id"
        " WHERE expected_sweep >= 0 AND expected_sweep <> sentence_pairs.sweep LIMIT 1"
    ).one_or_none()
    if conflict is not None:
        raise StoreError(
            f"pair {conflict.pair_id} was read at sweep {conflict.expected_sweep}, but is at sweep {conflict.sweep} "
            "now, because another process learns on this store: stop one process and restart the other"
        )
    for state, number in before:
        transaction.state.add(state, -number)
    transaction.state.add(SETTLED, burned_in)
    transaction.state.add(SAMPLING, pairs - burned_in)
    transaction.execute(
        "UPDATE sentence_pairs SET state = s.state, stage = s.stage, sweep = s.sweep FROM staged_progress AS s"
        " WHERE sentence_pairs.id = s.pair_id"
    )
    staged = "FROM staged_progress WHERE true ORDER BY pair_id"
    transaction.execute(upsert(derivations, f"SELECT pair_id, current, averages, checksum {staged}"))
    position = transaction.state.position + 1
    transaction.execute(upsert(pair_positions, f"SELECT pair_id, :position {staged}"), position=position)


def append_sweeps(transaction: WriteTransaction, records: Sequence[SweepRecord]) -> None:
    """Record finished sweeps with the current time, and add them to the sweep count of the store."""
    if records:
        finished_at = now()
        rows = [{**record._asdict(), "finished_at": finished_at} for record in records]
        transaction.connection.execute(insert(sweeps), rows)
        transaction.state.sweeps += len(records)


def save_labels(transaction: WriteTransaction, rows: Sequence[LabelRow]) -> None:
    """Insert or update the parameters of labels. Other labels are unchanged."""
    if rows:
        statement = upsert(labels, "VALUES (:label, :strength, :expansion_probability)")
        transaction.connection.execute(text(statement), [row._asdict() for row in rows])


def rekey(transaction: WriteTransaction, keys: Iterable[tuple[int, int, int]]) -> None:
    """Replace the keys of all rules. See `StoredGrammar.rekey`."""
    transaction.loader.stage(staged_keys, keys)
    number_given, given_ids, given_keys, number_stored, stored_ids = transaction.execute(
        "SELECT (SELECT count(*) FROM staged_keys), (SELECT count(DISTINCT rule_id) FROM staged_keys),"
        " (SELECT count(*) FROM (SELECT DISTINCT key_high, key_low FROM staged_keys) AS k),"
        " (SELECT count(*) FROM rules), (SELECT count(*) FROM rules JOIN staged_keys ON rule_id = id)"
    ).one()
    if not number_given == given_ids == given_keys == number_stored == stored_ids:
        raise StoreError(
            f"the new keys do not match the stored rules one to one ({number_stored} rules, {number_given} keys, "
            f"{stored_ids} keys of stored rules, {given_keys} distinct keys): run the command again"
        )
    transaction.execute(
        "UPDATE rules SET key_high = k.key_high, key_low = k.key_low FROM staged_keys AS k WHERE rules.id = k.rule_id"
    )
    rebuild_runs(transaction)


def change_rules(transaction: WriteTransaction, changed: NamedChanges) -> None:
    """Insert, update and delete rules. Raises `StoreError` and `RuleKeyCollisionError`."""
    deltas, state = changed.deltas, transaction.state
    before = _read_uses(transaction, changed)
    after = _add_changes(before, changed)
    is_stored = before["id"] > 0
    is_used = (after["count"] > 0) | (after["expected_uses"] > 0) | (after["minimal_uses"] > 0)
    has_changes = np.any([getattr(deltas, name) != 0 for name in CHANGES], axis=0)
    today = now().strftime("%Y-%m-%d")
    if state.last_change_day != today:
        state.last_change_day, state.last_rule_id_at_day_start = today, state.last_rule_id
    state.rules_in_use += int((after["count"] > 0).sum() - (before["count"] > 0).sum())
    state.rules_expected += int((after["expected_uses"] > 0).sum() - (before["expected_uses"] > 0).sum())
    state.rules_stored += int(is_used.sum() - is_stored.sum())
    state.rule_tokens += int(deltas.count.sum())
    state.expected_tokens += float(deltas.expected_uses.sum())

    _set_counts(transaction, after[is_stored & is_used & has_changes])
    had_words, has_words = (is_indexed_by_words(uses["count"], uses["expected_uses"]) for uses in (before, after))
    _change_words(transaction, changed, before["id"], np.flatnonzero(is_stored & ~had_words & has_words), _ADD_WORDS)

    unused = np.flatnonzero(is_stored & ~is_used)
    if len(unused):
        transaction.loader.stage_columns(staged_ids, [np.sort(before["id"][unused])])
        transaction.delete_staged("rules", column="id")
    _change_words(transaction, changed, before["id"], unused, _DELETE_WORDS)

    new = np.flatnonzero(~is_stored & is_used)
    new_ids = np.arange(len(new)) + state.last_rule_id + 1
    state.last_rule_id += len(new)
    if len(new):
        insert_rules(transaction, changed, new, new_ids)
        insert_rule_words(transaction, changed.sides(new[has_words[new]]), new_ids[has_words[new]])
    keys = changed.keys[np.concatenate((new, unused))]
    add_keys(transaction, keys, np.concatenate((new_ids, -before["id"][unused])))

    before["id"][new] = new_ids
    most_uses = np.maximum(before["expected_uses"], after["expected_uses"])
    recorded = np.flatnonzero((deltas.expected_uses != 0) & (most_uses >= MIN_HISTORY_USES))
    _record_history(transaction, before[recorded], changed.sides(recorded))
    watched = np.flatnonzero((before["expected_uses"] != after["expected_uses"]) & (most_uses >= REMOVED_USES))
    uses = after[watched]
    numbers = (uses["expected_uses"].tolist(), uses["expected_uses_variance"].tolist())
    rows = zip(*changed.sides(watched), *numbers, strict=True)
    # If several parts of a transaction change a rule, the last part has its final uses.
    transaction.watched.update(zip(before["id"][watched].tolist(), rows, strict=True))
    transaction.before_commit = _append_events


def _add_changes(before: Uses, changed: NamedChanges) -> Uses:
    """Return the uses after the changes. Raises `StoreError` if a number would be negative."""
    after = before.copy()
    below = np.zeros(len(before), np.bool_)
    for name in CHANGES:
        after[name] += getattr(changed.deltas, name)
        below |= after[name] < 0
    negative = np.flatnonzero(below)
    if len(negative):
        [uses], [source], [target] = after[negative[:1]], *changed.sides(negative[:1])
        raise StoreError(
            f"the rule {f'{source} ||| {target}'!r} would have a negative count (count {uses['count']}, expected_uses "
            f"{uses['expected_uses']:g}, expected_uses_variance {uses['expected_uses_variance']:g}, minimal_uses "
            f"{uses['minimal_uses']}), so the counts do not match the derivations: run `hierogram verify`"
        )
    return after


def merge_deltas(deltas: RuleDeltas) -> NamedChanges:
    """Add the deltas of rows with equal keys to the first of these rows. Raises `RuleKeyCollisionError`."""
    # View the keys as signed integers, because databases have no unsigned integers.
    keys = np.ascontiguousarray(deltas.keys).view(np.int64)
    sources, targets = deltas.source.strings(), deltas.target.strings()
    firsts = first_rows_by_key(deltas.keys)
    repeated = np.flatnonzero(firsts != np.arange(len(firsts)))
    for row, earlier in zip(repeated.tolist(), firsts[repeated].tolist(), strict=True):
        if (sources[row], targets[row]) != (sources[earlier], targets[earlier]):
            raise RuleKeyCollisionError(deltas.shown(earlier), deltas.shown(row))
    return NamedChanges(deltas.sum_by_group(firsts) if len(repeated) else deltas, keys, (sources, targets))


def _read_uses(transaction: WriteTransaction, named: NamedChanges) -> Uses:
    """Return the stored uses of each row's rule, 0 if new. Raises `RuleKeyCollisionError`."""
    stored = np.zeros(len(named.keys), _USES)
    rows, ids = find_candidates(transaction, named.keys)
    if not len(ids):
        return stored
    transaction.loader.stage_columns(staged_ids, [np.unique(ids)])
    columns = (rules.c[name] for name in (*_COLUMNS, "key_high", "key_low", "source", "target"))
    joined = staged_ids.join(rules, rules.c.id == staged_ids.c.id)
    found = read_rows(transaction.connection, select(*columns).select_from(joined))
    if not found:
        return stored
    *numbers, key_high, key_low, sources, targets = zip(*found, strict=True)
    uses, keys = np.empty(len(sources), _USES), np.array([key_high, key_low], np.int64).T
    for name, column in zip(_COLUMNS, numbers, strict=True):
        uses[name] = column
    by_id = np.argsort(uses["id"], kind="stable")
    indices = np.searchsorted(uses["id"], ids, sorter=by_id)
    is_found = indices < len(by_id)
    rows, ids, indices = rows[is_found], ids[is_found], by_id[indices[is_found]]
    same_key = (uses["id"][indices] == ids) & (named.keys[rows] == keys[indices]).all(axis=1)
    rows, indices = rows[same_key], indices[same_key]
    for row, index in zip(rows.tolist(), indices.tolist(), strict=True):
        if named.texts[0][row] != sources[index] or named.texts[1][row] != targets[index]:
            raise RuleKeyCollisionError(f"{sources[index]} ||| {targets[index]}", named.deltas.shown(row))
    stored[rows] = uses[indices]
    return stored


def _set_counts(transaction: WriteTransaction, uses: Uses) -> None:
    if len(uses):
        uses = uses[np.argsort(uses["id"])]
        transaction.loader.stage_columns(staged_counts, [uses[name] for name in _COLUMNS])
        assignments = {name: staged_counts.c[name] for name in CHANGES}
        is_staged = rules.c.id == staged_counts.c.rule_id
        transaction.connection.execute(update(rules).values(assignments).where(is_staged))


def insert_rules(transaction: WriteTransaction, named: NamedChanges, rows: Rows, ids: NDArray[np.int64]) -> None:
    """Insert rules with the given ids and their deltas as counts. Does not index words or keys."""
    numbers = (getattr(named.deltas, name)[rows] for name in NUMBERS)
    columns = [
        ids.tolist(),
        *named.sides(rows),
        *named.keys[rows].T.tolist(),
        # Bind booleans as integers, which is faster in the SQLite driver.
        *((column.view(np.int8) if column.dtype == np.bool_ else column).tolist() for column in numbers),
    ]
    transaction.loader.insert(rules, zip(*columns, strict=True))


_ADD_WORDS = upsert(rule_words, "SELECT * FROM staged_rule_words WHERE true ORDER BY word_id, rule_id")
_DELETE_WORDS = "DELETE FROM rule_words WHERE (word_id, rule_id) IN (SELECT word_id, rule_id FROM staged_rule_words)"


def _change_words(
    transaction: WriteTransaction, changed: NamedChanges, ids: NDArray[np.int64], rows: Rows, statement: str
) -> None:
    if len(rows):
        entries = rule_word_entries(transaction, changed.sides(rows), ids[rows])
        transaction.loader.stage_columns(staged_rule_words, entries)
        transaction.execute(statement)


def rule_word_entries(
    transaction: WriteTransaction, sides: tuple[list[str], list[str]], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rules' entries in the word index as sorted columns (word ids or anchors, rule ids)."""
    words = RuleWords(
        read_grammar_kind(transaction.connection), partial(find_or_add_ids, transaction), int(ids.max(initial=0))
    )
    entries = words.make_entries(dict(zip((SOURCE, TARGET), sides, strict=True)), ids)
    return words.word_ids(entries), words.rule_ids(entries)


def insert_rule_words(
    transaction: WriteTransaction, sides: tuple[list[str], list[str]], ids: NDArray[np.int64]
) -> None:
    """Add rules to the word index. They must have no entries yet."""
    columns = (column.tolist() for column in rule_word_entries(transaction, sides, ids))
    transaction.loader.insert(rule_words, zip(*columns, strict=True))


MIN_HISTORY_USES = 8
"""Minimum expected uses of rules in the history. Most rules have fewer, and change with every sweep."""
HISTORY_DAYS = 366


def _record_history(transaction: WriteTransaction, before: Uses, sides: tuple[list[str], list[str]]) -> None:
    """Record the uses of rules at the start of the day unless already recorded. New rules had 0 uses."""
    if not len(before):
        return
    state = transaction.state
    new = before["id"] > state.last_rule_id_at_day_start
    numbers = (np.where(new, 0, before[name]).tolist() for name in CHANGES[:3])
    rows = zip(repeat(state.last_change_day), before["id"].tolist(), *sides, *numbers)
    transaction.loader.stage(staged_history, sorted(rows))
    transaction.execute(upsert(rule_history, "SELECT * FROM staged_history WHERE true ORDER BY rule_id", {}))
    oldest = date.fromisoformat(state.last_change_day) - timedelta(days=HISTORY_DAYS)
    transaction.execute("DELETE FROM rule_history WHERE day < :oldest", oldest=oldest.isoformat())


ADDED_USES = 8
"""Number of expected uses at which a rule becomes frequent."""
REMOVED_USES = 4
"""Expected uses below which a frequent rule becomes rare. Below `ADDED_USES` to avoid oscillation."""
MIN_STANDARD_ERRORS = 2.0
"""Number of standard errors that a reported change of expected uses exceeds."""
MIN_RELATIVE_CHANGE = 0.1
"""Share of the last reported expected uses that a reported change exceeds."""
MAX_EVENTS = 500
"""Maximum number of rule events of a transaction. For more rules, a single event reports their number."""


def _append_events(transaction: WriteTransaction) -> None:
    """Report large changes of the watched rules as events."""
    if not transaction.watched:
        return
    ids, changed = zip(*sorted(transaction.watched.items()), strict=True)
    sources, targets, *uses = zip(*changed, strict=True)
    rule_ids, (expected, variances) = np.array(ids, np.int64), np.array(uses, np.float64)
    reported, reported_variances = _reported_uses(transaction, rule_ids)
    is_reported = reported >= 0
    added = ~is_reported & (expected >= ADDED_USES)
    removed = is_reported & (expected < REMOVED_USES)
    change = np.abs(expected - reported)
    error = np.sqrt(squared_errors(expected, variances) + squared_errors(np.maximum(reported, 0.0), reported_variances))
    updated = (
        is_reported & ~removed & (change > MIN_STANDARD_ERRORS * error) & (change > MIN_RELATIVE_CHANGE * reported)
    )
    rows = np.flatnonzero(added | removed | updated)
    if not len(rows):
        return
    if len(rows) > MAX_EVENTS:
        parts = {"added": int(added.sum()), "removed": int(removed.sum()), "updated": int(updated.sum())}
        append(transaction, [NewEvent(RULES_CHANGED, count=len(rows), detail=parts)])
    else:
        append(
            transaction,
            [
                NewEvent(
                    RULE_ADDED if added[row] else RULE_REMOVED if removed[row] else RULE_UPDATED,
                    ids[row],
                    sources[row],
                    targets[row],
                    None if added[row] else float(reported[row]),
                    float(expected[row]),
                    float(error[row]),
                )
                for row in rows.tolist()
            ],
        )
    deleted, inserted = removed | updated, added | updated
    if deleted.any():
        transaction.stage_ids(rule_ids[deleted].tolist())
        transaction.delete_staged("reported_rules", column="rule_id")
    columns = (rule_ids[inserted], expected[inserted], variances[inserted])
    transaction.loader.insert(reported_rules, zip(*(column.tolist() for column in columns), strict=True))


def _reported_uses(
    transaction: WriteTransaction, ids: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the last reported expected uses, -1 for unreported rules, and variances. `ids` are ascending."""
    transaction.stage_ids(ids.tolist())
    reported, variances = np.full(len(ids), -1.0), np.zeros(len(ids))
    stored = select(reported_rules).join(staged_ids, staged_ids.c.id == reported_rules.c.rule_id)
    found = np.array(read_rows(transaction.connection, stored), np.float64).reshape(-1, 3)
    rows = np.searchsorted(ids, found[:, 0].astype(np.int64))
    reported[rows], variances[rows] = found[:, 1], found[:, 2]
    return reported, variances
