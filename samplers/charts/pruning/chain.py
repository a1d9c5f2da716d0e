"""Randomized pruning: a chain of masks, and what is expected under them [BPK09 Algorithm 1].

Each step selects variables, fixes them at their values in the derivation drawn last, sums over all derivations that
agree, adds what these expect (soft counts), and draws a derivation from the same chart. From soft counts of many steps
come the exact expectations. Charts are made once: where a mask comes again, what was found is taken, and the next of
some derivations that were drawn from its chart.

*Start.* Not all variables that the cheap model prefers can be positive together. All that are not positive are in
doubt: the chain has to find out. So are those that the cheap model doubts once it knows which these are. All this
depends on the grammar and the cheap model alone, never on a derivation that was drawn.

*Totals.* Each mask gives the weight of the derivations that it keeps. Masks of one selection keep derivations apart, so
their weights add up; of the selection whose masks keep most, this sum is nearly the whole. The share that it is of the
whole is that of derivations drawn under the masks of other selections: Z = sum / share. It is the estimate of [Chib
1995] with a set of references in the place of one.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key, Scores, score, total_of
from hierogram.samplers.charts.pruning.selection import (
    doubtful_selection,
    first_selection,
    long_selection,
    next_selection,
    selected_size,
)
from hierogram.samplers.charts.pruning.systems import System

_FIRST = 4
"""One step in so many, the first ones, are not asked how much masks keep: they may still depend on the start."""


class Pruned(NamedTuple):
    """One mask: the features' expectations under it, float64[K]; natural log of the summed weight of the derivations
    that it keeps; how many edges its chart has, 0 where the chart was not made again; the selected variables, and which
    of these are positive, bool[V] as bytes; the values of all variables in each of some derivations that were drawn
    from its chart, bool[N, V]."""

    features: NDArray[np.float64]
    log_total: float
    edges: int
    selection: bytes
    positive: bytes
    drawn: NDArray[np.bool_]


class Selection(NamedTuple):
    """The masks of one selection that came, by their positive variables; how often the selection came."""

    masks: dict[bytes, Pruned]
    times: int

    @property
    def log_total(self) -> float:
        """Natural log of the summed weight of all derivations that these masks keep: no derivation twice."""
        return float(np.logaddexp.reduce([mask.log_total for mask in self.masks.values()]))

    @property
    def features(self) -> NDArray[np.float64]:
        """The features' expectations under these masks, float64[K]: each counts once, by what it keeps."""
        whole = self.log_total
        parts = [np.exp(mask.log_total - whole) * mask.features for mask in self.masks.values()]
        return np.asarray(np.sum(parts, axis=0), np.float64)


class Cover(NamedTuple):
    """Weight that the masks of one selection keep: its natural log, the estimated share that it is of the
    weight of all derivations, above 0 and below 1, and the standard error of that share."""

    log_total: float
    share: float
    error: float


