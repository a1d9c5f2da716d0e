"""The grammar in the store: rule counts, and the commit of sweeps that changes them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from sqlalchemy import Connection, case, func, insert, literal_column, select, text, update

from hierogram.storage.database.loading import (
    staged_counts,
    staged_ids,
    staged_keys,
    staged_progress,
    staged_rule_words,
    staged_rules,
)
from hierogram.storage.database.transactions import Writing, now
from hierogram.storage.exceptions import CountError, KeyCollisionError, PairMissingError, PairMovedError, RekeyError
from hierogram.storage.grammar.history import REMEMBERED_COUNT, remember_counts
from hierogram.storage.operations.settings import read_notation
from hierogram.storage.pairs.staleness import note_visits
from hierogram.storage.pairs.vocabulary import word_ids
from hierogram.storage.records import LabelRow, PairUpdate, RuleDelta, SweepRecord
from hierogram.storage.schema.tables import labels, rule_words, rules, sentence_pairs, sweeps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NOT_STORED = (None, 0, 0, True)

# A word's and a rule's id in one integer, which sorts faster than a pair of them.
_RULE_ID_BITS = 44
_RULE_ID_MASK = (1 << _RULE_ID_BITS) - 1

_RULES_TAKEN_APART = 50_000
"""Rules whose sides are taken apart at a time, which bounds the memory that it takes."""

_RULE_COLUMNS = (
    "id",
    "source",
    "target",
    "key_high",
    "key_low",
    "length",
    "scope",
    "nonterminals",
    "source_terminals",
    "target_terminals",
    "hiero",
    "count",
    "sampled_count",
)


def save_pairs(writing: Writing, updates: Sequence[PairUpdate]) -> None:
    """Writes the pairs' derivations and progress; raises `PairMissingError` and `PairMovedError`."""
    if not updates:
        return
    connection, totals = writing.connection, writing.state
    writing.loader.stage(staged_progress, updates)
    before = connection.execute(
        select(sentence_pairs.c.state, func.count())
        .select_from(staged_progress.join(sentence_pairs, sentence_pairs.c.id == staged_progress.c.pair_id))
        .group_by(sentence_pairs.c.state)
    ).all()
    named = {pair.id for pair in updates}
    if len(named) != len(updates) or sum(number for _, number in before) != len(updates):
        raise PairMissingError(_unfit_pair(writing, updates))
    moved = connection.execute(
        select(staged_progress.c.pair_id, staged_progress.c.since, sentence_pairs.c.sweep)
        .join(sentence_pairs, sentence_pairs.c.id == staged_progress.c.pair_id)
        .where(staged_progress.c.since != sentence_pairs.c.sweep)
        .limit(1)
    ).one_or_none()
    if moved is not None:
        raise PairMovedError(
            f"pair {moved.pair_id} was read at sweep {moved.since} and is at sweep {moved.sweep} by now: another "
            "process is learning on this store: end one of them, and let the other start anew"
        )
    for state, number in before:
        totals.count_pairs(state, -number)
    for state, number in Counter(pair.state for pair in updates).items():
        totals.count_pairs(state, number)
    connection.execute(
        update(sentence_pairs)
        .values(state=staged_progress.c.state, stage=staged_progress.c.stage, sweep=staged_progress.c.sweep)
        .where(sentence_pairs.c.id == staged_progress.c.pair_id)
    )
    connection.execute(
        text(
            "INSERT INTO derivations (pair_id, current, ring)"
            " SELECT pair_id, current, ring FROM staged_progress WHERE true ORDER BY pair_id"
            " ON CONFLICT (pair_id) DO UPDATE SET current = excluded.current, ring = excluded.ring"
        )
    )
    note_visits(writing)


