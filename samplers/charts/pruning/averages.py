"""What masks say together: the expected features of a whole chart, and how far they may be off."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class Averages(NamedTuple):
    """Expected features, float64[K], and their Monte Carlo standard errors, float64[K]."""

    mean: NDArray[np.float64]
    error: NDArray[np.float64]


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
    """What the masks of one selection keep: natural log of their summed weight, the estimated share that this is of the
    weight of all derivations, above 0 and below 1, and the standard error of that share."""

    log_total: float
    share: float
    error: float


class _Weighed(NamedTuple):
    """Selections: their weights, which sum to 1; the share of all derivations that the masks of each keep, both
    float64[S]; the features' expectations under these, float64[S, K]."""

    weight: NDArray[np.float64]
    share: NDArray[np.float64]
    features: NDArray[np.float64]


def averages(steps: Sequence[Pruned], exact: bool = False) -> Averages:
    """What the masks of all steps say together; no error where one mask is exact, NaN where it cannot be told.

    Selections whose masks keep nearly all are off together, by as much as they differ. Where little is kept, steps are
    draws, and their mean has the error of batches. The variances are mixed by the share that is kept.
    """
    weighed = _weighed(steps)
    mean = weighed.weight @ weighed.features
    if exact:
        return Averages(mean, np.zeros(len(mean)))
    if len(weighed.weight) < 2:
        return Averages(mean, np.full(len(mean), np.nan))
    spread = weighed.weight @ (weighed.features - mean) ** 2
    kept = float(weighed.weight @ weighed.share)
    chance = batch_error(np.array([step.features for step in steps])) ** 2
    return Averages(mean, np.sqrt(kept * spread + (1 - kept) * chance))


def selections(steps: Sequence[Pruned]) -> dict[bytes, Selection]:
    """The selections that came, in their order."""
    masks: dict[bytes, dict[bytes, Pruned]] = {}
    for step in steps:
        masks.setdefault(step.selection, {})[step.positive] = step
    times = Counter(step.selection for step in steps)
    return {selection: Selection(own, times[selection]) for selection, own in masks.items()}


def cover(steps: Sequence[Pruned]) -> Cover:
    """What the masks of that selection keep whose masks keep most.

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
    weighed = _weighed(steps)
    mean: NDArray[np.float64] = weighed.weight @ weighed.features
    return mean


def _weighed(steps: Sequence[Pruned]) -> _Weighed:
    """What each selection says, and its weight.

    Masks of one selection keep derivations apart, so those that came are weighed by what they keep, each once; it does
    not matter how often the chain came to each. What selections say is weighed by how often they came, and by one over
    the square of the share of derivations that they do not keep: by as much may they be off.
    """
    found = list(selections(steps).values())
    most = cover(steps)
    share = np.array([most.share * np.exp(one.log_total - most.log_total) for one in found])
    weight = np.array([one.times for one in found]) / (1 - share) ** 2
    return _Weighed(weight / weight.sum(), share, np.array([one.features for one in found]))


def batch_error(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard errors of the means of steps, float64[N, K], from the means of batches of √N steps; NaN of one batch."""
    steps = len(rows)
    size = max(1, int(np.sqrt(steps)))
    batches = steps // size
    if batches < 2:
        return np.full(rows.shape[1], np.nan)
    means = rows[: batches * size].reshape(batches, size, -1).mean(axis=1)
    return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(batches), np.float64)
