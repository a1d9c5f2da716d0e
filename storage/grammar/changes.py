"""Changes of rule counts: insert new rules, update counts, and delete rules without uses.

The first commit of a day that changes a frequent rule also records the rule's uses at the start of the day in
`rule_history`. Rare and unchanged rules are not recorded, so the cost of a commit does not depend on the store's size.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, select, text, update

from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.database.settings import read_grammar_kind
from hierogram.storage.database.transactions import (
    WriteTransaction,
    delete_staged,
    now,
    read_columns,
    staged_counts,
    staged_history,
    staged_ids,
    staged_rule_words,
    staged_rules,
)
from hierogram.storage.events.rule_events import REMOVED_USES, ChangedUses, watch
from hierogram.storage.exceptions import RuleKeyCollisionError, StoreError
from hierogram.storage.grammar.key_runs import add_keys, find_candidates
from hierogram.storage.grammar.rule_words import RuleWords, is_indexed_by_words
from hierogram.storage.pairs.vocabulary import word_ids
from hierogram.storage.records.columns import NUMBERS, RuleDeltas
from hierogram.storage.schema.tables import rule_history, rule_words, rules

_EXPECTED = ("expected_uses", "expected_uses_variance")

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoredUses:
    """Uses of n rules, as stored. The ids of rules that are not stored are 0."""

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    expected: NDArray[np.float64]
    variances: NDArray[np.float64]
    minimal: NDArray[np.int64]

    @classmethod
    def zeros(cls, size: int) -> "StoredUses":
        """Return zeros, for rules that are not stored."""
        zeros = np.zeros((3, size), np.int64)
        return cls(zeros[0], zeros[1], np.zeros(size), np.zeros(size), zeros[2])

    def chosen(self, rows: Rows) -> "StoredUses":
        """Return the uses of the selected rules."""
        return StoredUses(
            self.ids[rows], self.counts[rows], self.expected[rows], self.variances[rows], self.minimal[rows]
        )

    def used(self) -> NDArray[np.bool_]:
        """Return a mask of the rules that have uses of any kind."""
        used: NDArray[np.bool_] = (self.counts > 0) | (self.expected > 0) | (self.minimal > 0)
        return used


@dataclass(frozen=True, slots=True)
class NamedChanges:
    """Deltas with the rule sides as Python strings. If several rows have the same key, only the first has changes."""

    deltas: RuleDeltas
    keys: NDArray[np.int64]
    texts: tuple[list[str], list[str]]

    def sides(self, rows: Rows) -> tuple[list[str], list[str]]:
        """Return the source and target sides of the rows."""
        chosen = rows.tolist()
        source, target = ([texts[row] for row in chosen] for texts in self.texts)
        return source, target


def change_rules(transaction: WriteTransaction, changed: NamedChanges) -> None:
    """Insert, update and delete rules. Raises `StoreError` and `RuleKeyCollisionError`."""
    deltas = changed.deltas
    before = _stored(transaction, changed)
    after = StoredUses(
        before.ids,
        before.counts + deltas.count,
        before.expected + deltas.expected_uses,
        before.variances + deltas.expected_uses_variance,
        before.minimal + deltas.minimal_uses,
    )
    below = (after.counts < 0) | (after.expected < 0) | (after.variances < 0) | (after.minimal < 0)
    negative = np.flatnonzero(below)
    if len(negative):
        row = int(negative[0])
        [source], [target] = changed.sides(negative[:1])
        raise StoreError(
            f"the rule {f'{source} ||| {target}'!r} would have a negative count (count {after.counts[row]}, "
            f"expected_uses {after.expected[row]:g}, expected_uses_variance {after.variances[row]:g}, minimal_uses "
            f"{after.minimal[row]}), so the counts do not match the derivations: run `hierogram verify`"
        )
    state = transaction.state
    is_stored, used = before.ids > 0, after.used()
    state.rules_in_use += int((after.counts > 0).sum() - (before.counts > 0).sum())
    state.rules_expected += int((after.expected > 0).sum() - (before.expected > 0).sum())
    state.rules_stored += int(used.sum() - is_stored.sum())
    state.rule_tokens += int(deltas.count.sum())
    state.expected_tokens += float(deltas.expected_uses.sum())
    today = now().strftime("%Y-%m-%d")
    if state.last_change_day != today:
        state.last_change_day, state.last_rule_id_at_day_start = today, state.last_rule_id
    moved = (deltas.count != 0) | (deltas.expected_uses != 0)
    moved |= (deltas.expected_uses_variance != 0) | (deltas.minimal_uses != 0)
    _set_counts(transaction, after, np.flatnonzero(is_stored & used & moved))
    had_words, has_words = (is_indexed_by_words(stored.counts, stored.expected) for stored in (before, after))
    _index_more_words(transaction, changed, after, np.flatnonzero(is_stored & ~had_words & has_words))
    unused_rows = np.flatnonzero(is_stored & ~used)
    _delete_rules(transaction, changed, before, unused_rows)
    new = np.flatnonzero(~is_stored & used)
    new_ids = np.arange(len(new)) + state.last_rule_id + 1
    state.last_rule_id += len(new)
    if len(new):
        insert_rules(transaction, changed, new, new_ids)
        by_words = is_indexed_by_words(deltas.count[new], deltas.expected_uses[new])
        insert_rule_words(transaction, changed.sides(new[by_words]), new_ids[by_words])
    ids = before.ids.copy()
    ids[new] = new_ids
    most_uses = np.maximum(before.expected, after.expected)
    recorded = np.flatnonzero((deltas.expected_uses != 0) & (most_uses >= MIN_HISTORY_USES))
    _record_history(transaction, ids[recorded], changed.sides(recorded), before.chosen(recorded))
    watched = np.flatnonzero((before.expected != after.expected) & (most_uses >= REMOVED_USES))
    sides = changed.sides(watched)
    watch(transaction, ChangedUses(ids[watched], *sides, after.expected[watched], after.variances[watched]))
    keys = np.ascontiguousarray(deltas.keys).view(np.int64)
    add_keys(transaction, keys[np.concatenate((new, unused_rows))], np.concatenate((new_ids, -before.ids[unused_rows])))


def merge_deltas(deltas: RuleDeltas) -> NamedChanges:
    """Add the deltas of rows with equal keys to the first of these rows. Raises `RuleKeyCollisionError`."""
    # View the keys as signed integers, because databases have no unsigned integers.
    keys = np.ascontiguousarray(deltas.keys).view(np.int64)
    sources, targets = deltas.source.strings(), deltas.target.strings()
    # Try a faster check first: if the XORs of the key halves are distinct, all keys are distinct.
    xors = np.sort(deltas.keys[:, 0] ^ deltas.keys[:, 1])
    if (xors[1:] != xors[:-1]).all():
        return NamedChanges(deltas, keys, (sources, targets))
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    if first.all():
        return NamedChanges(deltas, keys, (sources, targets))
    firsts = order[first][np.cumsum(first) - 1]
    for row, earlier in zip(order[~first].tolist(), firsts[~first].tolist(), strict=True):
        if (sources[row], targets[row]) != (sources[earlier], targets[earlier]):
            raise RuleKeyCollisionError(deltas.shown(earlier), deltas.shown(row))
    groups = np.empty_like(firsts)
    groups[order] = firsts
    return NamedChanges(deltas.sum_by_group(groups), keys, (sources, targets))


def _stored(transaction: WriteTransaction, named: NamedChanges) -> StoredUses:
    """Look up the stored uses of the deltas' rules. Raises `RuleKeyCollisionError`."""
    stored = StoredUses.zeros(len(named.keys))
    rows, ids = find_candidates(transaction, named.keys)
    if not len(ids):
        return stored
    transaction.loader.stage_columns(staged_rules, [np.unique(ids)])
    names = ("id", "key_high", "key_low", "count", "minimal_uses", *_EXPECTED, "source", "target")
    columns = (rules.c[name] for name in names)
    stored_rows = read_columns(
        transaction.connection,
        select(*columns).select_from(staged_rules.join(rules, rules.c.id == staged_rules.c.rule_id)),
    )
    if not stored_rows:
        return stored
    numbers = np.array(stored_rows[:5], np.int64)
    expected, variances = np.array(stored_rows[5:7], np.float64)
    sources, targets = stored_rows[7:]
    by_id = np.argsort(numbers[0], kind="stable")
    indices = np.searchsorted(numbers[0], ids, sorter=by_id)
    is_found = indices < len(by_id)
    rows, ids, indices = rows[is_found], ids[is_found], by_id[indices[is_found]]
    same_key = (numbers[0][indices] == ids) & (named.keys[rows] == numbers[1:3, indices].T).all(axis=1)
    rows, indices = rows[same_key], indices[same_key]
    for row, index in zip(rows.tolist(), indices.tolist(), strict=True):
        if named.texts[0][row] != sources[index] or named.texts[1][row] != targets[index]:
            raise RuleKeyCollisionError(f"{sources[index]} ||| {targets[index]}", named.deltas.shown(row))
    stored.ids[rows], stored.counts[rows] = numbers[0][indices], numbers[3][indices]
    stored.expected[rows], stored.variances[rows] = expected[indices], variances[indices]
    stored.minimal[rows] = numbers[4][indices]
    return stored


