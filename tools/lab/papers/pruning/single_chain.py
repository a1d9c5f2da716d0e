"""Randomized pruning with one chain for a few masks and with uniform selections [BPK09 §3.2]."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import StreamKey
from hierogram.samplers.charts.pruning.chain import (
    ChainStart,
    PruningKernel,
    count_selected,
    doubtful_selection,
    first_start,
)
from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform


class SingleChain(PruningKernel):
    """Randomized pruning of one chart with one chain. Each step frees as many variables as in the paper.

    If `is_uniform` is True, each step selects all previously free variables and some of the selected variables, so that
    steps must run in order. Otherwise, variables are freed by doubt.
    """

    chains = 1

    def __init__(self, chart: PairChart, number: int = 0, is_uniform: bool = False) -> None:
        super().__init__(chart, number)
        self._is_uniform = is_uniform
        self._selected: NDArray[np.bool_]

    @cached_property
    def start(self) -> ChainStart:
        """First assignment of the chain, and doubts float64[V], which are 1 with uniform selections."""
        doubts = np.ones(self.chart.variables) if self._is_uniform else self.chart.doubts()
        return ChainStart([first_start(self.chart, doubts)[0]], doubts)

    def select(self, key: int, plan: int) -> NDArray[np.bool_]:
        """Return the selection of step number `plan`, bool[V]. `key` is the seed."""
        variables, branching = self.chart.variables, self.chart.branching
        selection_key = self.stream_key(key, plan, 1)
        if not self._is_uniform:
            free = variables - count_selected(variables, branching)
            return doubtful_selection(self.start.doubts, free, selection_key)
        if plan == 1:
            self._selected = first_selection(variables, branching, self.stream_key(key, 0, 1))
        self._selected = next_selection(self._selected, selection_key)
        return self._selected


def first_selection(variables: int, branching: int, key: StreamKey) -> NDArray[np.bool_]:
    """Return a uniformly random selection, bool[V], of as many variables as in the paper."""
    selected = np.zeros(variables, np.bool_)
    mark_random_subset(np.ones(variables, np.bool_), count_selected(variables, branching), key, selected)
    return selected


def next_selection(selected: NDArray[np.bool_], key: StreamKey) -> NDArray[np.bool_]:
    """Return the next selection, bool[V]: all unselected variables and a random subset of the others."""
    if not selected.any():
        return selected.copy()
    following = ~selected
    mark_random_subset(selected, int(selected.sum()) - int(following.sum()), key, following)
    return following


@njit
def mark_random_subset(among: NDArray[np.bool_], number: int, key: StreamKey, chosen: NDArray[np.bool_]) -> None:
    """Set `chosen` to True for a uniformly random subset of `number` variables of the mask `among`."""
    stream_state = stream(key.seed, key.pair, key.step)
    remaining = 0
    for v in range(len(among)):
        remaining += among[v]
    for v in range(len(among)):
        if among[v]:
            stream_state = advance(stream_state)
            if uniform(stream_state) * remaining < number:
                chosen[v] = True
                number -= 1
            remaining -= 1