def _unfit_pair(writing: Writing, updates: Sequence[PairUpdate]) -> str:
    seen: set[int] = set()
    for pair in updates:
        if pair.id in seen:
            return f"pair {pair.id} has two new derivations in one commit: merge them first"
        seen.add(pair.id)
    missing = writing.connection.scalar(
        select(func.min(staged_progress.c.pair_id))
        .outerjoin(sentence_pairs, sentence_pairs.c.id == staged_progress.c.pair_id)
        .where(sentence_pairs.c.id.is_(None))
    )
    return f"pair {missing} has a new derivation and is not stored"


def add_counts(writing: Writing, deltas: Iterable[RuleDelta]) -> None:
    """Adds to the rules' counts: new rules come with their words, rules without any count left go.

    Raises `CountError` where a count would become negative, and `KeyCollisionError` where a key belongs to
    another rule.
    """
    merged = _merge(deltas)
    if not merged:
        return
    totals = writing.state
    counts: list[tuple[int, int, int]] = []
    samples: list[tuple[int, int, int]] = []
    gone: list[tuple[int, RuleDelta]] = []
    new: list[RuleDelta] = []
    remembered: list[tuple[int, str, str, int]] = []
    stored = _stored_counts(writing, merged)
    for n, delta in enumerate(merged):
        rule_id, count, sampled_count, same = stored.get(n, _NOT_STORED)
        if rule_id is not None and not same:
            raise KeyCollisionError(_stored_rule(writing, rule_id), _shown(delta))
        count_after = count + delta.count
        sampled_after = sampled_count + delta.sampled_count
        if count_after < 0 or sampled_after < 0:
            raise CountError(
                f"the counts of rule {_shown(delta)!r} would become {count_after} and, of samples, "
                f"{sampled_after}: they are out of step with the derivations: run `hierogram verify`"
            )
        totals.rules += (count_after > 0) - (count > 0)
        totals.rule_tokens += delta.count
        totals.sampled_tokens += delta.sampled_count
        if rule_id is not None and delta.count and count >= REMEMBERED_COUNT:
            remembered.append((rule_id, delta.source, delta.target, count))
        if rule_id is None:
            if count_after or sampled_after:
                new.append(delta)
        elif not count_after and not sampled_after:
            gone.append((rule_id, delta))
        elif delta.count:
            counts.append((rule_id, count_after, sampled_after))
        elif delta.sampled_count:
            samples.append((rule_id, count_after, sampled_after))
    remember_counts(writing, remembered)
    _set_counts(writing, counts, samples)
    # By source, so that rules that are looked up together lie together, and the index on sources grows in order.
    numbered = list(enumerate(sorted(new, key=attrgetter("source")), writing.state.last_rule_id + 1))
    writing.state.last_rule_id += len(numbered)
    _delete_rules(writing, gone)
    _insert_rules(writing, numbered)
    _note_keys(writing, [*numbered, *((-rule_id, delta) for rule_id, delta in gone)])


def _merge(deltas: Iterable[RuleDelta]) -> list[RuleDelta]:
    """The deltas in ascending order of their keys (which is the order of the index), one for each key."""
    # One integer for a key, not a tuple: hundreds of thousands of tuples keep the garbage collector busy.
    merged: dict[int, RuleDelta] = {}
    for delta in deltas:
        key = (delta.key_high << 64) + delta.key_low
        earlier = merged.setdefault(key, delta)
        if earlier is not delta:
            if (earlier.source, earlier.target) != (delta.source, delta.target):
                raise KeyCollisionError(_shown(earlier), _shown(delta))
            merged[key] = replace(
                delta,
                count=earlier.count + delta.count,
                sampled_count=earlier.sampled_count + delta.sampled_count,
            )
    return [merged[key] for key in sorted(merged)]


