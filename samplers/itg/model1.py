"""IBM Model 1 in both directions, used in the base distribution of emissions [BC10 §1; Brown et al. 1993].

Each sentence has the empty word as an additional conditioning word.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.itg.batch import ItgBatch

ITERATIONS = 10
SMOOTHING = 0.01
"""Weight of the uniform distribution over the vocabulary in each translation probability."""


class Model1(NamedTuple):
    """Translation probabilities in both directions, linear."""

    # float64[T]: P(e | f) of each type of word pairs.
    target: NDArray[np.float64]
    # float64[T]: P(f | e) of each type of word pairs.
    source: NDArray[np.float64]
    # float64[Ve]: P(e | empty word) of each target word.
    null_target: NDArray[np.float64]
    # float64[Vf]: P(f | empty word) of each source word.
    null_source: NDArray[np.float64]


@njit
def _expect(batch, from_source, p, null, expected, expected_null):
    """Add the expected number of times that each conditioning word generates each emitted word."""
    words, offset = batch.source, batch.source_offset
    if from_source:
        words, offset = batch.target, batch.target_offset
    for pair in range(len(batch.pairs)):
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        height = batch.source_offset[pair + 1] - batch.source_offset[pair]
        # Cells are stored row by row, so the distance between cells of adjacent words depends on the direction.
        given, given_stride, step = (height, width, 1) if from_source else (width, 1, width)
        for k in range(offset[pair + 1] - offset[pair]):
            word = words[offset[pair] + k]
            first = batch.cell_offset[pair] + k * step
            mass = null[word]
            for i in range(given):
                mass += p[batch.types[first + i * given_stride]]
            expected_null[word] += null[word] / mass
            for i in range(given):
                t = batch.types[first + i * given_stride]
                expected[t] += p[t] / mass


def _train(
    batch: ItgBatch, from_source: bool, prior: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return P(emitted | given) of each type, and P(emitted | empty word) of each emitted word."""
    given, words = batch.type_target, batch.source_words
    if from_source:
        given, words = batch.type_source, batch.target_words
    favored = np.zeros(len(given)) if prior is None else prior
    p, null = np.full(len(given), 1.0 / max(words, 1)) + favored, np.full(words, 1.0 / max(words, 1))
    for _ in range(ITERATIONS):
        expected, expected_null = favored.copy(), np.zeros(words)
        _expect(batch, from_source, p, null, expected, expected_null)
        totals = np.bincount(given, expected)
        p = expected / np.maximum(totals[given], 1e-300)
        null = expected_null / max(expected_null.sum(), 1e-300)
    uniform = SMOOTHING / max(words, 1)
    return (1 - SMOOTHING) * p + uniform, (1 - SMOOTHING) * null + uniform


def train_model1(batch: ItgBatch, prior: NDArray[np.float64] | None = None) -> Model1:
    """Train Model 1 in both directions.

    `prior` float64[T] is added to the expected count of each type in each iteration, and to the initial probability.
    """
    target, null_target = _train(batch, True, prior)
    source, null_source = _train(batch, False, prior)
    return Model1(target, source, null_target, null_source)
