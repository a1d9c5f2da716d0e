"""The chain of masks and what is expected under them [BPK09 Algorithm 1].

Each step selects variables, fixes them at their values in the derivation drawn last, sums over all derivations that
agree, adds what these expect (soft counts), and draws a derivation from the same chart. From soft counts of many steps
come the exact expectations. Charts are made once: where a mask comes again, what was found is taken, and the next of
some derivations that were drawn from its chart.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key, Scores, score, total_of
from hierogram.samplers.charts.pruning.averages import Averages, Pruned, averages
from hierogram.samplers.charts.pruning.selection import doubtful_selection, first_selection, next_selection
from hierogram.samplers.charts.pruning.systems import System

_REMEMBERED = 1 << 26
"""Bytes that the features of remembered masks may take; the first ones are forgotten."""


class PruningState(NamedTuple):
    """The chain's state: the variables that the last mask fixed, and their values in the last derivation, bool[V]."""

    selected: NDArray[np.bool_]
    assigned: NDArray[np.bool_]


class _Known(NamedTuple):
    """A mask that was made: what was found, and assignments of derivations drawn from its chart that are not used."""

    pruned: Pruned
    draws: list[NDArray[np.bool_]]


class PruningKernel:
    """Randomized pruning of one chart. `number` keys its random streams, beside the seed.

    A kernel remembers its masks, of one chart with fixed weights. Each derivation that was drawn is used once, so that
    the chain has the same distribution as one that makes all charts anew.
    """

    def __init__(self, system: System, number: int = 0) -> None:
        self.system = system
        self._number = number
        self._doubts = system.doubts()
        self._known: dict[tuple[bytes, bytes], _Known] = {}

    def init(self, key: int) -> PruningState:
        """A derivation that has as many of the preferred variables positive as can be.

        Those that stand in the way of most others, the more doubtful the sooner, are dropped until there is a
        derivation with all that are left.
        """
        system = self.system
        required = system.preferred()
        conflicts = system.conflicts() * (1.0 if self._doubts is None else self._doubts)
        while not total_of(graph := system.build(required, required)) > 0:
            left = np.flatnonzero(required)
            if not len(left):
                break
            required[left[np.argmax(conflicts[left])]] = False
        assigned = system.draws(score(graph).inside, Key(key, self._number, 0))[0]
        return PruningState(first_selection(system.variables, system.branching, Key(key, self._number, 1)), assigned)

    def step(self, key: int, state: PruningState, plan: int) -> tuple[PruningState, Pruned]:
        """One mask more; `plan` is the number of the step, from 1."""
        of_selection = Key(key, self._number, 2 * plan + 1)
        if self._doubts is None:
            selected = next_selection(state.selected, of_selection)
        else:
            selected = doubtful_selection(self._doubts, self.system.branching, of_selection)
        mask = selected.tobytes(), (selected & state.assigned).tobytes()
        known = self._known.get(mask)
        if known is not None and known.draws:
            return PruningState(selected, known.draws.pop()), known.pruned._replace(edges=0)
        graph = self.system.build(selected, state.assigned)
        scores: Scores = score(graph)
        drawn = self.system.draws(scores.inside, Key(key, self._number, 2 * plan))
        features = self.system.features(scores.expected)
        pruned = Pruned(features, float(np.log(scores.total)), graph.edges, *mask, drawn)
        first, *others = drawn
        if others:
            self._known[mask] = _Known(pruned, others)
            if len(self._known) * pruned.features.nbytes > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return PruningState(selected, first), pruned


def soft_counts(system: System, masks: int, key: int, number: int = 0) -> Averages:
    """The expected features of a chart, from so many masks; exact where there are no variables.

    Raises `GrammarError` where there is no derivation at all.
    """
    kernel = PruningKernel(system, number)
    state = kernel.init(key)
    steps = []
    for step in range(1, (masks if system.variables > 1 else 1) + 1):
        state, pruned = kernel.step(key, state, step)
        steps.append(pruned)
    return averages(steps, exact=system.variables < 2)