def _stored_counts(writing: Writing, deltas: Sequence[RuleDelta]) -> dict[int, tuple[int, int, int, int]]:
    """By a delta's number, of the stored rule with its key: id, counts, and whether it is the same rule."""
    from hierogram.storage.grammar.key_runs import candidates

    numbers, rule_ids = candidates(writing, _keys_of(deltas))
    writing.loader.stage(
        staged_rules,
        (
            (n, rule_id, deltas[n].key_high, deltas[n].key_low, deltas[n].source, deltas[n].target)
            for n, rule_id in zip(numbers.tolist(), rule_ids.tolist(), strict=True)
        ),
    )
    same = (rules.c.source == staged_rules.c.source) & (rules.c.target == staged_rules.c.target)
    result = writing.connection.execute(
        select(
            staged_rules.c.n,
            rules.c.id,
            rules.c.count,
            rules.c.sampled_count,
            case((same, literal_column("1")), else_=literal_column("0")),
        )
        .select_from(staged_rules)
        .join(rules, rules.c.id == staged_rules.c.rule_id)
        .where(rules.c.key_high == staged_rules.c.key_high, rules.c.key_low == staged_rules.c.key_low)
    )
    return {n: (rule_id, count, sampled_count, same) for n, rule_id, count, sampled_count, same in result}


def _keys_of(deltas: Sequence[RuleDelta]) -> "NDArray[np.int64]":
    # Whoever only looks needs no numpy.
    import numpy as np

    return np.array([(delta.key_high, delta.key_low) for delta in deltas], np.int64).reshape(-1, 2)


def _set_counts(
    writing: Writing, counts: Sequence[tuple[int, int, int]], samples: Sequence[tuple[int, int, int]]
) -> None:
    found = rules.c.id == staged_counts.c.rule_id
    if counts:
        writing.loader.stage(staged_counts, sorted(counts))
        writing.connection.execute(
            update(rules).values(count=staged_counts.c.count, sampled_count=staged_counts.c.sampled_count).where(found)
        )
    if samples:
        # Apart, because naming `count` would rewrite its index entries even where it stays the same.
        writing.loader.stage(staged_counts, sorted(samples))
        writing.connection.execute(update(rules).values(sampled_count=staged_counts.c.sampled_count).where(found))


def _insert_rules(writing: Writing, numbered: Sequence[tuple[int, RuleDelta]]) -> None:
    if not numbered:
        return
    writing.loader.insert(
        rules,
        _RULE_COLUMNS,
        (
            (
                rule_id,
                d.source,
                d.target,
                d.key_high,
                d.key_low,
                d.length,
                d.scope,
                d.nonterminals,
                d.source_terminals,
                d.target_terminals,
                d.hiero,
                d.count,
                d.sampled_count,
            )
            for rule_id, d in numbered
        ),
    )
    writing.loader.insert(rule_words, ("word_id", "rule_id"), _words_of(writing, numbered))


def _delete_rules(writing: Writing, gone: Sequence[tuple[int, RuleDelta]]) -> None:
    if not gone:
        return
    connection = writing.connection
    writing.loader.stage(staged_ids, sorted((rule_id,) for rule_id, _ in gone))
    connection.execute(text("DELETE FROM rules WHERE id IN (SELECT id FROM staged_ids)"))
    writing.loader.stage(staged_rule_words, _words_of(writing, gone))
    connection.execute(
        text("DELETE FROM rule_words WHERE (word_id, rule_id) IN (SELECT word_id, rule_id FROM staged_rule_words)")
    )


def _note_keys(writing: Writing, numbered: Sequence[tuple[int, RuleDelta]]) -> None:
    """Enters the rules by their ids, negative for those that are gone, in the index of keys."""
    import numpy as np

    from hierogram.storage.grammar.key_runs import note

    note(writing, _keys_of([delta for _, delta in numbered]), np.array([rule_id for rule_id, _ in numbered], np.int64))


