"""Where the chains of masks start: which variables their first derivations have positive.

Not all variables that the cheap model prefers can be positive together. All that are not positive are in doubt: the
chain has to find out. So are those that the cheap model doubts once it knows which these are. All this depends on the
grammar and the cheap model alone, never on a derivation that was drawn.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import total_of
from hierogram.samplers.charts.pruning.systems import System


class Start(NamedTuple):
    """The variables that the first derivation of each chain has positive, bool[V] each; doubts float64[V], None where
    the cheap model has none; the edges of all charts that this takes."""

    positive: list[NDArray[np.bool_]]
    doubts: NDArray[np.float64] | None
    edges: int


class _Trials:
    """Charts in which some variables must be positive: of each the summed weight and the edges."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._made: dict[bytes, tuple[float, int]] = {}

    def total(self, positive: NDArray[np.bool_]) -> float:
        """The summed weight of the derivations that have these variables positive."""
        found = self._made.get(positive.tobytes())
        if found is None:
            graph = self._system.build(positive, positive)
            found = self._made[positive.tobytes()] = total_of(graph), graph.edges
        return found[0]

    def start(self, starts: list[NDArray[np.bool_]], doubts: NDArray[np.float64] | None) -> Start:
        """What was found. The chart of each start is made once more, to draw derivations."""
        edges = [made for _, made in self._made.values()]
        edges += [self._made[start][1] for start in {positive.tobytes() for positive in starts}]
        return Start(starts, doubts, sum(edges))


def one_start(system: System) -> Start:
    """A derivation with as many of the preferred variables positive as can be.

    Those that stand in the way of most others, the more doubtful the sooner, are left out until there is a derivation
    with all the others. Then each of them that can be is taken in again, the least doubtful first.
    """
    trials = _Trials(system)
    doubts = system.doubts()
    positive = _possible(system, trials, doubts)
    return trials.start([positive], doubts)


def two_starts(system: System) -> Start:
    """The same, and the best start in which one variable that was left out has the place of another one.

    The best one is that whose derivations weigh most. Doubts are the largest of three: where nothing is known, where it
    is known what the first start does not have positive, and the same of the second.
    """
    trials = _Trials(system)
    doubts = system.doubts()
    positive = _possible(system, trials, doubts)
    if doubts is None:
        return trials.start([positive, positive], None)
    other, most = positive, trials.total(positive)
    for variable in np.flatnonzero(system.preferred() & ~positive):
        for place in np.flatnonzero(positive):
            instead = positive.copy()
            instead[variable], instead[place] = True, False
            total = trials.total(instead)
            if total > most:
                other, most = instead, total
    for start in (positive, other):
        again = system.doubts(~start)
        doubts = doubts if again is None else np.maximum(doubts, again)
    return trials.start([positive, other], doubts)


def _possible(system: System, trials: _Trials, doubts: NDArray[np.float64] | None) -> NDArray[np.bool_]:
    """As many of the preferred variables as can be positive together."""
    positive = system.preferred()
    doubt = np.ones(system.variables) if doubts is None else doubts
    in_the_way = system.conflicts() * doubt
    left_out = []
    while not trials.total(positive) > 0 and positive.any():
        left = np.flatnonzero(positive)
        left_out.append(int(left[np.argmax(in_the_way[left])]))
        positive[left_out[-1]] = False
    # The one that was left out last cannot be taken in again.
    for variable in sorted(left_out[:-1], key=lambda one: doubt[one]):
        positive[variable] = True
        positive[variable] = trials.total(positive) > 0
    return positive
