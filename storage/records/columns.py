"""Columns of a commit: row i of every column is the same rule, or the same pair."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hierogram.samplers.grammar.columns import Blobs, Texts


_COLUMNS = {
    "length": "lengths",
    "scope": "scopes",
    "count": "counts",
    "expected_uses_variance": "expected_uses_variances",
}

NUMBERS = (
    "length", "scope", "nonterminals", "source_terminals", "target_terminals", "hiero", "count",
    "expected_uses", "expected_uses_variance", "minimal_uses",
)  # fmt: skip
"""Numbers of a rule, by the names of their columns in the table of rules, in the order of `RuleDeltas`."""

_SIDES = ("sources", "targets")
"""Columns of texts."""
_CHANGES = ("counts", "expected_uses", "expected_uses_variances", "minimal_uses")
"""Columns of changes."""
NOTHING_LEFT_OUT = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class RuleDeltas:
    """By how much rules' counts change; the rules themselves come along, so that their identity can be checked.

    `keys` uint64[n, 2], the two halves (high, low) of each rule's key; `sources` and `targets` its sides as texts;
    `lengths`, `scopes`, `nonterminals`, `source_terminals` and `target_terminals` int32[n];
    `hiero` bool[n]; `counts` int64[n], `expected_uses` and `expected_uses_variances` float64[n] the changes of counts,
    of expected uses and of the variance of their error, whole numbers of 1/`ONE_USE` and of 1/`ONE_SQUARE`;
    `minimal_uses` int64[n] the changes of uses in minimal derivations. `left_out` is the change of the
    expected uses that pairs have of rules that they do not count, by number of nonterminals. New rules are stored in
    the order in which they come: by source, so that those that are looked up together lie together.
    """

    keys: NDArray[np.uint64]
    sources: Texts
    targets: Texts
    lengths: NDArray[np.int32]
    scopes: NDArray[np.int32]
    nonterminals: NDArray[np.int32]
    source_terminals: NDArray[np.int32]
    target_terminals: NDArray[np.int32]
    hiero: NDArray[np.bool_]
    counts: NDArray[np.int64]
    expected_uses: NDArray[np.float64]
    expected_uses_variances: NDArray[np.float64]
    minimal_uses: NDArray[np.int64]
    left_out: tuple[float, ...] = NOTHING_LEFT_OUT

    def __len__(self) -> int:
        """Return how many rules there are."""
        return len(self.counts)

    def numbers(self, column: str) -> NDArray[np.generic]:
        """A column of numbers by its name in the table of rules, such as `nonterminals` or `scope`."""
        named: NDArray[np.generic] = getattr(self, _COLUMNS.get(column, column))
        return named

    def added_up(self, groups: NDArray[np.int64]) -> RuleDeltas:
        """The same rules, in row g with the changes of all rows k that have `groups[k]` = g, else with none."""
        import numpy as np

        changes = {name: np.zeros_like(getattr(self, name)) for name in _CHANGES}
        for name, column in changes.items():
            np.add.at(column, groups, getattr(self, name))
        return replace(self, **changes)

    def at(self, rows: NDArray[np.int64], sources: Texts, targets: Texts) -> RuleDeltas:
        """These rows, whose sides are given."""
        columns = {name: getattr(self, name)[rows] for name in _column_names() if name not in _SIDES}
        return RuleDeltas(sources=sources, targets=targets, left_out=self.left_out, **columns)

    def shown(self, row: int) -> str:
        """A rule as people see it."""
        return f"{self.sources.string(row)} ||| {self.targets.string(row)}"


def _column_names() -> list[str]:
    return [field.name for field in fields(RuleDeltas) if field.name != "left_out"]


def join_deltas(parts: Sequence[RuleDeltas]) -> RuleDeltas:
    """The rows of all parts; there is one part at least."""
    import numpy as np

    from hierogram.samplers.grammar.columns import concatenated

    columns: dict[str, Any] = {}
    for name in _column_names():
        values = [getattr(part, name) for part in parts]
        columns[name] = concatenated(values) if name in _SIDES else np.concatenate(values)
    left_out = tuple(sum(numbers) for numbers in zip(*(part.left_out for part in parts), strict=True))
    return RuleDeltas(**columns, left_out=left_out)


@dataclass(frozen=True, slots=True)
class PairUpdates:
    """New derivations of pairs, and how far the pairs have come.

    `ids` int64[n]; `states` all variables of each pair's forest and `averages` what it averaged, as bytes;
    `burned_in` bool[n] whether the pair has been through every stage; `stages`, `sweeps` int64[n]. `since` int64[n] is
    the sweep that the pair had when its derivation was read: the store checks that no one else has sampled the pair
    meanwhile, since count changes are from that derivation to the new one. Where it is -1, nothing is checked.
    """

    ids: NDArray[np.int64]
    states: Blobs
    averages: Blobs
    burned_in: NDArray[np.bool_]
    stages: NDArray[np.int64]
    sweeps: NDArray[np.int64]
    since: NDArray[np.int64]

    def __len__(self) -> int:
        """Return how many pairs there are."""
        return len(self.ids)


class RuleChanges(NamedTuple):
    """The columns of `RuleDeltas` that say which rules change, and how; their sides lie elsewhere."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    expected_uses: NDArray[np.float64]
    expected_uses_variances: NDArray[np.float64]
    minimal_uses: NDArray[np.int64]


class WrittenPart(NamedTuple):
    """A part of a commit that another process has written into tables of its own, whose names begin with `name`.

    `pairs` of which `burned_in` have been through every stage; how rules change, in the order of the rows of the table
    of rules, no key twice; `left_out` as in `RuleDeltas`.
    """

    name: str
    pairs: int
    burned_in: int
    changes: RuleChanges
    left_out: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StoredRules:
    """The table of rules as it is, zero counts included: `ids` int64[n], and the rules with their counts."""

    ids: NDArray[np.int64]
    rules: RuleDeltas


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """All rule counts of a store, for the samplers; row i of every array is the same rule.

    `keys` uint64[n, 2] (high, low), `counts` int64[n], `lengths`, `source_terminals` and `target_terminals`
    int32[n]. Counts are positive.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int32]
    source_terminals: NDArray[np.int32]
    target_terminals: NDArray[np.int32]


class KeyRun(NamedTuple):
    """A sorted run of the index of rules by key, see `hierogram.storage.grammar.key_runs`.

    Entries in ascending order of `fingerprints`, uint32[n]; `rule_ids`, int64[n], are negative for rules gone.
    """

    fingerprints: NDArray[np.uint32]
    rule_ids: NDArray[np.int64]
