"""Verify a store: recount every rule and link, and compare the result with the stored counts.

Stored and recounted counts are written to temporary files and compared one range of keys at a time, so that memory
depends on the size of a range, not on the size of the store. A range consists of slices. A slice contains rules
whose keys have the same high bits in the second word, or aligner counts whose keys have the same hash modulo `SLICES`.
`verify` reports the differences, and `repairing.repair` corrects them.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import UNREADABLE, Damage, DamagedPairsError, find_damage, load_undamaged
from hierogram.daemon.learning.stored_links import DIRECTIONS, count_links
from hierogram.daemon.prefetch import map_in_threads
from hierogram.daemon.progress import Steps
from hierogram.samplers.counts.texts import same_texts, select_texts
from hierogram.samplers.grammar.columns import Blobs, Texts, split_blobs
from hierogram.samplers.grammar.keys import Matches, first_rows_by_key, match_keys
from hierogram.storage.checks.spill import SLICES, Spill, open_spill, slice_ranges
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records.aligner import AlignerCounts, FertilityCounts
from hierogram.storage.records.columns import NUMBERS, SIDES, RuleDeltas, StoredRules
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.store import Store

_PAIRS_PER_READ = 2_000
_LINKS_PER_READ = 5_000
"""Number of pairs whose links are read together. If reading fails, one problem covers all of them."""
_RULES_AT_ONCE = 300_000
"""Maximum rows, stored and recounted, of a range of rule keys, unless the range is a single slice."""
_COUNTS_AT_ONCE = 100_000
_MAX_PROBLEMS = 20

LEXICON, JUMP = "lexicon", "jump"
"""First field of an aligner row's key.
The keys are (`LEXICON`, source, target), (`JUMP`, direction, width) and (side, word).
"""


class AlignerDifference(NamedTuple):
    """Key (see `LEXICON`) of a row with different counts, with stored and recounted columns."""

    key: list[str]
    stored: NDArray[np.int64]
    counted: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of a verification. `more_problems` counts the problems that `problems` does not describe.

    `rules`, `rule_tokens` and `expected_tokens` are stored totals. `human_links` is the number of fixed or forbidden
    links that were checked. If the database file is damaged, `damaged_file` is True and only the damage is reported.
    """

    pairs: int
    rules: int
    rule_tokens: int
    expected_tokens: float
    problems: list[str]
    more_problems: int
    damaged_file: bool = False
    human_links: int = 0


_RULE_DTYPE = np.dtype(
    [
        ("number", np.int64), ("keys", np.uint64, 2), ("length", np.int32), ("scope", np.int32),
        ("nonterminals", np.int32), ("source_terminals", np.int32), ("target_terminals", np.int32),
        ("hiero", np.bool_), ("count", np.int64), ("expected_uses", np.float64),
        ("expected_uses_variance", np.float64), ("minimal_uses", np.int64),
    ]
)  # fmt: skip
"""Rule in a temporary file, without its sides. `number` is the stored id or the recounted index."""
_COLUMNS = [name for name in _RULE_DTYPE.names or () if name != "number"]
_WORD_COUNT_COLUMNS = FertilityCounts._fields[2:]
_COUNTS_DTYPE = np.dtype([("stored", np.bool_), ("counts", np.int64, len(_WORD_COUNT_COLUMNS))])
"""Row of an aligner table in a temporary file, stored or recounted. The key is a text beside the row."""
_SHIFT = np.uint64(64 - SLICES.bit_length() + 1)
"""Number of low bits of a key's second word that do not select the slice. `SLICES` is a power of two."""

SpilledRules = tuple[NDArray[np.int64], NDArray[Any], Blobs, Blobs]
"""Arguments of `Spill.add`: slice, row, source side and target side of each rule, in slice order."""


def _to_spilled(rules: RuleDeltas, numbers: NDArray[np.int64]) -> SpilledRules:
    slices = (rules.keys[:, 1] >> _SHIFT).astype(np.int64)
    order = np.argsort(slices, kind="stable")
    rows = np.empty(len(order), _RULE_DTYPE)
    rows["number"] = numbers[order]
    for name in _COLUMNS:
        rows[name] = getattr(rules, name)[order]
    return slices[order], rows, Blobs(*select_texts(rules.source, order)), Blobs(*select_texts(rules.target, order))


