"""The trend of a chain's log-likelihood, by the values that sweeps have recorded."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.diagnostics.convergence import effective_size

RISING, FALLING, FLAT, SHORT = "rising", "falling", "flat", "short"
FEWEST_VALUES = 6
"""Of the log-likelihood, for a verdict; with fewer it is `SHORT`."""
_WARM_VALUES = 16
_ERRORS = 2.0
"""Halves that differ by more standard errors than this are different."""


class Trend(NamedTuple):
    """The verdict; of the values that were compared: their number, the first and the last sweep, and by how much the
    log-likelihood (natural) changed a sweep, with the standard error of that. These are None where there is no verdict.
    """

    verdict: str
    values: int
    first: int | None = None
    last: int | None = None
    change: float | None = None
    error: float | None = None


def trend_of(points: Sequence[tuple[int, float]]) -> Trend:
    """Return the trend of a chain's log-likelihoods, given as (sweep, value) in the order of sweeps.

    The means of two halves are compared, each with the Monte Carlo error that its effective sample size tells
    [Vehtari et al. 2021]. Of sixteen values and more the first half is left out, as warm-up.
    """
    kept = points[len(points) // 2 :] if len(points) >= _WARM_VALUES else points
    if len(kept) < FEWEST_VALUES:
        return Trend(SHORT, len(kept))
    sweeps, values = np.array([sweep for sweep, _ in kept], np.float64), np.array([value for _, value in kept])
    half = len(kept) // 2
    apart = float(sweeps[-half:].mean() - sweeps[:half].mean())
    change = float(values[-half:].mean() - values[:half].mean())
    error = float(np.hypot(_error(values[:half]), _error(values[-half:])))
    verdict = FLAT if abs(change) <= _ERRORS * error else RISING if change > 0 else FALLING
    return Trend(verdict, len(kept), kept[0][0], kept[-1][0], change / apart, error / apart)


def _error(values: NDArray[np.float64]) -> float:
    """Return the Monte Carlo standard error of the mean of a few draws of one chain."""
    size = float(effective_size(values[None, None, :])[0])
    return float(values.std(ddof=1) / np.sqrt(size))
