"""Randomized pruning: a chain of masks, and expectations under them [BPK09 Algorithm 1].

Each step selects variables (word pairs), fixes them at their values in the last sampled derivation, and sums over all
derivations with these values. It returns the expectations (soft counts), and samples a derivation from the same chart.
The mean of soft counts over many steps converges to the exact expectations. The results of a mask are cached, with
several derivations sampled from its chart. When the mask recurs, the next unused derivation is taken. The first masks
depend on the rules and a cheap model (see `systems`), never on a sampled derivation.

Each mask also yields the total weight of the derivations that it keeps. Different masks of one selection keep disjoint
sets of derivations, so their weights can be added. `weighted_mean` uses these weights.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key, score, total_weight
from hierogram.samplers.charts.pruning.selection import step_selection
from hierogram.samplers.charts.pruning.systems import PairSystem

_UNUSED_PART = 4
"""`cover` estimates the share without the first 1 / `_UNUSED_PART` of the steps (burn-in)."""


class Pruned(NamedTuple):
    """Results of one mask."""

    # float64[K]: expected features.
    features: NDArray[np.float64]
    # Natural log of the total weight of the derivations that the mask keeps.
    log_total: float
    # bool[V] as bytes: True for selected variables.
    selection: bytes
    # bool[V] as bytes: True for selected variables that are positive.
    positive: bytes
    # bool[N, V]: values of all variables in derivations sampled from the chart.
    drawn: NDArray[np.bool_]


class Selection(NamedTuple):
    """Masks of one selection, by `Pruned.positive`. `times` is the number of steps with this selection."""

    masks: dict[bytes, Pruned]
    times: int

    @property
    def log_total(self) -> float:
        """Natural log of the total weight of derivations under these masks."""
        return float(np.logaddexp.reduce([mask.log_total for mask in self.masks.values()]))

    @property
    def features(self) -> NDArray[np.float64]:
        """Mean expected features under these masks, float64[K], weighted by the weight that each mask keeps."""
        log_total = self.log_total
        parts = [np.exp(mask.log_total - log_total) * mask.features for mask in self.masks.values()]
        return np.asarray(np.sum(parts, axis=0), np.float64)


def selections(steps: Sequence[Pruned]) -> dict[bytes, Selection]:
    """Group steps by selection, in order of occurrence."""
    masks: dict[bytes, dict[bytes, Pruned]] = {}
    for step in steps:
        masks.setdefault(step.selection, {})[step.positive] = step
    times = Counter(step.selection for step in steps)
    return {selection: Selection(own, times[selection]) for selection, own in masks.items()}


def cover(steps: Sequence[Pruned]) -> tuple[float, float]:
    """Return (ln weight, estimated share of all weight) for the selection that keeps the most weight.

    The share is estimated as (k + 1/2) / (n + 1) if these masks keep k of n derivations sampled under other selections.
    If all steps after the unused first part have this selection, each step counts as one kept derivation.
    """
    distinct = selections(steps)
    best = max(distinct, key=lambda selection: distinct[selection].log_total)
    fixed, masks = np.frombuffer(best, np.bool_), distinct[best].masks
    later_steps = [step for step in steps[len(steps) // _UNUSED_PART :] if step.selection != best]
    if not later_steps:
        return distinct[best].log_total, (len(steps) + 0.5) / (len(steps) + 1)
    # Check each array once, since a recurring mask has the same array of derivations.
    covered = {id(step.drawn): [(values & fixed).tobytes() in masks for values in step.drawn] for step in later_steps}
    number = sum(len(step.drawn) for step in later_steps)
    share = (sum(sum(covered[id(step.drawn)]) for step in later_steps) + 0.5) / (number + 1)
    return distinct[best].log_total, share


def weighted_mean(steps: Sequence[Pruned]) -> NDArray[np.float64]:
    """Return the weighted mean of the expected features of all masks, float64[K].

    Each mask of a selection counts once, with the total weight of the derivations that it keeps, even if the chain
    visited it several times. Selections are weighted by their number of steps, and by the inverse square of the share
    of the weight that they do not keep, because this share bounds their error.
    """
    distinct = list(selections(steps).values())
    best_total, best_share = cover(steps)
    share = np.array([best_share * np.exp(selection.log_total - best_total) for selection in distinct])
    weight = np.array([selection.times for selection in distinct]) / (1 - share) ** 2
    mean: NDArray[np.float64] = (weight / weight.sum()) @ np.array([selection.features for selection in distinct])
    return mean


class ChainStart(NamedTuple):
    """Positive variables in each chain's first mask, bool[V], and doubts of all variables, float64[V]."""

    positive: list[NDArray[np.bool_]]
    doubts: NDArray[np.float64]


class Trials:
    """Total weights of charts in which some variables are forced to be positive."""

    def __init__(self, system: PairSystem) -> None:
        self.system = system
        self._totals: dict[bytes, float] = {}

    def total(self, positive: NDArray[np.bool_]) -> float:
        """Return the total weight of derivations with these variables positive."""
        if positive.tobytes() not in self._totals:
            self._totals[positive.tobytes()] = total_weight(self.system.build(positive, positive))
        return self._totals[positive.tobytes()]


