"""Verifying: every rule counted again from the derivations, and compared."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.registry import count_rules_of, kind_of
from hierogram.daemon.prefetch import made_in_threads
from hierogram.daemon.stored_links import count_links
from hierogram.samplers.counts.texts import same_texts
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.grammar.keys import first_of_each_key, match_keys
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import AlignerChange, AlignerCounts, PairRow, Settings
from hierogram.storage.records.columns import NOTHING_LEFT_OUT, NUMBERS, RuleDeltas, StoredRules, join_deltas
from hierogram.storage.records.operations import CLASSES_OF_RULES
from hierogram.storage.store import Store

_PAIRS_A_READ = 5_000
_MOST_PROBLEMS = 20
_UNREADABLE = (SamplerError, ValueError, IndexError, OverflowError)
"""Errors that reading pairs, derivations or links raises where bytes or texts are not what they should be."""

Report = Callable[[int, int], None]
Name = tuple[str, str, object]
"""Of one of the aligner's counts."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """All that a verification saw; `problems` is empty where the store is sound, else the first of them in words.

    `damaged_file`: the database itself cannot be read in part. `human_links`: links that people have fixed or
    forbidden, to which alignments were compared. `left_out`: how often pairs expect to use rules that are too rare in
    them to be counted, by how many nonterminals these have.
    """

    pairs: int
    rules: int
    rule_tokens: int
    expected_tokens: float
    left_out: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    more_problems: int = 0
    damaged_file: bool = False
    human_links: int = 0


class Fault(NamedTuple):
    """A pair whose derivation or samples cannot be read, and why; `damaged`: not even the pair itself can be."""

    pair_id: int
    why: str
    damaged: bool

    def __str__(self) -> str:
        return f"pair {self.pair_id}: {'it' if self.damaged else 'its derivation'} cannot be read: {self.why}"


def _recount_soundly(rows: list[PairRow], settings: Settings) -> tuple[list[RuleDeltas], list[Fault]]:
    """Count rules; where derivations do not fit, name each pair that is at fault and count the others."""
    try:
        return [count_rules_of(rows, settings)], []
    except _UNREADABLE as error:
        if len(rows) == 1:
            damaged = False
            try:
                kind_of(settings).load(rows, settings)
            except _UNREADABLE:
                damaged = True
            return [], [Fault(rows[0].id, str(error), damaged)]
    middle = len(rows) // 2
    counted, faults = _recount_soundly(rows[:middle], settings)
    more, more_faults = _recount_soundly(rows[middle:], settings)
    return counted + more, faults + more_faults


@dataclass(frozen=True, slots=True)
class Recount:
    """The rules of all derivations and samples, a part of the pairs at a time, and the pairs that cannot be read."""

    pairs: int
    parts: list[RuleDeltas]
    faults: list[Fault]

    def left_out(self) -> tuple[float, ...]:
        """Return the expected uses that no rule counts, by number of nonterminals."""
        every = [NOTHING_LEFT_OUT, *(part.left_out for part in self.parts)]
        return tuple(sum(numbers) for numbers in zip(*every, strict=True))


def recount_rules(snapshot: Snapshot, report: Report | None) -> Recount:
    """Count the rules of all pairs from nothing; `report` hears pairs done and pairs in all."""
    settings = snapshot.settings()
    total = sum(snapshot.status().pairs.values())
    parts: list[RuleDeltas] = []
    faults: list[Fault] = []
    pairs = 0

    batches = snapshot.iterate_derivations(_PAIRS_A_READ)
    counting = made_in_threads(
        batches, lambda rows: (len(rows), *_recount_soundly(rows, settings)), os.cpu_count() or 1
    )
    for number, counted, at_fault in counting:
        parts += counted
        faults += at_fault
        pairs += number
        if report:
            report(pairs, total)
    return Recount(pairs, parts, faults)


def added_up(recount: Recount, stored: RuleDeltas) -> tuple[RuleDeltas, NDArray[np.int64], list[str]]:
    """Return the rules of all parts; the first row of each, which has the counts of all; shared keys, in words.

    Where no pair has a derivation, these are the `stored` rules, and no row.
    """
    if not recount.parts:
        return stored, np.zeros(0, np.int64), []
    rules = join_deltas(recount.parts)
    firsts = first_of_each_key(rules.keys)
    later = np.flatnonzero(firsts != np.arange(len(firsts)))
    same = same_texts(rules.sources, later, rules.sources, firsts[later])
    same &= same_texts(rules.targets, later, rules.targets, firsts[later])
    shared = [
        f"rules {_shown(rules, int(firsts[row]))} and {_shown(rules, row)} have the same key"
        for row in later[~same].tolist()
    ]
    return rules.added_up(firsts), np.flatnonzero(firsts == np.arange(len(firsts))), shared


def _shown(rules: RuleDeltas, row: int) -> str:
    return f"{rules.sources.string(row)!r} ||| {rules.targets.string(row)!r}"


def _compare(stored: StoredRules, counted: RuleDeltas, rows: NDArray[np.int64]) -> Iterator[str]:
    """Compare every column of the stored rules with the rows of the recount; yield what is wrong."""
    rules = stored.rules
    matches = match_keys(counted.keys[rows], rules.keys)
    for row in matches.only_theirs.tolist():
        yield (
            f"rule {stored.ids[row]} {_shown(rules, row)}: no derivation uses it, yet its count is {rules.counts[row]},"
            f" its expected uses are {rules.expected_uses[row]:g} and its minimal uses {rules.minimal_uses[row]}"
        )
    ours, theirs = rows[matches.ours], matches.theirs
    for name, side in (("source", "sources"), ("target", "targets")):
        here, there = getattr(rules, side), getattr(counted, side)
        for k in np.flatnonzero(~same_texts(here, theirs, there, ours)).tolist():
            yield _difference(stored, theirs[k], name, here.string(theirs[k]), there.string(ours[k]))
    for name in NUMBERS:
        here, there = rules.numbers(name)[theirs], counted.numbers(name)[ours]
        for k in np.flatnonzero(here != there).tolist():
            yield _difference(stored, theirs[k], name, here[k], there[k])
    for row in rows[matches.only_ours].tolist():
        yield (
            f"rule {_shown(counted, row)} is used {counted.counts[row]} times"
            f" ({counted.expected_uses[row]:g} expected, {counted.minimal_uses[row]} minimal)"
            " and missing from the rules"
        )


def _difference(stored: StoredRules, row: int, name: str, here: object, there: object) -> str:
    return f"rule {stored.ids[row]} {_shown(stored.rules, row)}: {name} is {here}, a recount gives {there}"


def recount_links(snapshot: Snapshot) -> tuple[dict[Name, tuple[int, int]], list[str]]:
    """Count the aligner's counts again from the stored links of all pairs.

    Returns those that differ, in order of their names, as they are stored and as counted; and the links that cannot be
    read, in words.
    """
    counted: Counter[Name] = Counter()
    faults = []
    for rows in snapshot.iterate_links(_PAIRS_A_READ):
        change = AlignerChange()
        try:
            count_links(rows, change)
        except _UNREADABLE as error:
            faults.append(f"pairs {rows[0].id} to {rows[-1].id}: their links cannot be read: {error}")
            continue
        counted.update(_counts_by_name(change))
    stored = Counter(_counts_by_name(snapshot.aligner_counts()))
    names = sorted(counted.keys() | stored.keys(), key=str)
    return {name: (stored[name], counted[name]) for name in names if stored[name] != counted[name]}, faults


def _counts_by_name(counts: AlignerChange | AlignerCounts) -> dict[Name, int]:
    named: Counter[Name] = Counter()
    for source, target, forward, backward in counts.lexicon:
        named["forward", source, target] += forward
        named["backward", source, target] += backward
    for row in counts.words:
        for column, number in zip(row._fields[2:], row[2:], strict=True):
            named[row.side, row.word, column] += number
    for direction, width, jumps in counts.jumps:
        named["jump", direction, width] += jumps
    return {name: number for name, number in named.items() if number}


def verify(store: Store, report: Report | None = None) -> VerifyReport:
    """Count every rule again from all derivations and samples of one snapshot and compare with the store's rules.

    Also runs the store's own checks. `report` hears pairs done and pairs in all.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="check") as thread:
        # The database reads its whole file, and Python's lock is free meanwhile.
        checking = thread.submit(store.file_damage)
        try:
            found = _verify_tables(store, report)
        except Exception:
            # Whatever a damaged file leads to.
            if not checking.result():
                raise
        damage = checking.result()
    if damage:
        first, more = damage[:_MOST_PROBLEMS], len(damage[_MOST_PROBLEMS:])
        return VerifyReport(0, 0, 0, 0, problems=first, more_problems=more, damaged_file=True)
    return found


