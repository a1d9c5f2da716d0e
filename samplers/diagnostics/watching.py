"""Traces of a running chain: totals, and the counts of selected rules."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_allocating
from hierogram.samplers.counts.table import CountTable, look_up

TOTALS = ("log_likelihood", "rule_tokens", "rule_types")
"""Quantities recorded at each draw besides rule counts."""


@njit_allocating
def look_up_counts(table: CountTable, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the counts, int64[W], of the rules with these keys, uint64[W, 2]; 0 for unused rules."""
    counts = np.zeros(len(keys), np.int64)
    for k in range(len(keys)):
        counts[k] = look_up(table, keys[k, 0], keys[k, 1])[1]
    return counts


@dataclass(slots=True)
class ChainTrace:
    """Trace of one chain; `keys` uint64[W, 2] are the recorded rules."""

    keys: NDArray[np.uint64]
    totals: list[tuple[float, float, float]] = field(default_factory=list)
    counts: list[NDArray[np.int64]] = field(default_factory=list)

    def note(self, log_likelihood: float, table: CountTable) -> None:
        """Record a draw."""
        self.totals.append((log_likelihood, float(table.rule_tokens), float(table.rule_types)))
        self.counts.append(look_up_counts(table, self.keys))

    def draws(self) -> NDArray[np.float64]:
        """Return all recorded draws: the totals, then the rules; float64[3 + W, N]."""
        totals = np.array(self.totals, np.float64).reshape(-1, len(TOTALS))
        counts = np.array(self.counts, np.float64).reshape(len(self.counts), len(self.keys))
        return np.concatenate((totals.T, counts.T))
