"""Trend of a chain's log-likelihood over its recorded sweeps."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.diagnostics.convergence import effective_size

RISING, FALLING, FLAT, SHORT = "rising", "falling", "flat", "short"
FEWEST_VALUES = 6
"""Fewest log-likelihoods for a verdict; with fewer, the verdict is `SHORT`."""
_WARM_VALUES = 16
_ERRORS = 2.0
"""Number of standard errors by which the means of two halves must differ for a trend."""


class Trend(NamedTuple):
    """Verdict, number of values compared, their first and last sweep, and the change per sweep.

    `change` is the change of the natural log-likelihood per sweep, `error` its standard error. With the verdict
    `SHORT`, the fields after `values` are None.
    """

    verdict: str
    values: int
    first: int | None = None
    last: int | None = None
    change: float | None = None
    error: float | None = None


def trend_of(points: Sequence[tuple[int, float]]) -> Trend:
    """Return the trend of a chain's log-likelihoods, given as (sweep, value) in the order of sweeps.

    Compares the means of two halves, each with the Monte Carlo error from its effective sample size [Vehtari et al.
    2021]. With 16 or more values, the first half is discarded as warm-up.
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
    """Return the Monte Carlo standard error of the mean of the draws of one chain."""
    size = float(effective_size(values[None, None, :])[0])
    return float(values.std(ddof=1) / np.sqrt(size))