def find_start(system: PairSystem) -> ChainStart:
    """Return the start of two chains.

    The first chain starts with the variables of `first_start`. The second chain starts with one variable exchanged. The
    exchange yields the largest total weight of derivations. If no exchange increases the weight, both chains start
    equally. The doubt of a variable is the maximum of three doubts: without conditions, given the negative variables of
    the first start, and given the negative variables of the second start.
    """
    trials = Trials(system)
    doubts = system.doubts()
    positive = first_start(trials, doubts)
    other, most = positive, trials.total(positive)
    for variable in np.flatnonzero(system.preferred() & ~positive):
        for replaced in np.flatnonzero(positive):
            swapped = positive.copy()
            swapped[variable], swapped[replaced] = True, False
            total = trials.total(swapped)
            if total > most:
                other, most = swapped, total
    for start in (positive, other):
        doubts = np.maximum(doubts, system.doubts(~start))
    return ChainStart([positive, other], doubts)


def first_start(trials: Trials, doubts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the first chain's positive variables at the start: preferred ones, as far as possible.

    Variables are excluded in descending order of conflicts times doubt, until the remaining ones have a derivation.
    Then each excluded variable is added back if possible, the least doubtful first.
    """
    positive = trials.system.preferred()
    conflict = trials.system.conflicts() * doubts
    excluded = []
    while not trials.total(positive) > 0 and positive.any():
        left = np.flatnonzero(positive)
        excluded.append(int(left[np.argmax(conflict[left])]))
        positive[excluded[-1]] = False
    # Skip the variable that was excluded last, because it cannot be added back.
    for variable in sorted(excluded[:-1], key=lambda one: doubts[one]):
        positive[variable] = True
        positive[variable] = trials.total(positive) > 0
    return positive


_MAX_CACHE_BYTES = 1 << 26
"""Maximum size in bytes of cached features. The oldest masks are evicted."""


class PruningKernel:
    """Randomized pruning of one chart with two chains. `pair` is part of each random stream's key.

    The chains share their selections, so that the weights that their masks keep can be compared. They start from
    different masks if `find_start` finds two. The state is the values of all variables in the last samples,
    bool[chains, V]. `step` uses each sampled derivation once, so the cache does not change the chain's distribution.
    """

    chains = 2

    def __init__(self, system: PairSystem, pair: int = 0) -> None:
        self.system = system
        self._pair = pair
        self._cache: dict[tuple[bytes, bytes], tuple[Pruned, list[NDArray[np.bool_]]]] = {}
        """Results of each mask, and values of sampled derivations that are not used yet."""

    @cached_property
    def start(self) -> ChainStart:
        """Positive variables in the first mask of each chain."""
        return find_start(self.system)

    def init(self, key: int) -> NDArray[np.bool_]:
        """Return the initial state with sampled derivations. Two equal starts yield two samples of one chart."""
        system = self.system
        masks_drawn: dict[bytes, NDArray[np.bool_]] = {}
        assigned = []
        for chain, positive in enumerate(self.start.positive):
            name = positive.tobytes()
            if name not in masks_drawn:
                inside = score(system.build(positive, positive)).inside
                masks_drawn[name] = system.draws(inside, self.stream_key(key, 0, chain))
            assigned.append(masks_drawn[name][chain % len(masks_drawn[name])])
        return np.array(assigned)

    def step(self, key: int, state: NDArray[np.bool_], plan: int) -> tuple[NDArray[np.bool_], list[Pruned]]:
        """Draw a selection, and a derivation under each chain's mask. `plan` is the step number, from 1."""
        selected = self.select(key, plan)
        found = [
            self._masked(selected, assigned, self.stream_key(key, plan, chain)) for chain, assigned in enumerate(state)
        ]
        return np.array([values for values, _ in found]), [pruned for _, pruned in found]

    def select(self, key: int, plan: int) -> NDArray[np.bool_]:
        """Return the selection of step `plan`, bool[V]."""
        selection_key = self.stream_key(key, plan, self.chains)
        return step_selection(self.start.doubts, self.system.branching, plan, selection_key)

    def stream_key(self, key: int, plan: int, use: int) -> Key:
        """Return the key of the stream of chain `use`, or of the selection if `use` is the number of chains."""
        return Key(key, self._pair, (self.chains + 1) * plan + use)

    def _masked(
        self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_], key: Key
    ) -> tuple[NDArray[np.bool_], Pruned]:
        """Sample a derivation under the mask. Returns the values of all variables, and the mask's results."""
        mask = selected.tobytes(), (selected & assigned).tobytes()
        cached, unused = self._cache.get(mask, (None, []))
        if cached is not None and unused:
            return unused.pop(), cached
        scores = score(self.system.build(selected, assigned))
        draws = self.system.draws(scores.inside, key)
        features = self.system.features(scores.expected)
        pruned = Pruned(features, float(np.log(scores.total)), *mask, draws)
        first, *further = draws
        if further:
            self._cache[mask] = pruned, further
            if len(self._cache) * pruned.features.nbytes > _MAX_CACHE_BYTES:
                del self._cache[next(iter(self._cache))]
        return first, pruned


def run_chain(kernel: PruningKernel, masks: int, key: int) -> list[Pruned]:
    """Run the chains from the start. Returns the results of `masks` masks, rounded up to whole steps."""
    state = kernel.init(key)
    result: list[Pruned] = []
    while len(result) < masks:
        state, pruned = kernel.step(key, state, len(result) // len(state) + 1)
        result += pruned
    return result
