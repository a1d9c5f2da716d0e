"""Rank-normalized draws [Vehtari et al. 2021 §4.1]."""

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_OFFSET = 3 / 8
"""Blom's offset of ranks."""


@lru_cache(maxsize=8)
def _normal_scores(size: int) -> NDArray[np.float64]:
    """The standard normal quantile of each half rank k/2 among `size` draws, k = 0..2 size; float64[2 size + 1]."""
    inverse = NormalDist().inv_cdf
    shares = [(k / 2 - _OFFSET) / (size - 2 * _OFFSET + 1) for k in range(2, 2 * size + 1)]
    return np.array([np.nan, np.nan, *map(inverse, shares)])


def double_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Twice the rank of each value in its row, from 2; equal values share the mean of their ranks. int64[S, M]."""
    rows, size = values.shape
    order = np.argsort(values, axis=1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=1)
    places = np.broadcast_to(np.arange(size), (rows, size))
    begins = np.ones((rows, size), np.bool_)
    begins[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    ends = np.ones((rows, size), np.bool_)
    ends[:, :-1] = begins[:, 1:]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, places, size)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty((rows, size), np.int64)
    np.put_along_axis(ranks, order, first + last + 2, axis=1)
    return ranks


def normal_scores(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal scores of the ranks among all draws of a quantity; `draws` and the result float64[S, C, N]."""
    flat = draws.reshape(len(draws), -1)
    return _normal_scores(flat.shape[1])[double_ranks(flat)].reshape(draws.shape)