def averages(steps: Sequence[Pruned]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the features that the masks of all steps say to expect, float64[K], and their Monte Carlo standard errors,
    float64[K]; NaN where these cannot be told.

    Selections whose masks keep nearly all are off together, by as much as they differ. Where little is kept, steps are
    draws, and their mean has the error of batches. The variances are mixed by the share that is kept.
    """
    weight, share, features = _weighed(steps)
    mean = weight @ features
    if len(weight) < 2:
        return mean, np.full(len(mean), np.nan)
    spread = weight @ (features - mean) ** 2
    kept = float(weight @ share)
    chance = batch_error(np.array([step.features for step in steps])) ** 2
    return mean, np.sqrt(kept * spread + (1 - kept) * chance)


def selections(steps: Sequence[Pruned]) -> dict[bytes, Selection]:
    """The selections that came, in their order."""
    masks: dict[bytes, dict[bytes, Pruned]] = {}
    for step in steps:
        masks.setdefault(step.selection, {})[step.positive] = step
    times = Counter(step.selection for step in steps)
    return {selection: Selection(own, times[selection]) for selection, own in masks.items()}


def cover(steps: Sequence[Pruned]) -> Cover:
    """Return what the masks of that selection keep whose masks keep most.

    The share is that of derivations drawn from other selections' charts, half a derivation more counted on either side;
    it is told no more surely than one derivation among all. Where no other selection came, each step counts as one
    derivation that is kept.
    """
    found = selections(steps)
    best = max(found, key=lambda selection: found[selection].log_total)
    fixed, masks = np.frombuffer(best, np.bool_), found[best].masks
    others = [step for step in steps[len(steps) // _FIRST :] if step.selection != best]
    if not others:
        return Cover(found[best].log_total, (len(steps) + 0.5) / (len(steps) + 1), 1 / (len(steps) + 1))
    # A mask that came again has the same array.
    kept = {id(step.drawn): [(values & fixed).tobytes() in masks for values in step.drawn] for step in others}
    number = sum(len(step.drawn) for step in others)
    share = (sum(sum(kept[id(step.drawn)]) for step in others) + 0.5) / (number + 1)
    spread = float(batch_error(np.array([[np.mean(kept[id(step.drawn)])] for step in others]))[0])
    return Cover(found[best].log_total, share, float(np.hypot(1 / (number + 1), np.nan_to_num(spread))))


def weighed_mean(steps: Sequence[Pruned]) -> NDArray[np.float64]:
    """Expected features, float64[K], from all masks."""
    weight, _, features = _weighed(steps)
    mean: NDArray[np.float64] = weight @ features
    return mean


def _weighed(steps: Sequence[Pruned]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight of each selection, which sum to 1, the share of all derivations that its masks keep, both
    float64[S], and the features' expectations under these, float64[S, K].

    Masks of one selection keep derivations apart, so those that came are weighed by what they keep, each once; it does
    not matter how often the chain came to each. What selections say is weighed by how often they came, and by one over
    the square of the share of derivations that they do not keep: by as much may they be off.
    """
    found = list(selections(steps).values())
    most = cover(steps)
    share = np.array([most.share * np.exp(one.log_total - most.log_total) for one in found])
    weight = np.array([one.times for one in found]) / (1 - share) ** 2
    return weight / weight.sum(), share, np.array([one.features for one in found])


def batch_error(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard errors of the means of steps, float64[N, K], from the means of batches of √N steps; NaN of one batch."""
    steps = len(rows)
    size = max(1, int(np.sqrt(steps)))
    batches = steps // size
    if batches < 2:
        return np.full(rows.shape[1], np.nan)
    means = rows[: batches * size].reshape(batches, size, -1).mean(axis=1)
    return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(batches), np.float64)


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
        """Return what was found. The chart of each start is made once more, to draw derivations."""
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


_REMEMBERED = 1 << 26
"""Bytes that the features of remembered masks may take; the first ones are forgotten."""


class PruningState(NamedTuple):
    """The state of C chains: the variables that their last masks fixed, bool[V], and their values in the last
    derivation of each chain, bool[C, V]."""

    selected: NDArray[np.bool_]
    assigned: NDArray[np.bool_]


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
        self._known: dict[tuple[bytes, bytes], tuple[Pruned, list[NDArray[np.bool_]]]] = {}
        """By mask: what was found, and assignments of derivations drawn from its chart that are not used yet."""

    @cached_property
    def start(self) -> Start:
        """Return what the chains start from; two chains look for two readings."""
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
        known, unused = self._known.get(mask, (None, []))
        if known is not None and unused:
            return unused.pop(), known._replace(edges=0)
        graph = self.system.build(selected, assigned)
        scores: Scores = score(graph)
        drawn = self.system.draws(scores.inside, key)
        features = self.system.features(scores.expected)
        pruned = Pruned(features, float(np.log(scores.total)), graph.edges, *mask, drawn)
        first, *others = drawn
        if others:
            self._known[mask] = pruned, others
            if len(self._known) * pruned.features.nbytes > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return first, pruned


def chained(kernel: PruningKernel, masks: int, key: int) -> list[Pruned]:
    """So many masks, or one more where there are two chains, from the start on."""
    state = kernel.init(key)
    found: list[Pruned] = []
    while len(found) < masks:
        state, pruned = kernel.step(key, state, len(found) // len(state.assigned) + 1)
        found += pruned
    return found


class Estimate(NamedTuple):
    """Natural log of the summed weight of all derivations and its Monte Carlo standard error; the expected features
    and their Monte Carlo standard errors, float64[K] each: NaN where these cannot be told, of a single batch of masks.
    """

    log_total: float
    error: float
    features: NDArray[np.float64]
    feature_errors: NDArray[np.float64]


def estimate(system: System, masks: int, key: int, number: int = 0) -> Estimate:
    """The sum and the expected features from so many masks of one chain; exact from one where nothing is selected.

    A dozen masks shall do. Of two chains, each mask would have the company of one other of its selection, and there
    would be half as many selections to compare.

    Raises `GrammarError` where there is no derivation.
    """
    if not selected_size(system.variables, system.branching):
        nothing = np.zeros(system.variables, np.bool_)
        scores = score(system.build(nothing, nothing))
        features = system.features(scores.expected)
        return Estimate(float(np.log(scores.total)), 0.0, features, np.zeros(len(features)))
    steps = chained(PruningKernel(system, number), masks, key)
    most = cover(steps)
    return Estimate(most.log_total - float(np.log(most.share)), most.error / most.share, *averages(steps))