def _words_of(writing: Writing, numbered: Sequence[tuple[int, RuleDelta]]) -> Iterator[tuple[int, int]]:
    """(word id, rule id) for every distinct word on each side of the rules, in ascending order."""
    # Whoever only looks needs no numpy.
    import numpy as np

    notation = read_notation(writing.connection)
    packed = [np.zeros(0, np.int64)]
    for first in range(0, len(numbered), _RULES_TAKEN_APART):
        some = numbered[first : first + _RULES_TAKEN_APART]
        rule_ids = np.array([rule_id for rule_id, _ in some])
        for place in notation.rule_words:
            texts = [getattr(delta, place.side) for _, delta in some]
            symbols = " ".join(texts).split(" ")
            tokens = {symbol: place.word(symbol) for symbol in dict.fromkeys(symbols)}
            ids = word_ids(writing, place.vocabulary, (token for token in tokens.values() if token is not None))
            words = {symbol: 0 if token is None else ids[token] for symbol, token in tokens.items()}
            word_of = np.fromiter(map(words.__getitem__, symbols), np.int64, len(symbols))
            rule_of = np.repeat(rule_ids, [text.count(" ") + 1 for text in texts])
            packed.append((word_of << _RULE_ID_BITS | rule_of)[word_of > 0])
    ordered = np.unique(np.concatenate(packed))
    return zip((ordered >> _RULE_ID_BITS).tolist(), (ordered & _RULE_ID_MASK).tolist(), strict=True)


def _shown(delta: RuleDelta) -> str:
    return f"{delta.source} ||| {delta.target}"


def _stored_rule(writing: Writing, rule_id: int) -> str:
    row = writing.connection.execute(select(rules.c.source, rules.c.target).where(rules.c.id == rule_id)).one()
    return f"{row.source} ||| {row.target}"


def append_sweeps(writing: Writing, records: Sequence[SweepRecord]) -> None:
    """Appends to the history of sweeps."""
    if not records:
        return
    finished_at = now()
    writing.connection.execute(insert(sweeps), [{**record._asdict(), "finished_at": finished_at} for record in records])
    writing.state.sweeps += len(records)


def save_labels(writing: Writing, rows: Sequence[LabelRow]) -> None:
    """Writes what is known of the labels of a tree grammar now; labels that are not named stay as they were."""
    if not rows:
        return
    writing.connection.execute(
        text(
            "INSERT INTO labels (label, strength, expanded) VALUES (:label, :strength, :expanded)"
            " ON CONFLICT (label) DO UPDATE SET strength = excluded.strength, expanded = excluded.expanded"
        ),
        [row._asdict() for row in rows],
    )


def read_labels(connection: Connection) -> list[LabelRow]:
    """What is known of the labels of a tree grammar, in the order of their names."""
    statement = select(labels.c.label, labels.c.strength, labels.c.expanded).order_by(labels.c.label)
    return [LabelRow._make(row) for row in connection.execute(statement)]


def rekey(writing: Writing, keys: Iterable[tuple[int, int, int]]) -> None:
    """Gives every rule its new key (id, high, low); raises `RekeyError` where they are not one to one."""
    from hierogram.storage.grammar.key_runs import rebuild

    connection = writing.connection
    writing.loader.stage(staged_keys, keys)
    offered, ids, pairs = connection.execute(
        text(
            "SELECT (SELECT count(*) FROM staged_keys),"
            " (SELECT count(DISTINCT rule_id) FROM staged_keys),"
            " (SELECT count(*) FROM (SELECT DISTINCT key_high, key_low FROM staged_keys) AS k)"
        )
    ).one()
    stored = connection.scalar(select(func.count()).select_from(rules))
    known = connection.scalar(
        select(func.count()).select_from(rules.join(staged_keys, rules.c.id == staged_keys.c.rule_id))
    )
    if not offered == ids == pairs == stored == known:
        raise RekeyError(
            f"new keys must cover the stored rules one to one: {stored} rules are stored, {offered} keys "
            f"were given, {known} of them for a stored rule; {pairs} keys are different: try another salt"
        )
    connection.execute(
        update(rules)
        .values(key_high=staged_keys.c.key_high, key_low=staged_keys.c.key_low)
        .where(rules.c.id == staged_keys.c.rule_id)
    )
    rebuild(writing)
