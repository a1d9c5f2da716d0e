"""What masks say together: the expected features of a whole chart, and how far they may be off."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pruned(NamedTuple):
    """One mask: the features' expectations under it, float64[K]; natural log of the summed weight of the derivations
    that it keeps; how many edges its chart has, 0 where the chart was not made again; the selected variables, and which
    of these are positive, bool[V] as bytes."""

    features: NDArray[np.float64]
    log_total: float
    edges: int
    selection: bytes
    positive: bytes


class Averages(NamedTuple):
    """Expected features, float64[K], and their Monte Carlo standard errors, float64[K]."""

    mean: NDArray[np.float64]
    error: NDArray[np.float64]


def averages(steps: Sequence[Pruned], exact: bool = False) -> Averages:
    """What the masks of all steps say together, with the errors of plain means; no error where one mask is exact."""
    mean = weighed_mean(steps)
    if exact:
        return Averages(mean, np.zeros(len(mean)))
    return Averages(mean, batch_error(np.array([step.features for step in steps])))


def weighed_mean(steps: Sequence[Pruned]) -> NDArray[np.float64]:
    """Expected features, float64[K], from all masks.

    Masks of one selection keep derivations apart, so those that came are weighed by what they keep, each once; it does
    not matter how often the chain came to each. What selections say is weighed by how often they came.
    """
    found: dict[bytes, dict[bytes, Pruned]] = {}
    times: dict[bytes, int] = {}
    for step in steps:
        found.setdefault(step.selection, {})[step.positive] = step
        times[step.selection] = times.get(step.selection, 0) + 1
    mean = np.zeros(len(steps[0].features))
    for selection, masks in found.items():
        highest = max(step.log_total for step in masks.values())
        weights = [np.exp(step.log_total - highest) for step in masks.values()]
        for weight, step in zip(weights, masks.values(), strict=True):
            mean += times[selection] / len(steps) * weight / sum(weights) * step.features
    return mean


def batch_error(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard errors of the means of steps, float64[N, K], from the means of batches of √N steps; NaN of one batch."""
    steps = len(rows)
    size = max(1, int(np.sqrt(steps)))
    batches = steps // size
    if batches < 2:
        return np.full(rows.shape[1], np.nan)
    means = rows[: batches * size].reshape(batches, size, -1).mean(axis=1)
    return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(batches), np.float64)