def _verify_tables(store: Store, report: Report | None) -> VerifyReport:
    with store.snapshot() as snapshot:
        stored = snapshot.stored_rules()
        of_tables = snapshot.table_problems(stored)
        links, unreadable = recount_links(snapshot)
        recount = recount_rules(snapshot, report)
        human_links = snapshot.count_human_links()
        left_out_stored = snapshot.left_out()
    rules = stored.rules
    counted, rows, shared = added_up(recount, rules)
    left_out = recount.left_out()
    classes = zip(CLASSES_OF_RULES, left_out_stored, left_out, strict=True)
    problems = chain(
        of_tables,
        unreadable,
        (
            f"aligner: {' '.join(map(repr, name))} is {here}, a recount gives {there}"
            for name, (here, there) in links.items()
        ),
        map(str, recount.faults),
        shared,
        _compare(stored, counted, rows),
        (
            f"left_out of rules with {name} nonterminals is {here}, a recount gives {there}"
            for name, here, there in classes
            if here != there
        ),
    )
    return VerifyReport(
        recount.pairs,
        len(rules),
        int(rules.counts.sum()),
        float(rules.expected_uses.sum()),
        left_out=dict(zip(CLASSES_OF_RULES, left_out, strict=True)),
        problems=list(islice(problems, _MOST_PROBLEMS)),
        more_problems=sum(1 for _ in problems),
        human_links=human_links,
    )