def _set_counts(transaction: WriteTransaction, after: StoredUses, rows: Rows) -> None:
    if len(rows):
        rows = rows[np.argsort(after.ids[rows])]
        values = (after.ids, after.counts, after.expected, after.variances, after.minimal)
        transaction.loader.stage_columns(staged_counts, [column[rows] for column in values])
        assignments = {name: staged_counts.c[name] for name in ("count", *_EXPECTED, "minimal_uses")}
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
    names = ("id", "source", "target", "key_high", "key_low", *NUMBERS)
    transaction.loader.insert(rules, names, zip(*columns, strict=True))


def _index_more_words(transaction: WriteTransaction, changed: NamedChanges, after: StoredUses, rows: Rows) -> None:
    """Index the words of rules. Existing entries are kept."""
    if len(rows):
        words = rule_word_entries(transaction, changed.sides(rows), after.ids[rows])
        transaction.loader.stage_columns(staged_rule_words, words)
        transaction.connection.execute(
            text(
                "INSERT INTO rule_words (word_id, rule_id) SELECT word_id, rule_id FROM staged_rule_words WHERE true"
                " ORDER BY word_id, rule_id ON CONFLICT (word_id, rule_id) DO NOTHING"
            )
        )


def _delete_rules(transaction: WriteTransaction, changed: NamedChanges, before: StoredUses, rows: Rows) -> None:
    if not len(rows):
        return
    transaction.loader.stage_columns(staged_ids, [np.sort(before.ids[rows])])
    delete_staged(transaction, "rules", column="id")
    words = rule_word_entries(transaction, changed.sides(rows), before.ids[rows])
    transaction.loader.stage_columns(staged_rule_words, words)
    transaction.connection.execute(
        text("DELETE FROM rule_words WHERE (word_id, rule_id) IN (SELECT word_id, rule_id FROM staged_rule_words)")
    )


