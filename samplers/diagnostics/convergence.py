"""Convergence of chains: R-hat, effective sample sizes, Monte Carlo errors [Vehtari et al. 2021].

Functions take draws float64[S, C, N] of S quantities in C chains with N >= 4 draws, and return float64[S] by default.
Results equal the results of arviz-stats. `MEANINGS` lists the verdicts on a quantity.
"""

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_OFFSET = 3 / 8
"""Offset of ranks in Blom's formula for normal scores."""


@lru_cache(maxsize=8)
def _normal_quantiles(size: int) -> NDArray[np.float64]:
    """Return the normal scores of the ranks k/2 among `size` draws, float64[2 size + 1] by k. NaN below rank 1."""
    inverse = NormalDist().inv_cdf
    shares = [(k / 2 - _OFFSET) / (size - 2 * _OFFSET + 1) for k in range(2, 2 * size + 1)]
    return np.array([np.nan, np.nan, *map(inverse, shares)])


def double_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return twice the rank of each value in its row, int64[S, M]. Ranks begin at 1. Ties share their mean rank."""
    rows, size = values.shape
    order = np.argsort(values, axis=1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=1)
    columns = np.broadcast_to(np.arange(size), (rows, size))
    begins = np.ones((rows, size), np.bool_)
    begins[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    ends = np.ones((rows, size), np.bool_)
    ends[:, :-1] = begins[:, 1:]
    first = np.maximum.accumulate(np.where(begins, columns, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, columns, size)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty((rows, size), np.int64)
    np.put_along_axis(ranks, order, first + last + 2, axis=1)
    return ranks


def normal_scores(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normal scores of draws by their rank among all draws of a quantity, float64[S, C, N]."""
    flat = draws.reshape(len(draws), -1)
    return _normal_quantiles(flat.shape[1])[double_ranks(flat)].reshape(draws.shape)


Draws = NDArray[np.float64]
Values = NDArray[np.float64]

MIN_DRAWS = 4
TAIL = 0.05
"""Probability of each tail. The tails are below the 5 % quantile and above the 95 % quantile."""
_RESOLUTION = 1e-15
"""Maximum difference between draws that are considered equal."""


class Summary(NamedTuple):
    """Summary of S quantities, float64[S] each.

    `mean`, `sd`: mean and standard deviation of all draws. `r_hat`: rank-normalized split R-hat, NaN if all draws are
    equal. `ess_bulk`, `ess_tail`: effective sample sizes. `error`: Monte Carlo standard error of the mean.
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


def plain_r_hat(draws: Draws) -> Values:
    """Return R-hat of unsplit chains: the square root of (pooled variance / variance within chains)."""
    size = draws.shape[2]
    between = size * draws.mean(axis=2).var(axis=1, ddof=1)
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((between / within + size - 1) / size))


def r_hat(draws: Draws) -> Values:
    """Return rank-normalized split R-hat: the larger R-hat of the draws and of their distances from the median."""
    halves = split(draws)
    return _larger_r_hat(halves, normal_scores(halves))


def _larger_r_hat(halves: Draws, scores: Draws) -> Values:
    median = np.median(halves, axis=(1, 2), keepdims=True)
    return np.fmax(plain_r_hat(scores), plain_r_hat(normal_scores(np.abs(halves - median))))


def autocovariance(draws: Draws) -> Draws:
    """Return the autocovariance at each lag, averaged over chains, float64[S, N]."""
    size = draws.shape[2]
    # Pad with zeros to avoid circular correlation.
    padded = 1 << (2 * size - 1).bit_length()
    centered = draws - draws.mean(axis=2, keepdims=True)
    spectrum = np.fft.rfft(centered, n=padded, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    return np.asarray(np.fft.irfft(power, n=padded, axis=1)[:, :size] / size)


def effective_size(draws: Draws) -> Values:
    """Return the effective sample size for the mean, estimated with Geyer's initial monotone sequence."""
    _, chains, size = draws.shape
    total = chains * size
    covariance = autocovariance(draws)
    within = covariance[:, 0] * size / (size - 1.0)
    pooled = covariance[:, 0].copy()
    if chains > 1:
        pooled += draws.mean(axis=2).var(axis=1, ddof=1)
    equal = np.ptp(draws, axis=(1, 2)) < _RESOLUTION
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = 1.0 - (within[:, None] - covariance) / pooled[:, None]
    correlation[:, 0] = 1.0
    kept, last = _initial_positive(correlation)
    _make_monotone(kept, last)
    lags = np.arange(size)
    beyond = np.take_along_axis(kept, np.minimum(last + 1, size - 1)[:, None], axis=1)[:, 0]
    time = -1.0 + 2.0 * np.where(lags <= last[:, None], kept, 0.0).sum(axis=1) + beyond
    sizes = total / np.maximum(time, 1.0 / np.log10(total))
    return np.where(equal, float(total), sizes)


