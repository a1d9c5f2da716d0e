"""The chain of masks and what is expected under them [BPK09 Algorithm 1].

Each step selects variables, fixes them at their values in the derivation drawn last, sums over all derivations that
agree, adds what these expect (soft counts), and draws a derivation from the same chart. Over many steps the mean of the
soft counts is the exact expectation.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key, Scores, draw_edges, score, total_of
from hierogram.samplers.charts.pruning.selection import first_selection, next_selection
from hierogram.samplers.charts.pruning.systems import System


class PruningState(NamedTuple):
    """The chain's state: the variables that the last mask fixed, and their values in the last derivation, bool[V]."""

    selected: NDArray[np.bool_]
    assigned: NDArray[np.bool_]


class Pruned(NamedTuple):
    """One step: the features' expectations under its mask, float64[K], natural log of the summed weight of the
    derivations that it keeps, and how many edges there were."""

    features: NDArray[np.float64]
    log_total: float
    edges: int


class PruningKernel:
    """Randomized pruning of one chart. `number` keys its random streams, beside the seed."""

    def __init__(self, system: System, number: int = 0) -> None:
        self.system = system
        self._number = number

    def init(self, key: int) -> PruningState:
        """A derivation that has as many of the preferred variables positive as can be.

        Those that stand in the way of most others are dropped, until there is a derivation with all that are left.
        """
        system = self.system
        required = system.preferred()
        conflicts = system.conflicts()
        while not total_of(graph := system.build(required, required)) > 0:
            left = np.flatnonzero(required)
            if not len(left):
                break
            required[left[np.argmax(conflicts[left])]] = False
        assigned = system.assignment(draw_edges(graph, score(graph).inside, Key(key, self._number, 0)))
        return PruningState(first_selection(system.variables, Key(key, self._number, 1)), assigned)

    def step(self, key: int, state: PruningState, plan: int) -> tuple[PruningState, Pruned]:
        """One mask more; `plan` is the number of the step, from 1."""
        selected = next_selection(state.selected, Key(key, self._number, 2 * plan + 1))
        graph = self.system.build(selected, state.assigned)
        scores: Scores = score(graph)
        pruned = Pruned(self.system.features(scores.expected), float(np.log(scores.total)), graph.edges)
        drawn = draw_edges(graph, scores.inside, Key(key, self._number, 2 * plan))
        return PruningState(selected, self.system.assignment(drawn)), pruned


class Averages(NamedTuple):
    """Means of soft counts over masks, float64[K], and their Monte Carlo standard errors, float64[K]."""

    mean: NDArray[np.float64]
    error: NDArray[np.float64]


def soft_counts(system: System, masks: int, key: int, number: int = 0) -> Averages:
    """The expected features of a chart, from so many masks; exact where there are no variables.

    Raises `GrammarError` where there is no derivation at all.
    """
    kernel = PruningKernel(system, number)
    state = kernel.init(key)
    rows = []
    for step in range(1, (masks if system.variables > 1 else 1) + 1):
        state, pruned = kernel.step(key, state, step)
        rows.append(pruned.features)
    return averages(np.array(rows), exact=system.variables < 2)


def averages(rows: NDArray[np.float64], exact: bool = False) -> Averages:
    """Means over steps, float64[N, K], with errors from the means of batches of √N steps."""
    steps = len(rows)
    mean = rows.mean(axis=0)
    size = max(1, int(np.sqrt(steps)))
    batches = steps // size
    if exact or batches < 2:
        return Averages(mean, np.full(len(mean), 0.0 if exact else np.nan))
    means = rows[: batches * size].reshape(batches, size, -1).mean(axis=1)
    return Averages(mean, np.asarray(means.std(axis=0, ddof=1) / np.sqrt(batches), np.float64))
