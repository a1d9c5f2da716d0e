"""Randomized pruning: a chain of masks, and expectations under them [BPK09 Algorithm 1].

Each step selects variables (word pairs), fixes them at their values in the last sampled derivation, and sums over all
derivations with these values. It returns the expectations (soft counts), and samples a derivation from the same chart.
The mean of soft counts over many steps converges to the exact expectations. The results of a mask are cached, with
several derivations sampled from its chart. When the mask recurs, the next unused derivation is taken. The first masks
depend on the rules and a cheap model (see `pair_charts`), never on a sampled derivation.

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

from hierogram.samplers.charts.hypergraph import StreamKey, inside_outside, total_weight
from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.samplers.compiled.jit import njit_allocating
from hierogram.samplers.compiled.streams import advance, stream, uniform

_BURN_IN_DIVISOR = 4
"""`heaviest_selection` ignores the first 1 / `_BURN_IN_DIVISOR` of the steps."""


class MaskResult(NamedTuple):
    """Results of one mask: a selection of variables and their values."""

    # float64[K]: expected features under the mask (see `PairChart`).
    features: NDArray[np.float64]
    # Natural log of the total weight of the derivations that the mask keeps.
    log_total: float
    # bool[V] as bytes, so that masks can be compared: True for selected variables.
    selection: bytes
    # bool[V] as bytes: True for selected variables that are positive.
    positive: bytes
    # bool[N, V]: values of all variables in derivations sampled from the chart.
    drawn: NDArray[np.bool_]


class SelectionMasks(NamedTuple):
    """Results of one selection's masks, by `MaskResult.positive`, and its number of steps, `times`."""

    masks: dict[bytes, MaskResult]
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


def group_by_selection(steps: Sequence[MaskResult]) -> dict[bytes, SelectionMasks]:
    """Group steps by selection, in order of occurrence."""
    masks: dict[bytes, dict[bytes, MaskResult]] = {}
    for step in steps:
        masks.setdefault(step.selection, {})[step.positive] = step
    times = Counter(step.selection for step in steps)
    return {selection: SelectionMasks(own, times[selection]) for selection, own in masks.items()}