def _initial_positive(correlation: Draws) -> tuple[Draws, NDArray[np.int64]]:
    """Set correlations to 0 after the first adjacent pair with sum <= 0. Returns (correlations, last lags int64[S])."""
    series, size = correlation.shape
    kept = np.zeros_like(correlation)
    kept[:, :2] = correlation[:, :2]
    last = np.full(series, -1)
    even, odd = correlation[:, 0].copy(), correlation[:, 1].copy()
    going = np.ones(series, np.bool_)
    lag = 1
    while True:
        stops = going & ~((lag < size - 3) & (even + odd > 0.0))
        last[stops] = lag - 2
        going &= ~stops
        if not going.any():
            break
        even = np.where(going, correlation[:, lag + 1], even)
        odd = np.where(going, correlation[:, lag + 2], odd)
        positive = going & (even + odd >= 0.0)
        kept[positive, lag + 1] = even[positive]
        kept[positive, lag + 2] = odd[positive]
        lag += 2
    ahead = np.flatnonzero(even > 0)
    kept[ahead, last[ahead] + 1] = even[ahead]
    return kept, last


def _make_monotone(kept: Draws, last: NDArray[np.int64]) -> None:
    """Reduce the sum of each adjacent pair to at most the sum of the previous pair, in place."""
    for lag in range(1, int(last.max(initial=0)) - 1, 2):
        before = kept[:, lag - 1] + kept[:, lag]
        above = (lag <= last - 2) & (kept[:, lag + 1] + kept[:, lag + 2] > before)
        kept[above, lag + 1] = before[above] / 2.0
        kept[above, lag + 2] = before[above] / 2.0


def tail_size(draws: Draws) -> Values:
    """Return the minimum of the effective sample sizes of both tails."""
    sizes = []
    for quantile in (TAIL, 1.0 - TAIL):
        border = np.quantile(draws, quantile, axis=(1, 2), keepdims=True)
        sizes.append(effective_size(split((draws <= border).astype(np.float64))))
    return np.minimum(*sizes)


def summarize(draws: Draws) -> Summary:
    """Return the summary of draws float64[S, C, N]. Raises `ValueError` for another shape or N < `MIN_DRAWS`."""
    if draws.ndim != 3 or draws.shape[2] < MIN_DRAWS:
        raise ValueError(
            f"expected draws of shape (quantities, chains, draws) with at least {MIN_DRAWS} draws, got {draws.shape}"
        )
    halves = split(draws)
    scores = normal_scores(halves)
    deviation = draws.std(axis=(1, 2), ddof=1)
    return Summary(
        draws.mean(axis=(1, 2)),
        deviation,
        _larger_r_hat(halves, scores),
        effective_size(scores),
        tail_size(draws),
        deviation / np.sqrt(effective_size(halves)),
    )


CONSTANT, STUCK, DRIFTING, APART, SHORT, SOUND = "constant", "stuck", "drifting", "apart", "short", "sound"
MEANINGS = {
    SOUND: "the chains agree",
    SHORT: "the chains agree, but have few effective draws",
    APART: "the chains stay at different values",
    DRIFTING: "all chains still drift: they have not burned in",
    STUCK: "a chain is stuck while others move",
    CONSTANT: "all draws are equal",
}
FLAGS = (STUCK, DRIFTING, APART)
"""Verdicts on draws that cannot be trusted."""

R_HAT_LIMIT = 1.05
MIN_EFFECTIVE = 100.0
_STUCK_SHARE = 0.02
"""A chain is stuck if its standard deviation is below this share of the median over chains."""


def verdicts(draws: Draws, summary: Summary) -> list[str]:
    """Return the verdict on each quantity of draws float64[S, C, N]."""
    drift, spread = _drift_and_spread(draws)
    deviations = draws.std(axis=2)
    stuck = (deviations < _STUCK_SHARE * np.median(deviations, axis=1, keepdims=True)).any(axis=1)
    differ = summary.r_hat > R_HAT_LIMIT
    short = np.fmin(summary.ess_bulk, summary.ess_tail) < MIN_EFFECTIVE
    conditions = [np.isnan(summary.r_hat), stuck, differ & (drift > spread), differ, short]
    found: list[str] = np.select(conditions, [CONSTANT, STUCK, DRIFTING, APART, SHORT], SOUND).tolist()
    return found


def _drift_and_spread(draws: Draws) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (square of half the mean drift from first to second halves, variance of the chains' means)."""
    chains = draws.shape[1]
    means = split(draws).mean(axis=2)
    first, last = means[:, :chains], means[:, chains:]
    drift = ((last - first).mean(axis=1) / 2) ** 2
    centers = (first + last) / 2
    # The spread of a single chain is 0, because it cannot disagree with others.
    return drift, centers.var(axis=1) if chains > 1 else np.zeros(len(draws))


def count_verdicts(found: Sequence[str]) -> dict[str, int]:
    """Return the number of quantities with each verdict. Omits verdicts without quantities."""
    return {verdict: number for verdict in MEANINGS if (number := found.count(verdict))}
