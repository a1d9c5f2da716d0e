"""Randomized pruning: a chain of masks, and expectations under them [BPK09 Algorithm 1].

Each step selects variables (word pairs), fixes them at their values in the last sampled derivation, and sums over all
derivations with these values. It returns the expectations (soft counts), and samples a derivation from the same chart.
The mean of soft counts over many steps converges to the exact expectations. The results of a mask are cached, with
several derivations sampled from its chart. When the mask recurs, the next unused derivation is taken. The first masks
depend on the rules and a cheap model (see `systems`), never on a sampled derivation.

With rules of up to b nonterminals, about b / (b + 1) of the variables are selected: two thirds with binary rules, as in
the paper [BPK09 §3.2]. The other variables are *free*. Each step frees random variables, with preference for doubtful
ones. It frees at least the expected number of errors of the cheap model up to a limit, and some steps free more
variables. A selection depends on the step's number and the cheap model, but not on the assignment. Otherwise, the chain
would not converge to the right distribution.

Each mask also yields the total weight of the derivations that it keeps. Different masks of one selection keep disjoint
sets of derivations, so their weights can be added. `weighted_mean` uses these weights.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key, score, total_weight
from hierogram.samplers.charts.pruning.systems import PairSystem
from hierogram.samplers.compiled.jit import njit_allocating
from hierogram.samplers.compiled.streams import advance, stream, uniform

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
    covered = [(values & fixed).tobytes() in masks for step in later_steps for values in step.drawn]
    return distinct[best].log_total, (sum(covered) + 0.5) / (len(covered) + 1)


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


_WIDE = 4
"""Every fourth step is wide: it frees more variables, to reach more distant derivations."""
_WIDEST = 8
"""Number of the first of the widest steps. The other widest steps have 2, 4, 8, … times this number."""


def selected_size(variables: int, branching: int) -> int:
    """Return the number of selected variables for rules of up to `branching` nonterminals.

    It is branching / (branching + 1) of all variables, rounded, but at least half of them. Of four or more variables,
    at least two are free, because some variables can change only together with another one. A single variable is free.
    """
    if variables < 2:
        return 0
    share = round(branching * variables / (branching + 1))
    return max((variables + 1) // 2, min(share, variables - 2))


def free_size(doubts: NDArray[np.float64], branching: int, plan: int) -> int:
    """Return the number of variables that step `plan` frees, given `doubts` float64[V].

    - Most steps free the expected number of errors of the cheap model: the sum of doubts, rounded up. They free at most
      half of all variables, but at least the number that `selected_size` leaves free.
    - Wide steps free one variable more. They free at most two thirds of all variables, but at least
      1.5 / (branching + 1) of them.
    - Steps 8, 16, 32 and so on free at least seven tenths.

    Fractions are rounded up. If there are two or more variables, at least one remains selected.
    """
    variables = len(doubts)
    if variables < 2:
        return variables
    doubtful = ceil(float(doubts.sum()))
    if plan % _WIDE:
        least = variables - selected_size(variables, branching)
        return max(least, min(ceil(variables / 2), doubtful))
    free = max(ceil(1.5 * variables / (branching + 1)), min(ceil(2 * variables / 3), doubtful + 1))
    if plan >= _WIDEST and plan.bit_count() == 1:
        free = max(free, ceil(0.7 * variables))
    return min(free, variables - 1)


@njit_allocating
def doubtful_selection(doubts: NDArray[np.float64], free: int, key: Key) -> NDArray[np.bool_]:
    """Return a selection of all variables except `free` ones, which are drawn in proportion to `doubts`."""
    selected = np.ones(len(doubts), np.bool_)
    stream_state = stream(key.seed, key.pair, key.step)
    for _ in range(free):
        total = 0.0
        for v in range(len(doubts)):
            if selected[v]:
                total += doubts[v]
        stream_state = advance(stream_state)
        threshold = uniform(stream_state) * total
        chosen = 0
        for v in range(len(doubts)):
            if selected[v]:
                chosen = v
                threshold -= doubts[v]
                if threshold < 0.0:
                    break
        selected[chosen] = False
    return selected


def step_selection(doubts: NDArray[np.float64], branching: int, plan: int, key: Key) -> NDArray[np.bool_]:
    """Return the selection of step `plan`, bool[V]. The first wide step frees the most doubtful variables."""
    free = free_size(doubts, branching, plan)
    if plan != _WIDE:
        return doubtful_selection(doubts, free, key)
    selected = np.ones(len(doubts), np.bool_)
    selected[np.argsort(-doubts, kind="stable")[:free]] = False
    return selected


class ChainStart(NamedTuple):
    """Positive variables in each chain's first mask, bool[V], and doubts of all variables, float64[V]."""

    positive: list[NDArray[np.bool_]]
    doubts: NDArray[np.float64]


def find_start(system: PairSystem) -> ChainStart:
    """Return the start of two chains.

    The first chain starts with the variables of `first_start`. The second chain starts with one variable exchanged. The
    exchange yields the largest total weight of derivations. If no exchange increases the weight, both chains start
    equally. The doubt of a variable is the maximum of three doubts: without conditions, given the negative variables of
    the first start, and given the negative variables of the second start.
    """
    doubts = system.doubts()
    positive, most = first_start(system, doubts)
    other = positive
    for variable in np.flatnonzero(system.preferred() & ~positive):
        for replaced in np.flatnonzero(positive):
            swapped = positive.copy()
            swapped[variable], swapped[replaced] = True, False
            total = total_weight(system.build(swapped, swapped))
            if total > most:
                other, most = swapped, total
    for start in (positive, other):
        doubts = np.maximum(doubts, system.doubts(~start))
    return ChainStart([positive, other], doubts)


def first_start(system: PairSystem, doubts: NDArray[np.float64]) -> tuple[NDArray[np.bool_], float]:
    """Return the first chain's positive variables at the start, and the total weight of their derivations.

    Preferred variables are excluded in descending order of conflicts times doubt, until the remaining ones have a
    derivation. Then each excluded variable is added back if possible, the least doubtful first.
    """
    positive = system.preferred()
    conflict = system.conflicts() * doubts
    excluded = []
    while not (most := total_weight(system.build(positive, positive))) > 0 and positive.any():
        left = np.flatnonzero(positive)
        excluded.append(int(left[np.argmax(conflict[left])]))
        positive[excluded[-1]] = False
    # Skip the variable that was excluded last, because it cannot be added back.
    for variable in sorted(excluded[:-1], key=lambda one: doubts[one]):
        positive[variable] = True
        total = total_weight(system.build(positive, positive))
        positive[variable] = total > 0
        most = total or most
    return positive, most


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
        system, starts = self.system, self.start.positive
        assigned = []
        for chain, positive in enumerate(starts):
            if chain == 0 or (positive != starts[0]).any():
                inside = score(system.build(positive, positive)).inside
                drawn = system.draws(inside, self.stream_key(key, 0, chain))
            assigned.append(drawn[chain % len(drawn)])
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