def heaviest_selection(steps: Sequence[MaskResult]) -> tuple[float, float]:
    """Find the selection whose masks keep the most weight. Returns (ln weight, share of the total weight).

    The share is estimated as (k + 1/2) / (n + 1) if these masks keep k of n derivations sampled under other selections.
    If all steps after the burn-in have this selection, each step counts as one kept derivation.
    """
    distinct = group_by_selection(steps)
    best = max(distinct, key=lambda selection: distinct[selection].log_total)
    selected, masks = np.frombuffer(best, np.bool_), distinct[best].masks
    later_steps = [step for step in steps[len(steps) // _BURN_IN_DIVISOR :] if step.selection != best]
    if not later_steps:
        return distinct[best].log_total, (len(steps) + 0.5) / (len(steps) + 1)
    covered = [(values & selected).tobytes() in masks for step in later_steps for values in step.drawn]
    return distinct[best].log_total, (sum(covered) + 0.5) / (len(covered) + 1)


def weighted_mean(steps: Sequence[MaskResult]) -> NDArray[np.float64]:
    """Return the weighted mean of the expected features of all masks, float64[K].

    Each mask of a selection counts once, with the total weight of the derivations that it keeps, even if the chain
    visited it several times. Selections are weighted by their number of steps, and by the inverse square of the share
    of the weight that they do not keep, because this share bounds their error.
    """
    distinct = list(group_by_selection(steps).values())
    best_total, best_share = heaviest_selection(steps)
    share = np.array([best_share * np.exp(selection.log_total - best_total) for selection in distinct])
    weight = np.array([selection.times for selection in distinct]) / (1 - share) ** 2
    mean: NDArray[np.float64] = (weight / weight.sum()) @ np.array([selection.features for selection in distinct])
    return mean


_WIDE = 4
"""Every fourth step is wide: it frees more variables, to reach more distant derivations."""
_WIDEST = 8
"""Number of the first of the widest steps. The other widest steps have 2, 4, 8, … times this number."""


def count_selected(variables: int, branching: int) -> int:
    """Return the number of variables to select, for rules of up to `branching` nonterminals.

    It is branching / (branching + 1) of all variables, rounded, but at least half of them. Of four or more variables,
    at least two are free, because some variables can change only together with another one. A single variable is free.
    """
    if variables < 2:
        return 0
    share = round(branching * variables / (branching + 1))
    return max((variables + 1) // 2, min(share, variables - 2))


def count_free(doubts: NDArray[np.float64], branching: int, plan: int) -> int:
    """Return the number of variables that step `plan` frees, given `doubts` float64[V].

    - Most steps free the expected number of errors of the cheap model: the sum of doubts, rounded up. They free at most
      half of all variables, but at least the number that `count_selected` leaves free.
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
        least = variables - count_selected(variables, branching)
        return max(least, min(ceil(variables / 2), doubtful))
    free = max(ceil(1.5 * variables / (branching + 1)), min(ceil(2 * variables / 3), doubtful + 1))
    if plan >= _WIDEST and plan.bit_count() == 1:
        free = max(free, ceil(0.7 * variables))
    return min(free, variables - 1)


@njit_allocating
def doubtful_selection(doubts: NDArray[np.float64], free: int, key: StreamKey) -> NDArray[np.bool_]:
    """Return a selection bool[V] of all variables except `free` ones, drawn in proportion to `doubts`."""
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


def step_selection(doubts: NDArray[np.float64], branching: int, plan: int, key: StreamKey) -> NDArray[np.bool_]:
    """Return the selection of step `plan`, bool[V]. The first wide step frees the most doubtful variables."""
    free = count_free(doubts, branching, plan)
    if plan != _WIDE:
        return doubtful_selection(doubts, free, key)
    selected = np.ones(len(doubts), np.bool_)
    selected[np.argsort(-doubts, kind="stable")[:free]] = False
    return selected


class ChainStart(NamedTuple):
    """Positive variables in each chain's first mask, bool[V], and doubts of all variables, float64[V]."""

    positive: list[NDArray[np.bool_]]
    doubts: NDArray[np.float64]


def find_start(chart: PairChart) -> ChainStart:
    """Return the start of two chains over a chart.

    The first chain starts with the variables of `first_start`. The second chain starts with one variable exchanged. The
    exchange yields the largest total weight of derivations. If no exchange increases the weight, both chains start
    equally. The doubt of a variable is the maximum of three doubts: without conditions, given the negative variables of
    the first start, and given the negative variables of the second start.
    """
    doubts = chart.doubts()
    positive, most = first_start(chart, doubts)
    other = positive
    for variable in np.flatnonzero(chart.preferred_links() & ~positive):
        for replaced in np.flatnonzero(positive):
            swapped = positive.copy()
            swapped[variable], swapped[replaced] = True, False
            total = total_weight(chart.build(swapped, swapped))
            if total > most:
                other, most = swapped, total
    for start in (positive, other):
        doubts = np.maximum(doubts, chart.doubts(~start))
    return ChainStart([positive, other], doubts)


def first_start(chart: PairChart, doubts: NDArray[np.float64]) -> tuple[NDArray[np.bool_], float]:
    """Return the first chain's positive variables bool[V], and the total weight of their derivations.

    Preferred variables are excluded in descending order of conflicts times doubt, until the remaining ones have a
    derivation. Then each excluded variable is added back if possible, the least doubtful first.
    """
    positive = chart.preferred_links()
    conflict = chart.count_conflicts() * doubts
    excluded = []
    while not (most := total_weight(chart.build(positive, positive))) > 0 and positive.any():
        left = np.flatnonzero(positive)
        excluded.append(int(left[np.argmax(conflict[left])]))
        positive[excluded[-1]] = False
    # Skip the variable that was excluded last, because it cannot be added back.
    for variable in sorted(excluded[:-1], key=lambda one: doubts[one]):
        positive[variable] = True
        total = total_weight(chart.build(positive, positive))
        positive[variable] = total > 0
        most = total or most
    return positive, most


_MAX_CACHE_BYTES = 1 << 26
"""Maximum size in bytes of the cached features of a kernel. The oldest masks are evicted."""


class PruningKernel:
    """Randomized pruning of one chart with two chains. `pair` is part of each random stream's key.

    The chains share their selections, so that the weights that their masks keep can be compared. They start from
    different masks if `find_start` finds two. The state bool[chains, V] has the values of all variables in the last
    samples. `step` uses each sampled derivation once, so the cache does not change the chain's distribution.
    """

    chains = 2

    def __init__(self, chart: PairChart, pair: int = 0) -> None:
        self.chart = chart
        self._pair = pair
        self._cache: dict[tuple[bytes, bytes], tuple[MaskResult, list[NDArray[np.bool_]]]] = {}
        """Results of each mask, and values of sampled derivations that are not used yet."""

    @cached_property
    def start(self) -> ChainStart:
        """Start of the chains, computed at first use."""
        return find_start(self.chart)

    def init(self, key: int) -> NDArray[np.bool_]:
        """Return the initial state. Two equal starts yield two samples of one chart."""
        chart, starts = self.chart, self.start.positive
        assigned = []
        for chain, positive in enumerate(starts):
            if chain == 0 or (positive != starts[0]).any():
                inside = inside_outside(chart.build(positive, positive)).inside
                drawn = chart.sample_values(inside, self.stream_key(key, 0, chain))
            assigned.append(drawn[chain % len(drawn)])
        return np.array(assigned)

    def step(self, key: int, state: NDArray[np.bool_], plan: int) -> tuple[NDArray[np.bool_], list[MaskResult]]:
        """Draw a selection, and a derivation under each chain's mask. `plan` is the step number, from 1."""
        selected = self.select(key, plan)
        found = [
            self._masked(selected, assigned, self.stream_key(key, plan, chain)) for chain, assigned in enumerate(state)
        ]
        return np.array([values for values, _ in found]), [pruned for _, pruned in found]

    def select(self, key: int, plan: int) -> NDArray[np.bool_]:
        """Return the selection of step `plan`, bool[V]."""
        selection_key = self.stream_key(key, plan, self.chains)
        return step_selection(self.start.doubts, self.chart.branching, plan, selection_key)

    def stream_key(self, key: int, plan: int, number: int) -> StreamKey:
        """Return the key of a step's random stream: of chain `number`, or of the selection if `self.chains`."""
        return StreamKey(key, self._pair, (self.chains + 1) * plan + number)

    def _masked(
        self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_], key: StreamKey
    ) -> tuple[NDArray[np.bool_], MaskResult]:
        """Sample a derivation under a mask. Returns its values bool[V], and the mask's results."""
        mask = selected.tobytes(), (selected & assigned).tobytes()
        cached, unused = self._cache.get(mask, (None, []))
        if cached is not None and unused:
            return unused.pop(), cached
        scores = inside_outside(self.chart.build(selected, assigned))
        drawn = self.chart.sample_values(scores.inside, key)
        features = self.chart.features(scores.expected)
        pruned = MaskResult(features, float(np.log(scores.total)), *mask, drawn)
        first, *further = drawn
        if further:
            self._cache[mask] = pruned, further
            if len(self._cache) * pruned.features.nbytes > _MAX_CACHE_BYTES:
                del self._cache[next(iter(self._cache))]
        return first, pruned


def run_chain(kernel: PruningKernel, masks: int, key: int) -> list[MaskResult]:
    """Run the chains from the start. Returns the results of `masks` masks, rounded up to whole steps."""
    state = kernel.init(key)
    result: list[MaskResult] = []
    while len(result) < masks:
        state, pruned = kernel.step(key, state, len(result) // len(state) + 1)
        result += pruned
    return result
