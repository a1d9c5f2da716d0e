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


def logistic_loss(
    weights: NDArray[np.float64], differences: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return −Σ log P(the better candidate of a pair is above) + ½ λ |w|², and its gradient float64[F] by the weights.

    `differences` float64[n, F]: features of the better candidates less those of the worse, each scaled to vary by 1.
    """
    margins = differences @ weights
    # Probability that the worse one is above.
    wrong = 1 / (1 + np.exp(np.clip(margins, -500, 500)))
    value = np.logaddexp(0, -margins).sum() + _REGULARIZATION / 2 * (weights @ weights)
    return float(value), _REGULARIZATION * weights - wrong @ differences


def need_scipy() -> None:
    """Raise `UsageError` where scipy is not installed."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError as error:
        raise UsageError("tuning needs scipy: pip install 'hierogram[tune]'") from error


def train(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of a logistic regression by which the better candidate of a pair is above the worse one.

    `differences` float64[n, F]: features of the better less those of the worse. A feature that never differs weighs 0.
    Raises `UsageError` where scipy is not installed.
    """
    need_scipy()
    from scipy.optimize import minimize

    scale = np.sqrt((differences**2).mean(axis=0))
    scaled = differences / np.where(scale > 0, scale, 1)
    start = np.zeros(differences.shape[1])
    found = minimize(logistic_loss, start, (scaled,), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.where(scale > 0, found.x / np.where(scale > 0, scale, 1), 0.0)


def as_wide(
    trained: NDArray[np.float64], last: NDArray[np.float64], differences: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the trained weights scaled so that they set pairs no further apart than the last ones, and are no larger.

    The first is the root mean square of w · x over the pairs x, `differences` float64[n, F]; the second the sum of
    absolute weights: a feature that hardly varies in pairs may be trained to a weight as large as it likes, though in
    other translations it varies. A feature that was not trained (0) keeps its weight.
    """
    known = trained != 0
    new, wide = np.linalg.norm(differences @ trained), np.linalg.norm(differences @ last)
    size = np.abs(last[known]).sum()
    if not new:
        return last
    scale = min(wide / new if wide else 1.0, (size or 1.0) / np.abs(trained).sum())
    return np.where(known, trained * scale, last)
