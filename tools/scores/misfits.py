"""Misfits: words that do not belong to a pair, found by classifiers (docs/model.md, section 8)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.scores.lexicon import FEATURES
from hierogram.samplers.scores.scorer import EXPANDED, MAX_FEATURE, Classifiers

_RIDGE = 1.0
_STEPS = 25
_MIN_WORDS = 5
_MAX_WORDS = 100_000
"""Maximum number of training words per class, selected at even intervals."""

Classifier = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]
"""Classifier: mean and deviation of the features, weights, and prior log-odds of the training data."""


def train(
    original: NDArray[np.float64], replaced: NDArray[np.float64], report: Callable[[], object] = lambda: None
) -> Classifier | None:
    """Train a classifier on features of original and replaced words. Returns None for too few words."""
    if min(len(original), len(replaced)) < _MIN_WORDS:
        return None
    original, replaced = (rows[:: 1 + len(rows) // _MAX_WORDS] for rows in (original, replaced))
    examples = np.vstack([original, replaced])
    mean, deviation = examples.mean(axis=0), examples.std(axis=0) + 1e-9
    scaled = np.clip((examples - mean) / deviation, -MAX_FEATURE, MAX_FEATURE)
    first, second = np.triu_indices(scaled.shape[1])
    rows = np.hstack([scaled, np.minimum(scaled, 0), scaled[:, first] * scaled[:, second], np.ones((len(scaled), 1))])
    labels = np.concatenate([np.zeros(len(original)), np.ones(len(replaced))])
    ridge = np.full(rows.shape[1], _RIDGE)
    ridge[-1] = 1e-6
    weights = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        report()
        log_odds = np.clip(rows @ weights, -30, 30)
        probability = 1 / (1 + np.exp(-log_odds))
        gradient = rows.T @ (labels - probability) - ridge * weights
        hessian = (rows * (probability * (1 - probability))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return mean, deviation, weights, float(np.log(len(replaced) / len(original)))


def stack_classifiers(classifiers: tuple[Classifier | None, Classifier | None]) -> Classifiers:
    """Return the classifiers of both sides as arrays."""
    untrained = np.zeros(FEATURES), np.ones(FEATURES), np.zeros(EXPANDED), np.nan
    return Classifiers(*map(np.array, zip(*(classifier or untrained for classifier in classifiers), strict=True)))


def corrupt(
    words: NDArray[np.int32], tokens: NDArray[np.int32], random: np.random.Generator
) -> tuple[NDArray[np.int32], list[int]]:
    """Replace about a fifth of the words by random other `tokens`. Returns the words and the replaced positions."""
    corrupted = words.copy()
    positions = []
    for position in random.permutation(len(words))[: max(1, round(len(words) / 5))].tolist():
        for word in tokens[random.integers(len(tokens), size=8)].tolist():
            if word != corrupted[position]:
                corrupted[position] = word
                positions.append(position)
                break
    return corrupted, positions
