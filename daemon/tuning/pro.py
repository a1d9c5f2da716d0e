"""Pairwise ranking optimization [Hopkins & May 2011]: weights that put better candidates above worse ones."""

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.tuning.options import TuningOptions

_REGULARIZATION = 1.0
"""Strength of the squared weights, of features that vary by 1, against the sum over all pairs."""


def draw_pairs(
    random: np.random.Generator, scores: NDArray[np.float64], options: TuningOptions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of candidates of one sentence, the better ones and the worse ones: those with the largest gaps of a sample.

    `scores` float64[k]: sentence BLEU. None where all are much the same.
    """
    one, other = random.integers(len(scores), size=(2, options.drawn_pairs))
    gaps = scores[one] - scores[other]
    far = np.flatnonzero(np.abs(gaps) >= max(options.gap, np.finfo(float).tiny))
    far = far[np.argsort(-np.abs(gaps[far]), kind="stable")][: options.kept_pairs]
    better = gaps[far] > 0
    return np.where(better, one[far], other[far]), np.where(better, other[far], one[far])


def train(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of a logistic regression by which the better candidate of a pair is above the worse one.

    `differences` float64[n, F]: features of the better less those of the worse. A feature that never differs weighs 0.
    Raises `UsageError` where scipy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise UsageError("tuning needs scipy: pip install 'hierogram[tune]'") from error
    scale = np.sqrt((differences**2).mean(axis=0))
    scaled = differences / np.where(scale > 0, scale, 1)

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = scaled @ weights
        # Probability that the worse one is above.
        wrong = 1 / (1 + np.exp(np.clip(margins, -500, 500)))
        value = np.logaddexp(0, -margins).sum() + _REGULARIZATION / 2 * (weights @ weights)
        return float(value), _REGULARIZATION * weights - wrong @ scaled

    found = minimize(loss, np.zeros(differences.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.where(scale > 0, found.x / np.where(scale > 0, scale, 1), 0.0)


def interpolate(last: NDArray[np.float64], trained: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The next weights: the last ones and a share of the trained ones, both of one size (sum of absolute values).

    A feature that was not trained (0) keeps its weight.
    """
    known = trained != 0
    size, new = np.abs(last[known]).sum(), np.abs(trained).sum()
    if not new:
        return last
    scaled = trained * ((size or 1.0) / new)
    return np.where(known, (1 - share) * last + share * scaled, last)
