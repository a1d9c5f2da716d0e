"""The chain of masks and what is expected under them [BPK09 Algorithm 1].

Each step selects variables, fixes them at their values in the derivation drawn last, sums over all derivations that
agree, adds what these expect (soft counts), and draws a derivation from the same chart. From soft counts of many steps
come the exact expectations. Charts are made once: where a mask comes again, what was found is taken, and the next of
some derivations that were drawn from its chart.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key, Scores, score
from hierogram.samplers.charts.pruning.averages import Averages, Pruned, averages
from hierogram.samplers.charts.pruning.selection import (
    doubtful_selection,
    first_selection,
    long_selection,
    next_selection,
    selected_size,
)
from hierogram.samplers.charts.pruning.start import Start, one_start, two_starts
from hierogram.samplers.charts.pruning.systems import System

_REMEMBERED = 1 << 26
"""Bytes that the features of remembered masks may take; the first ones are forgotten."""


class PruningState(NamedTuple):
    """The state of C chains: the variables that their last masks fixed, bool[V], and their values in the last
    derivation of each chain, bool[C, V]."""

    selected: NDArray[np.bool_]
    assigned: NDArray[np.bool_]


class _Known(NamedTuple):
    """A mask that was made: what was found, and assignments of derivations drawn from its chart that are not used."""

    pruned: Pruned
    draws: list[NDArray[np.bool_]]


class PruningKernel:
    """Randomized pruning of one chart. `number` keys its random streams, beside the seed.

    One chain is for few masks, two are for many. They have the same selections, so that what their masks keep can be
    compared, start from different derivations where the cheap model sees two readings, and leave more variables free
    where more are in doubt, and at some steps.

    A kernel remembers its masks, of one chart with fixed weights. Each derivation that was drawn is used once, so that
    a chain has the same distribution as one that makes all charts anew.
    """

    def __init__(self, system: System, number: int = 0, chains: int = 1) -> None:
        """`chains`: 1 or 2."""
        self.system = system
        self._number = number
        self._chains = chains
        self._known: dict[tuple[bytes, bytes], _Known] = {}

    @cached_property
    def start(self) -> Start:
        """What the chains start from; two chains look for two readings."""
        return (one_start if self._chains == 1 else two_starts)(self.system)

    @cached_property
    def _doubts(self) -> NDArray[np.float64] | None:
        return self.system.doubts() if self._chains == 1 else self.start.doubts

    def init(self, key: int) -> PruningState:
        """Derivations with the variables positive that `start` names; where these are the same, two of one chart."""
        system = self.system
        drawn: dict[bytes, NDArray[np.bool_]] = {}
        assigned = []
        for chain, positive in enumerate(self.start.positive):
            name = positive.tobytes()
            if name not in drawn:
                inside = score(system.build(positive, positive)).inside
                drawn[name] = system.draws(inside, self._key(key, 0, chain))
            assigned.append(drawn[name][chain % len(drawn[name])])
        selected = first_selection(system.variables, system.branching, self._key(key, 0, self._chains))
        return PruningState(selected, np.array(assigned))

    def step(self, key: int, state: PruningState, plan: int) -> tuple[PruningState, list[Pruned]]:
        """One mask more of each chain; `plan` is the number of the step, from 1."""
        of_selection = self._key(key, plan, self._chains)
        variables, most = self.system.variables, self.system.branching
        if self._doubts is None:
            selected = next_selection(state.selected, of_selection)
        elif self._chains > 1:
            selected = long_selection(self._doubts, most, plan, of_selection)
        else:
            selected = doubtful_selection(self._doubts, variables - selected_size(variables, most), of_selection)
        found = [
            self._masked(selected, assigned, self._key(key, plan, chain))
            for chain, assigned in enumerate(state.assigned)
        ]
        return PruningState(selected, np.array([values for values, _ in found])), [pruned for _, pruned in found]

    def _key(self, key: int, plan: int, use: int) -> Key:
        """The key of a step's random stream: of each chain's derivation, and at last of the selection."""
        return Key(key, self._number, (self._chains + 1) * plan + use)

    def _masked(
        self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_], key: Key
    ) -> tuple[NDArray[np.bool_], Pruned]:
        """All variables' values in a derivation drawn under the mask, bool[V], and what was found."""
        mask = selected.tobytes(), (selected & assigned).tobytes()
        known = self._known.get(mask)
        if known is not None and known.draws:
            return known.draws.pop(), known.pruned._replace(edges=0)
        graph = self.system.build(selected, assigned)
        scores: Scores = score(graph)
        drawn = self.system.draws(scores.inside, key)
        features = self.system.features(scores.expected)
        pruned = Pruned(features, float(np.log(scores.total)), graph.edges, *mask, drawn)
        first, *others = drawn
        if others:
            self._known[mask] = _Known(pruned, others)
            if len(self._known) * pruned.features.nbytes > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return first, pruned


def soft_counts(system: System, masks: int, key: int, number: int = 0) -> Averages:
    """The expected features of a chart, from so many masks; exact where there are no variables.

    Raises `GrammarError` where there is no derivation at all.
    """
    exact = system.variables < 2
    return averages(chained(PruningKernel(system, number, chains=2), 1 if exact else masks, key), exact)


def chained(kernel: PruningKernel, masks: int, key: int) -> list[Pruned]:
    """So many masks, or one more where there are two chains, from the start on."""
    state = kernel.init(key)
    found: list[Pruned] = []
    while len(found) < masks:
        state, pruned = kernel.step(key, state, len(found) // len(state.assigned) + 1)
        found += pruned
    return found
