"""Convergence of chains: R-hat, effective sample sizes, Monte Carlo errors [Vehtari et al. 2021].

Functions take draws float64[S, C, N] of S quantities in C chains with N >= 4 draws, and return float64[S] unless stated
otherwise. Results equal the results of arviz-stats.
"""

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.float64]
"""Draws float64[S, C, N]."""
Values = NDArray[np.float64]
"""One value per quantity, float64[S]."""

_OFFSET = 3 / 8
"""Offset of ranks in Blom's formula for normal scores."""


@lru_cache(maxsize=8)
def _normal_quantiles(size: int) -> NDArray[np.float64]:
    """Return the normal score of each rank k/2 among `size` draws, float64[2 size + 1], NaN below rank 1."""
    inverse = NormalDist().inv_cdf
    shares = [(k / 2 - _OFFSET) / (size - 2 * _OFFSET + 1) for k in range(2, 2 * size + 1)]
    return np.array([np.nan, np.nan, *map(inverse, shares)])


def _double_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return twice the 1-based rank of each value in its row, int64[S, M]. Ties share their mean rank."""
    ranks = np.empty(values.shape, np.int64)
    for k, row in enumerate(values):
        _, which, counts = np.unique(row, return_inverse=True, return_counts=True)
        ranks[k] = (2 * np.cumsum(counts) - counts + 1)[which]
    return ranks


def _normal_scores(draws: Draws) -> Draws:
    """Return the normal scores of draws, by rank among all draws of a quantity, float64[S, C, N]."""
    flat = draws.reshape(len(draws), -1)
    return _normal_quantiles(flat.shape[1])[_double_ranks(flat)].reshape(draws.shape)


MIN_DRAWS = 4
"""Minimum number of draws of a chain."""
TAIL = 0.05
"""Probability of each tail. The tails are below the 5 % quantile and above the 95 % quantile."""
_RESOLUTION = 1e-15
"""Draws whose range is smaller are considered equal."""


class Summary(NamedTuple):
    """Summary of S quantities, float64[S] each.

    `mean`, `sd`: mean and standard deviation of all draws. `r_hat`: rank-normalized split R-hat, NaN if all draws are
    equal. `ess_bulk`: effective sample size of the rank-normalized draws. `ess_tail`: see `tail_size`. `error`: Monte
    Carlo standard error of the mean.
    """

    mean: Values
    sd: Values
    r_hat: Values
    ess_bulk: Values
    ess_tail: Values
    error: Values


def split(draws: Draws) -> Draws:
    """Split each chain into halves, float64[S, 2C, N // 2]."""
    half = draws.shape[2] // 2
    return np.concatenate((draws[:, :, :half], draws[:, :, -half:]), axis=1)


def _plain_r_hat(draws: Draws) -> Values:
    """Return R-hat of unsplit chains: the square root of (pooled variance / variance within chains)."""
    size = draws.shape[2]
    between = size * draws.mean(axis=2).var(axis=1, ddof=1)
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((between / within + size - 1) / size))


def r_hat(draws: Draws) -> Values:
    """Return the larger rank-normalized split R-hat: of the draws or of their distances from the median."""
    halves = split(draws)
    return _larger_r_hat(halves, _normal_scores(halves))


def _larger_r_hat(halves: Draws, scores: Draws) -> Values:
    median = np.median(halves, axis=(1, 2), keepdims=True)
    return np.fmax(_plain_r_hat(scores), _plain_r_hat(_normal_scores(np.abs(halves - median))))


