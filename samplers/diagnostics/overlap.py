"""Traces of chains (totals and counts of selected rules at each draw), and the overlap of grammars.

`count_uses` makes the counts of one draw, and `mean_counts` averages the draws of a chain. `mean_overlap` compares the
chains.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_allocating
from hierogram.samplers.counts.table import COUNT, KEY_HIGH, KEY_LOW, CountTable, look_up

KEY = np.dtype([("high", np.uint64), ("low", np.uint64)])
"""Key of a rule."""


class GrammarCounts(NamedTuple):
    """R rules and their uses: `keys` KEY[R] ascending, `uses` float64[R] > 0."""

    keys: NDArray[np.void]
    uses: NDArray[np.float64]


class Overlap(NamedTuple):
    """Overlap of two grammars, as numbers from 0 (no common rules) to 1 (equal)."""

    # Jaccard index of the sets of rules.
    rules: float
    # Jaccard index of the sets of rules with at least two uses.
    used_twice: float
    # Sum over rules of min(p, q), where p and q are the rule's shares of all uses in the first and second grammar.
    uses: float


def count_uses(table: CountTable) -> GrammarCounts:
    """Return the rules of a chain's table and their counts."""
    rows = table.rows[np.flatnonzero(table.tags)]
    rows = rows[np.lexsort((rows[:, KEY_LOW], rows[:, KEY_HIGH]))]
    keys = np.empty(len(rows), KEY)
    keys["high"], keys["low"] = rows[:, KEY_HIGH], rows[:, KEY_LOW]
    return GrammarCounts(keys, rows[:, COUNT].astype(np.float64))


def mean_counts(grammars: Sequence[GrammarCounts]) -> GrammarCounts:
    """Return the mean uses of each rule over grammars, where a missing rule has 0 uses."""
    keys, where = np.unique(np.concatenate([grammar.keys for grammar in grammars]), return_inverse=True)
    uses = np.bincount(where, np.concatenate([grammar.uses for grammar in grammars]), len(keys))
    return GrammarCounts(keys, uses / len(grammars))


def _jaccard(first: NDArray[np.void], second: NDArray[np.void]) -> float:
    common = len(np.intersect1d(first, second, assume_unique=True))
    return common / max(1, len(first) + len(second) - common)


def overlap(first: GrammarCounts, second: GrammarCounts, min_uses: float = 0.0) -> Overlap:
    """Return the overlap of two grammars, ignoring rules with fewer than `min_uses` uses."""
    grammars = [
        GrammarCounts(grammar.keys[grammar.uses >= min_uses], grammar.uses[grammar.uses >= min_uses])
        for grammar in (first, second)
    ]
    keys, other_keys = (grammar.keys for grammar in grammars)
    _, *rows = np.intersect1d(keys, other_keys, assume_unique=True, return_indices=True)
    shares = [
        grammar.uses[common] / max(grammar.uses.sum(), 1e-300) for grammar, common in zip(grammars, rows, strict=True)
    ]
    used_twice = [grammar.keys[grammar.uses >= 2.0] for grammar in grammars]
    return Overlap(_jaccard(keys, other_keys), _jaccard(*used_twice), float(np.minimum(*shares).sum()))


def mean_overlap(grammars: Sequence[GrammarCounts], min_uses: float = 0.0) -> Overlap:
    """Return the mean overlap of all pairs of grammars. Raises `ValueError` for fewer than two grammars."""
    if len(grammars) < 2:
        raise ValueError(f"expected at least two grammars, got {len(grammars)}")
    overlaps = [overlap(first, second, min_uses) for first, second in combinations(grammars, 2)]
    return Overlap(*(float(np.mean(values)) for values in zip(*overlaps, strict=True)))


TOTALS = ("log_likelihood", "rule_tokens", "rule_types")
"""Names of the first values of `trace_draw`."""


@njit_allocating
def look_up_counts(table: CountTable, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the counts int64[W] of the rules with these keys uint64[W, 2], 0 for rules not in the table."""
    counts = np.zeros(len(keys), np.int64)
    for k in range(len(keys)):
        counts[k] = look_up(table, keys[k, 0], keys[k, 1])[1]
    return counts


def trace_draw(log_likelihood: float, table: CountTable, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the `TOTALS`, then the counts of W rules with the keys uint64[W, 2], float64[3 + W]."""
    return np.append([log_likelihood, table.rule_tokens, table.rule_types], look_up_counts(table, keys))