def _from_spilled(spill: Spill, first: int, last: int) -> StoredRules:
    rows, sides = spill.read(first, last)
    columns: dict[str, Any] = {name: np.ascontiguousarray(rows[name]) for name in _COLUMNS}
    sources, targets = (Texts(*side) for side in sides)
    return StoredRules(np.ascontiguousarray(rows["number"]), RuleDeltas(source=sources, target=targets, **columns))


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """Stored and recounted rules in a range of key slices, with one recounted row for each key.

    The ids of `counted` are indices among all recounted rows. `matches` are the rows of `counted` (`ours`) and of
    `stored` (`theirs`) with equal keys, and the rows without a match. `collisions` contains a message for each
    recounted rule that has the key of another rule, by index among all recounted rows.
    """

    stored: StoredRules
    counted: StoredRules
    matches: Matches
    collisions: dict[int, str]

    def differences(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield the name of each column, and the indices in `matches` with different values, maybe none."""
        stored, counted, matches = self.stored.rules, self.counted.rules, self.matches
        for name in SIDES:
            texts = getattr(stored, name), matches.theirs, getattr(counted, name), matches.ours
            yield name, np.flatnonzero(~same_texts(*texts))
        for name in NUMBERS:
            differing = getattr(stored, name)[matches.theirs] != getattr(counted, name)[matches.ours]
            yield name, np.flatnonzero(differing)


@dataclass(slots=True)
class Recount:
    """Recount of the rules and links of a snapshot. Add the stored rules before a comparison.

    `pairs` is the number of pairs with a derivation. `damaged_pairs` describes pairs that cannot be read, and
    `damaged_links` pairs with invalid links. `unreadable_links` are messages about groups of unreadable pairs.
    """

    _stored: Spill
    _counted: Spill
    _links: Spill
    pairs: int = 0
    stored_rules: int = 0
    stored_tokens: int = 0
    stored_expected_tokens: float = 0.0
    damaged_pairs: list[Damage] = field(default_factory=list)
    unreadable_links: list[str] = field(default_factory=list)
    damaged_links: list[Damage] = field(default_factory=list)

    def add_stored_rules(self, stored: StoredRules) -> None:
        """Add some rows of the stored rules. Each row must be added once, before any comparison."""
        self.stored_rules += len(stored.ids)
        self.stored_tokens += int(stored.rules.count.sum())
        self.stored_expected_tokens += float(stored.rules.expected_uses.sum())
        self._stored.add(*_to_spilled(stored.rules, stored.ids))

    def rule_comparisons(self) -> Iterator[RuleComparison]:
        """Yield all stored and recounted rules, one range of key slices at a time."""
        for first, last in slice_ranges([self._stored, self._counted], _RULES_AT_ONCE):
            recounted = _from_spilled(self._counted, first, last)
            counted, numbers = recounted.rules, recounted.ids
            first_rows = first_rows_by_key(counted.keys)
            is_first = first_rows == np.arange(len(first_rows))
            rows, later = np.flatnonzero(is_first), np.flatnonzero(~is_first)
            same_sides = same_texts(counted.source, later, counted.source, first_rows[later])
            same_sides &= same_texts(counted.target, later, counted.target, first_rows[later])
            collisions = {}
            for row in later[~same_sides].tolist():
                both = f"{_format_rule(counted, first_rows[row])} and {_format_rule(counted, row)}"
                collisions[int(numbers[row])] = f"rules {both} have the same key"
            sides = select_texts(counted.source, rows), select_texts(counted.target, rows)
            sums = counted.sum_by_group(first_rows).at(rows, *sides)
            stored = _from_spilled(self._stored, first, last)
            matches = match_keys(sums.keys, stored.rules.keys)
            yield RuleComparison(stored, StoredRules(numbers[rows], sums), matches, collisions)

    def aligner_differences(self) -> Iterator[list[AlignerDifference]]:
        """Yield the differences of the aligner's counts, one range of keys at a time."""
        for first, last in slice_ranges([self._links], _COUNTS_AT_ONCE):
            rows, [texts] = self._links.read(first, last)
            row_by_key: dict[bytes, int] = {}
            key_rows = np.array([row_by_key.setdefault(name, len(row_by_key)) for name in split_blobs(texts)], np.int64)
            totals = np.zeros((2, len(row_by_key), len(_WORD_COUNT_COLUMNS)), np.int64)
            np.add.at(totals, (rows["stored"].astype(np.int64), key_rows), rows["counts"])
            counted, stored = totals
            keys = list(row_by_key)
            differing = np.flatnonzero((stored != counted).any(axis=1)).tolist()
            yield [AlignerDifference(keys[row].decode().split("\0"), stored[row], counted[row]) for row in differing]


@contextmanager
def open_recount(snapshot: Snapshot, report: Steps | None = None) -> Iterator[Recount]:
    """Recount all rules and links. Pass the stored rules to `add_stored_rules` before a comparison."""
    with (
        open_spill(_RULE_DTYPE, 2) as stored,
        open_spill(_RULE_DTYPE, 2) as counted,
        open_spill(_COUNTS_DTYPE, 1) as links,
    ):
        recount = Recount(stored, counted, links)
        _recount_links(snapshot, recount, links)
        _recount_rules(snapshot, recount, counted, report)
        yield recount


def _recount_rules(snapshot: Snapshot, recount: Recount, counted: Spill, report: Steps | None) -> None:
    settings = snapshot.settings()
    total = sum(snapshot.state().pairs().values())
    rules_counted = 0

    def count(rows: list[PairRow]) -> tuple[int, SpilledRules, list[Damage]]:
        readable, loaded = load_undamaged(rows, settings)
        rules = loaded.rules()
        damaged_pairs = find_damage(rows, settings) if len(readable) < len(rows) else []
        return len(rows), _to_spilled(rules, np.arange(len(rules))), damaged_pairs

    for pairs, (slices, spilled_rows, *sides), damaged_pairs in map_in_threads(
        snapshot.iterate_derivations(_PAIRS_PER_READ), count, os.cpu_count() or 1
    ):
        spilled_rows["number"] += rules_counted
        rules_counted += len(spilled_rows)
        counted.add(slices, spilled_rows, *sides)
        recount.damaged_pairs += damaged_pairs
        recount.pairs += pairs
        if report:
            report(recount.pairs, total)
    for waiting in snapshot.iterate_waiting(_PAIRS_PER_READ):
        recount.damaged_pairs += find_damage(waiting, settings)


def _recount_links(snapshot: Snapshot, recount: Recount, links: Spill) -> None:
    for rows in snapshot.iterate_links(_LINKS_PER_READ):
        try:
            change = count_links(rows)
        except DamagedPairsError as error:
            recount.damaged_links += error.damaged
            damaged_ids = {damage.pair_id for damage in error.damaged}
            change = count_links([row for row in rows if row.id not in damaged_ids])
        except UNREADABLE as error:
            recount.unreadable_links.append(f"pairs {rows[0].id} to {rows[-1].id}: the links cannot be read: {error}")
            continue
        _spill_counts(links, change, stored=False)
    for counts in snapshot.aligner_counts():
        _spill_counts(links, counts, stored=True)


def _spill_counts(links: Spill, counts: AlignerCounts, *, stored: bool) -> None:
    keys = [f"{LEXICON}\0{source}\0{target}" for source, target, *_ in counts.lexicon]
    keys += [f"{row.side}\0{row.word}" for row in counts.words]
    keys += [f"{JUMP}\0{direction}\0{width}" for direction, width, _ in counts.jumps]
    rows = np.zeros(len(keys), _COUNTS_DTYPE)
    rows["stored"] = stored
    first = 0
    for table in (counts.lexicon, counts.words, counts.jumps):
        if table:
            numbers = np.array([row[2:] for row in table], np.int64)
            rows["counts"][first : first + len(table), : numbers.shape[1]] = numbers
            first += len(table)
    links.add_by_text(rows, keys)


def _count_name(key: list[str], column: int) -> tuple[object, ...]:
    match key:
        case [table, source, target] if table == LEXICON:
            return DIRECTIONS[column], source, target
        case [table, direction, width] if table == JUMP:
            return JUMP, direction, int(width)
    return *key, _WORD_COUNT_COLUMNS[column]


def _format_rule(rules: RuleDeltas, row: int) -> str:
    return f"{rules.source.string(row)!r} ||| {rules.target.string(row)!r}"


class _Problems:
    """First `_MAX_PROBLEMS` problems as (kind, sort key, message), sorted, and the number of all problems."""

    def __init__(self) -> None:
        self.number = 0
        self.first: list[tuple[int, Any, str]] = []

    def add(self, kind: int, sort_keys: Sequence[Any], describe: Callable[[int], str]) -> None:
        self.number += len(sort_keys)
        first = nsmallest(_MAX_PROBLEMS, range(len(sort_keys)), key=sort_keys.__getitem__)
        self.first += [(kind, sort_keys[k], describe(k)) for k in first]
        self.first.sort(key=lambda problem: problem[:2])
        del self.first[_MAX_PROBLEMS:]

    def add_all(self, kind: int, lines: Sequence[str]) -> None:
        self.add(kind, range(len(lines)), lines.__getitem__)


_TABLES, _UNREADABLE_LINKS, _ALIGNER, _DAMAGED_PAIRS, _COLLISIONS, _UNUSED, _DIFFERENT, _MISSING = range(8)
"""Kinds of problems, in reporting order."""


def _add_rule_problems(comparison: RuleComparison, problems: _Problems) -> None:
    ids, rules, counted = comparison.stored.ids, comparison.stored.rules, comparison.counted.rules
    matches = comparison.matches

    def unused(k: int) -> str:
        row = matches.only_theirs[k]
        rule, count = f"rule {ids[row]} {_format_rule(rules, row)}", f"count is {rules.count[row]}"
        uses = f"expected_uses is {rules.expected_uses[row]:g} and minimal_uses is {rules.minimal_uses[row]}"
        return f"{rule}: not used by any derivation, but {count}, {uses}"

    def missing(k: int) -> str:
        row = matches.only_ours[k]
        uses = f"({counted.expected_uses[row]:g} expected uses, {counted.minimal_uses[row]} minimal uses)"
        return f"rule {_format_rule(counted, row)}: missing from the rules, but used {counted.count[row]} times {uses}"

    def different(name: str, differing: NDArray[np.int64], k: int) -> str:
        stored_row, counted_row = matches.theirs[differing[k]], matches.ours[differing[k]]
        stored_value, counted_value = _value(rules, name, stored_row), _value(counted, name, counted_row)
        rule = f"rule {ids[stored_row]} {_format_rule(rules, stored_row)}"
        return f"{rule}: {name} is {stored_value}, but should be {counted_value}"

    problems.add(_COLLISIONS, list(comparison.collisions), list(comparison.collisions.values()).__getitem__)
    problems.add(_UNUSED, ids[matches.only_theirs].tolist(), unused)
    for column, (name, differing) in enumerate(comparison.differences()):
        sort_keys = [(column, rule_id) for rule_id in ids[matches.theirs[differing]].tolist()]
        problems.add(_DIFFERENT, sort_keys, partial(different, name, differing))
    problems.add(_MISSING, comparison.counted.ids[matches.only_ours].tolist(), missing)


def _value(rules: RuleDeltas, name: str, row: int) -> object:
    column = getattr(rules, name)
    return column.string(row) if name in SIDES else column[row]


def verify(store: Store, report: Steps | None = None) -> VerifyReport:
    """Compare every stored count with a recount in one snapshot, and check the database file."""
    with ThreadPoolExecutor(1, thread_name_prefix="check") as thread:
        # Check the file in a second thread, because the check reads the whole file and releases the GIL.
        checking = thread.submit(store.file_damage)
        try:
            report_without_damage = _verify_tables(store, report)
        except Exception:
            # A damaged file can cause any error, so report the damage instead.
            if not checking.result():
                raise
        damage = checking.result()
    if damage:
        return VerifyReport(0, 0, 0, 0, damage[:_MAX_PROBLEMS], len(damage[_MAX_PROBLEMS:]), damaged_file=True)
    return report_without_damage


def _verify_tables(store: Store, report: Steps | None) -> VerifyReport:
    problems = _Problems()
    with store.snapshot() as snapshot:
        human_links = snapshot.count_human_links()
        with open_recount(snapshot, report) as recount:
            problems.add_all(_TABLES, snapshot.table_problems(recount.add_stored_rules))
            problems.add_all(_UNREADABLE_LINKS, [*recount.unreadable_links, *map(str, recount.damaged_links)])
            problems.add_all(_DAMAGED_PAIRS, list(map(str, recount.damaged_pairs)))
            for key, stored, counted in chain.from_iterable(recount.aligner_differences()):
                for column in np.flatnonzero(stored != counted).tolist():
                    name, counts = _count_name(key, column), f"{stored[column]}, but should be {counted[column]}"
                    line = f"aligner: the count of {' '.join(map(repr, name))} is {counts}"
                    problems.add(_ALIGNER, [str(name)], [line].__getitem__)
            for comparison in recount.rule_comparisons():
                _add_rule_problems(comparison, problems)
    messages = [line for *_, line in problems.first]
    return VerifyReport(
        pairs=recount.pairs,
        rules=recount.stored_rules,
        rule_tokens=recount.stored_tokens,
        expected_tokens=recount.stored_expected_tokens,
        problems=messages,
        more_problems=problems.number - len(messages),
        human_links=human_links,
    )