def _autocovariance(draws: Draws) -> NDArray[np.float64]:
    """Return the autocovariance at each lag, averaged over chains, float64[S, N]."""
    size = draws.shape[2]
    # Pad with zeros to avoid circular correlation.
    padded = 1 << (2 * size - 1).bit_length()
    centered = draws - draws.mean(axis=2, keepdims=True)
    spectrum = np.fft.rfft(centered, n=padded, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    return np.asarray(np.fft.irfft(power, n=padded, axis=1)[:, :size] / size)


def effective_size(draws: Draws) -> Values:
    """Return the effective size for the mean by Geyer's initial monotone sequence. Equal draws all count."""
    _, chains, size = draws.shape
    total = chains * size
    covariance = _autocovariance(draws)
    within = covariance[:, 0] * size / (size - 1.0)
    pooled = covariance[:, 0].copy()
    if chains > 1:
        pooled += draws.mean(axis=2).var(axis=1, ddof=1)
    equal = np.ptp(draws, axis=(1, 2)) < _RESOLUTION
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = 1.0 - (within[:, None] - covariance) / pooled[:, None]
    correlation[:, 0] = 1.0
    # Sum the pairs of adjacent lags before the first pair with a sum <= 0, or before the last pair. Add the first lag
    # of this pair, unless the sum is negative and the lag is not positive.
    pairs = max(1, (size - 1) // 2)
    sums = correlation[:, : 2 * pairs].reshape(len(draws), pairs, 2).sum(axis=2)
    ends = ~(sums > 0.0)
    ends[:, -1] = True
    end, rows = ends.argmax(axis=1), np.arange(len(draws))
    beyond = correlation[rows, 2 * end]
    beyond = np.where((sums[rows, end] >= 0.0) | (beyond > 0.0), beyond, 0.0)
    last = 2 * end - 1
    _make_monotone(correlation, last)
    time = -1.0 + 2.0 * np.where(np.arange(size) <= last[:, None], correlation, 0.0).sum(axis=1) + beyond
    sizes = total / np.maximum(time, 1.0 / np.log10(total))
    return np.where(equal, float(total), sizes)


def _make_monotone(correlation: NDArray[np.float64], last: NDArray[np.int64]) -> None:
    """Reduce the sum of each pair of adjacent lags to at most the sum of the previous pair, in place."""
    for lag in range(1, int(last.max(initial=0)) - 1, 2):
        before = correlation[:, lag - 1] + correlation[:, lag]
        above = (lag <= last - 2) & (correlation[:, lag + 1] + correlation[:, lag + 2] > before)
        correlation[above, lag + 1] = before[above] / 2.0
        correlation[above, lag + 2] = before[above] / 2.0


def tail_size(draws: Draws) -> Values:
    """Return the smaller effective sample size of the 5 % and 95 % quantiles."""
    sizes = []
    for quantile in (TAIL, 1.0 - TAIL):
        border = np.quantile(draws, quantile, axis=(1, 2), keepdims=True)
        sizes.append(effective_size(split((draws <= border).astype(np.float64))))
    return np.minimum(*sizes)


def summarize(draws: Draws) -> Summary:
    """Summarize draws float64[S, C, N]. Raises `ValueError` for another shape or N < `MIN_DRAWS`."""
    if draws.ndim != 3 or draws.shape[2] < MIN_DRAWS:
        raise ValueError(
            f"expected draws of shape (quantities, chains, draws) with at least {MIN_DRAWS} draws, got {draws.shape}"
        )
    halves = split(draws)
    scores = _normal_scores(halves)
    deviation = draws.std(axis=(1, 2), ddof=1)
    return Summary(
        draws.mean(axis=(1, 2)),
        deviation,
        _larger_r_hat(halves, scores),
        effective_size(scores),
        tail_size(draws),
        deviation / np.sqrt(effective_size(halves)),
    )


SOUND, SHORT, APART, DRIFTING, STUCK, CONSTANT = VERDICTS = "sound", "short", "apart", "drifting", "stuck", "constant"
"""Verdicts on a quantity.

`SOUND`: no problem found. `SHORT`: an effective sample size is below `MIN_EFFECTIVE`. `APART`: R-hat exceeds
`R_HAT_LIMIT`, because chains differ. `DRIFTING`: it does, because all chains drift in the same direction. `STUCK`: one
chain hardly moves. `CONSTANT`: all draws are equal.
"""
FLAGS = (STUCK, DRIFTING, APART)
"""Verdicts on draws that cannot be trusted."""

R_HAT_LIMIT = 1.05
MIN_EFFECTIVE = 100.0
_STUCK_SHARE = 0.02
"""A chain is stuck if its standard deviation is below this share of the median over chains."""


def verdicts(draws: Draws, summary: Summary) -> list[str]:
    """Return the verdict on each quantity of draws float64[S, C, N], given their `summarize`."""
    chains = draws.shape[1]
    means = split(draws).mean(axis=2)
    first, last = means[:, :chains], means[:, chains:]
    drift = ((last - first).mean(axis=1) / 2) ** 2
    # The spread of a single chain is 0, because it cannot disagree with others.
    spread = ((first + last) / 2).var(axis=1) if chains > 1 else np.zeros(len(draws))
    deviations = draws.std(axis=2)
    stuck = (deviations < _STUCK_SHARE * np.median(deviations, axis=1, keepdims=True)).any(axis=1)
    differ = summary.r_hat > R_HAT_LIMIT
    short = np.fmin(summary.ess_bulk, summary.ess_tail) < MIN_EFFECTIVE
    conditions = [np.isnan(summary.r_hat), stuck, differ & (drift > spread), differ, short]
    found: list[str] = np.select(conditions, [CONSTANT, STUCK, DRIFTING, APART, SHORT], SOUND).tolist()
    return found


def count_verdicts(found: Sequence[str]) -> dict[str, int]:
    """Return the number of quantities with each verdict in `found`. Omits verdicts without quantities."""
    return {verdict: number for verdict in VERDICTS if (number := found.count(verdict))}
