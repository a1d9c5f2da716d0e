"""Tic-tac-toe pruning, to be compared with: bispans with a low figure of merit are left out [Zhang & Gildea 2005].

A bispan divides the table of source and target words into nine parts, of which the middle one and the four corners
count: words inside are emitted from words inside, words outside from words outside. The figure of merit is the product
of these Model 1 probabilities in both directions.
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.pairs import span_of


def figures_of_merit(target: NDArray[np.float64], source: NDArray[np.float64]) -> NDArray[np.float64]:
    """Natural log of each bispan's figure of merit, float64[spans, (m+1)²], laid out as `Mask.kept`.

    `target` float64[n+1, m] is P(e_x | f_i), `source` float64[n, m+1] is P(f_i | e_x); the empty word comes last.
    """
    n, m = len(source), target.shape[1]
    merit = np.full(((n + 1) * (n + 2) // 2, m + 1, m + 1), -np.inf)
    sums = np.concatenate([np.zeros((1, m)), np.cumsum(target[:-1], axis=0)])
    for j in range(n + 1):
        for i in range(j + 1):
            inside, outside = _divided(sums[j] - sums[i], sums[n], target[-1], j - i, n)
            merit[span_of(i, j)] = outside[-1] + (inside - outside)[None, :] - (inside - outside)[:, None]
    across = np.concatenate([np.zeros((n, 1)), np.cumsum(source[:, :-1], axis=1)], axis=1)
    ends = np.array([(i, j) for j in range(n + 1) for i in range(j + 1)])
    for y in range(m + 1):
        for x in range(y + 1):
            inside, outside = _divided(across[:, y] - across[:, x], across[:, m], source[:, -1], y - x, m)
            gain = inside - outside
            merit[:, x, y] += outside[-1] + gain[ends[:, 1]] - gain[ends[:, 0]]
    merit[:, np.tril(np.ones((m + 1, m + 1), np.bool_), -1)] = -np.inf
    return merit.reshape(len(merit), -1)


def _divided(
    within: NDArray[np.float64], whole: NDArray[np.float64], null: NDArray[np.float64], size: int, words: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over the first words of a side, float64[words + 1]: natural logs of their probabilities from the words
    inside a span of `size` of the other side's words, and from those outside."""
    inside = np.log((within + null) / (size + 1))
    outside = np.log((np.maximum(whole - within, 0) + null) / (words - size + 1))
    return np.concatenate(([0], np.cumsum(inside))), np.concatenate(([0], np.cumsum(outside)))


def kept_bispans(merit: NDArray[np.float64], log_ratio: float) -> NDArray[np.bool_]:
    """Which bispans have a figure of merit within `log_ratio` of the best one with the same source span, in the layout
    of `Mask.kept`; the whole pair is kept."""
    kept = np.asarray(merit >= merit.max(axis=1, keepdims=True) - log_ratio, np.bool_)
    kept[span_of(0, int(np.sqrt(2 * len(merit)) + 0.5) - 1), int(np.sqrt(merit.shape[1]) + 0.5) - 1] = True
    return kept
