"""Columns of a commit: row i of all columns belongs to the same rule or pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hierogram.samplers.grammar.columns import Blobs, Texts


NUMBERS = {
    "length": "i4", "scope": "i4", "nonterminals": "i4", "source_terminals": "i4", "target_terminals": "i4",
    "hiero": "?", "count": "i8", "expected_uses": "f8", "expected_uses_variance": "f8", "minimal_uses": "i8",
}  # fmt: skip
"""Numeric columns of `RuleDeltas` and of the table `rules`, in order, with their dtypes."""

SIDES = ("source", "target")
CHANGES = ("count", "expected_uses", "expected_uses_variance", "minimal_uses")
"""Columns of `RuleDeltas` that are changes. The other columns describe the rule."""


@dataclass(frozen=True, slots=True)
class RuleDeltas:
    """Changes of rule counts, with the rules themselves, so that the store can detect key collisions.

    The columns have the names of the table `rules`. `keys` uint64[n, 2] are the halves (high, low) of the rule keys.
    The other columns have n rows. `count`, `expected_uses` (multiples of 1/`ONE_USE`), `expected_uses_variance`
    (multiples of 1/`ONE_SQUARE`) and `minimal_uses` are changes. New rules are stored in the given order. Sort them by
    source, so that rules that are read together are stored together.
    """

    keys: NDArray[np.uint64]
    source: Texts
    target: Texts
    length: NDArray[np.int32]
    scope: NDArray[np.int32]
    nonterminals: NDArray[np.int32]
    source_terminals: NDArray[np.int32]
    target_terminals: NDArray[np.int32]
    hiero: NDArray[np.bool_]
    count: NDArray[np.int64]
    expected_uses: NDArray[np.float64]
    expected_uses_variance: NDArray[np.float64]
    minimal_uses: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.keys)

    def sum_by_group(self, groups: NDArray[np.int64]) -> RuleDeltas:
        """Sum the changes by group: row g is the sum of the rows k with `groups[k]` = g, or 0."""
        import numpy as np

        changes = {name: np.zeros_like(getattr(self, name)) for name in CHANGES}
        for name, column in changes.items():
            np.add.at(column, groups, getattr(self, name))
        return replace(self, **changes)

    def at(self, rows: NDArray[np.int64], sources: Texts, targets: Texts) -> RuleDeltas:
        """Return the selected rows (indices int64[m]), with their sides, which the caller has selected."""
        numbers = {name: getattr(self, name)[rows] for name in NUMBERS}
        return RuleDeltas(self.keys[rows], sources, targets, **numbers)

    def shown(self, row: int) -> str:
        """Return the rule of a row as text for messages: `source ||| target`."""
        return f"{self.source.string(row)} ||| {self.target.string(row)}"


def join_deltas(parts: Sequence[RuleDeltas]) -> RuleDeltas:
    """Return the rows of one or more sets of rule changes, in order. Rules with equal keys are not merged."""
    import numpy as np

    from hierogram.samplers.grammar.columns import concatenate_texts

    columns: dict[str, Any] = {}
    for name in ("keys", *SIDES, *NUMBERS):
        values = [getattr(part, name) for part in parts]
        columns[name] = concatenate_texts(values) if name in SIDES else np.concatenate(values)
    return RuleDeltas(**columns)


@dataclass(frozen=True, slots=True)
class PairUpdates:
    """New derivations of pairs, and the progress of the pairs.

    `ids`, `stages` and `sweeps` are int64[n]. `states` are the encoded variables of each pair's forest and `averages`
    its encoded averages, see `hierogram.samplers.forests.derivations`. `burned_in` bool[n] is True for pairs that have
    completed every stage. `expected_sweeps` int64[n] is the sweep of each pair when its derivation was read. Count
    changes are relative to this derivation, so the store checks that no other process has sampled the pair since. -1
    skips the check.
    """

    ids: NDArray[np.int64]
    states: Blobs
    averages: Blobs
    burned_in: NDArray[np.bool_]
    stages: NDArray[np.int64]
    sweeps: NDArray[np.int64]
    expected_sweeps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class StoredRules:
    """Rows of the table `rules`: `ids` int64[n], and the rules with their counts as changes from 0."""

    ids: NDArray[np.int64]
    rules: RuleDeltas


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Positive rule counts, row i of all arrays for the same rule. `keys` uint64[n, 2] are (high, low)."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int32]
    source_terminals: NDArray[np.int32]
    target_terminals: NDArray[np.int32]


class KeyRun(NamedTuple):
    """Entries of the key index, sorted by fingerprint. Deleted rules have negative ids."""

    fingerprints: NDArray[np.uint32]
    rule_ids: NDArray[np.int64]