def rule_word_entries(
    transaction: WriteTransaction, sides: tuple[list[str], list[str]], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rules' entries in the word index as sorted columns (word ids or anchors, rule ids)."""
    words = RuleWords(
        read_grammar_kind(transaction.connection), partial(word_ids, transaction), int(ids.max(initial=0))
    )
    entries = words.find(dict(zip((SOURCE, TARGET), sides, strict=True)), ids)
    return words.word_ids(entries), words.rule_ids(entries)


def insert_rule_words(
    transaction: WriteTransaction, sides: tuple[list[str], list[str]], ids: NDArray[np.int64]
) -> None:
    """Index the words of rules that are not indexed yet."""
    columns = (column.tolist() for column in rule_word_entries(transaction, sides, ids))
    transaction.loader.insert(rule_words, ("word_id", "rule_id"), zip(*columns, strict=True))


MIN_HISTORY_USES = 8
"""Minimum expected uses of rules in the history. Most rules have fewer, and change with every sweep."""
HISTORY_DAYS = 366


def _record_history(
    transaction: WriteTransaction, ids: NDArray[np.int64], sides: tuple[list[str], list[str]], before: StoredUses
) -> None:
    """Record the uses of rules at the start of the day unless already recorded. New rules had 0 uses."""
    if not len(ids):
        return
    state = transaction.state
    new = ids > state.last_rule_id_at_day_start
    numbers = (np.where(new, 0, column).tolist() for column in (before.counts, before.expected, before.variances))
    transaction.loader.stage(staged_history, sorted(zip(ids.tolist(), *sides, *numbers, strict=True)))
    transaction.connection.execute(
        text(
            "INSERT INTO rule_history (day, rule_id, source, target, count, expected_uses, expected_uses_variance)"
            " SELECT :day, rule_id, source, target, count, expected_uses, expected_uses_variance FROM staged_history"
            " WHERE true ORDER BY rule_id"
            " ON CONFLICT (day, rule_id) DO NOTHING"
        ),
        {"day": state.last_change_day},
    )
    oldest = date.fromisoformat(state.last_change_day) - timedelta(days=HISTORY_DAYS)
    transaction.connection.execute(delete(rule_history).where(rule_history.c.day < oldest.isoformat()))
