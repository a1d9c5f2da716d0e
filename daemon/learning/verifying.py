"""Does the store say the truth: every rule counted again from the derivations, and compared."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields

from hierogram.daemon.alignment.incremental import count_links
from hierogram.daemon.learning.deltas import enter_samples, enter_state, rule_deltas
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.counts.deltas import empty_ledger
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.forests.derivations import decode_states, unpack_ring
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import AlignerChange, AlignerCounts, PairRow, RuleDelta, Settings
from hierogram.storage.store import Store

_PAIRS_A_READ = 5_000
_MOST_PROBLEMS = 20
_COMPARED = tuple(column.name for column in fields(RuleDelta))

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification saw; `problems` is empty where the store is sound, else the first of them in words."""

    pairs: int
    rules: int
    rule_tokens: int
    sampled_tokens: int
    problems: list[str] = field(default_factory=list)
    more_problems: int = 0


class _Problems:
    def __init__(self) -> None:
        self.first: list[str] = []
        self.more = 0

    def add(self, problem: str) -> None:
        if len(self.first) < _MOST_PROBLEMS:
            self.first.append(problem)
        else:
            self.more += 1


def _recount(rows: list[PairRow], settings: Settings) -> list[RuleDelta]:
    """The rules of the pairs' derivations and samples, counted from nothing."""
    loaded = kind_of(settings).load(rows, settings)
    state = decode_states(loaded.batch.forests, [row.current or b"" for row in rows])
    ledger = enter_state(empty_ledger(), loaded, state, 1)
    ledger = enter_samples(ledger, loaded, [unpack_ring(row.ring or b"") for row in rows], 1)
    return rule_deltas(ledger, loaded)


def _recount_soundly(rows: list[PairRow], settings: Settings, problems: _Problems) -> Iterable[RuleDelta]:
    """As `_recount`; where derivations do not fit, names each pair that is at fault and counts the others."""
    try:
        return _recount(rows, settings)
    except SamplerError as error:
        if len(rows) == 1:
            problems.add(f"pair {rows[0].id}: its derivation cannot be read: {error}")
            return []
        middle = len(rows) // 2
        return [
            *_recount_soundly(rows[:middle], settings, problems),
            *_recount_soundly(rows[middle:], settings, problems),
        ]


def _recount_links(snapshot: Snapshot, problems: _Problems) -> None:
    """Compares the aligner's counts with those that the stored links of all pairs cause."""
    counted: Counter[tuple[object, ...]] = Counter()
    for rows in snapshot.iterate_links(_PAIRS_A_READ):
        change = AlignerChange()
        try:
            count_links(rows, change)
        except (SamplerError, ValueError, IndexError) as error:
            problems.add(f"pairs {rows[0].id} to {rows[-1].id}: their links cannot be read: {error}")
            continue
        counted.update(_counts_by_name(change))
    stored = Counter(_counts_by_name(snapshot.aligner_counts()))
    for name in sorted(counted.keys() | stored.keys(), key=str):
        if counted[name] != stored[name]:
            shown = " ".join(map(repr, name))
            problems.add(f"aligner: {shown} is {stored[name]}, a recount gives {counted[name]}")


def _counts_by_name(counts: AlignerChange | AlignerCounts) -> dict[tuple[object, ...], int]:
    named: dict[tuple[object, ...], int] = {}
    for source, target, forward, backward in counts.lexicon:
        named["forward", source, target] = forward
        named["backward", source, target] = backward
    for row in counts.words:
        for column, number in zip(row._fields[2:], row[2:], strict=True):
            named[row.side, row.word, column] = number
    for direction, width, jumps in counts.jumps:
        named["jump", direction, width] = jumps
    return {name: number for name, number in named.items() if number}


def verify(store: Store, report: Callable[[int, int], None] | None = None) -> VerifyReport:
    """Count every rule again from all derivations and samples of one snapshot and compare with the store's rules.

    Also runs the store's own checks. `report` hears pairs done and pairs in all.
    """
    problems = _Problems()
    counted: dict[Key, RuleDelta] = {}
    pairs = 0
    with store.snapshot() as snapshot:
        settings = snapshot.settings()
        total = sum(snapshot.status().pairs.values())
        for problem in snapshot.integrity():
            problems.add(problem)
        _recount_links(snapshot, problems)
        for rows in snapshot.iterate_derivations(_PAIRS_A_READ):
            for rule in _recount_soundly(rows, settings, problems):
                key = (rule.key_high, rule.key_low)
                known = counted.get(key)
                if known is None:
                    counted[key] = rule
                elif (known.source, known.target) != (rule.source, rule.target):
                    problems.add(
                        f"rules {known.source!r} ||| {known.target!r} and {rule.source!r} ||| {rule.target!r}"
                        " have the same key"
                    )
                else:
                    known.count += rule.count
                    known.sampled_count += rule.sampled_count
            pairs += len(rows)
            if report:
                report(pairs, total)
        rules = tokens = sampled_tokens = 0
        for stored in snapshot.iterate_all_rule_rows():
            rules += 1
            tokens += stored.count
            sampled_tokens += stored.sampled_count
            rule_text = f"rule {stored.id} {stored.source!r} ||| {stored.target!r}"
            expected = counted.pop((stored.key_high, stored.key_low), None)
            if expected is None:
                problems.add(
                    f"{rule_text}: no derivation uses it, yet its count is {stored.count}"
                    f" and its sampled count {stored.sampled_count}"
                )
                continue
            for name in _COMPARED:
                here, there = getattr(stored, name), getattr(expected, name)
                if here != there:
                    problems.add(f"{rule_text}: {name} is {here}, a recount gives {there}")
        for rule in counted.values():
            problems.add(
                f"rule {rule.source!r} ||| {rule.target!r} is used {rule.count} times ({rule.sampled_count} in samples)"
                " and missing from the rules"
            )
    return VerifyReport(pairs, rules, tokens, sampled_tokens, problems.first, problems.more)
