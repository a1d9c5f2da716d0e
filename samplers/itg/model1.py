"""IBM Model 1 both ways over a batch's word pairs: the base of emissions [BC10 §1; Brown et al. 1993].

The empty word is one more conditioning word of each sentence.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.itg.batch import ItgBatch

ITERATIONS = 10
SMOOTHING = 0.01
"""So much of each distribution is uniform over the vocabulary."""


class Model1(NamedTuple):
    """Translation probabilities of both directions, linear.

    `target` float64[T] is P(e | f) and `source` float64[T] P(f | e) of each type; `null_target` float64[Ve] and
    `null_source` float64[Vf] those of words that come from the empty word.
    """

    target: NDArray[np.float64]
    source: NDArray[np.float64]
    null_target: NDArray[np.float64]
    null_source: NDArray[np.float64]


@njit
def _expect_target(batch, p, null, expected, expected_null):
    """Add up which source words the target words are expected to come from."""
    for pair in range(len(batch.pairs)):
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        height = batch.source_offset[pair + 1] - batch.source_offset[pair]
        for x in range(width):
            word = batch.target[batch.target_offset[pair] + x]
            first = batch.cell_offset[pair] + x
            mass = null[word]
            for i in range(height):
                mass += p[batch.types[first + i * width]]
            expected_null[word] += null[word] / mass
            for i in range(height):
                t = batch.types[first + i * width]
                expected[t] += p[t] / mass


@njit
def _expect_source(batch, p, null, expected, expected_null):
    """Add up which target words the source words are expected to come from."""
    for pair in range(len(batch.pairs)):
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        height = batch.source_offset[pair + 1] - batch.source_offset[pair]
        for i in range(height):
            word = batch.source[batch.source_offset[pair] + i]
            first = batch.cell_offset[pair] + i * width
            mass = null[word]
            for x in range(width):
                mass += p[batch.types[first + x]]
            expected_null[word] += null[word] / mass
            for x in range(width):
                t = batch.types[first + x]
                expected[t] += p[t] / mass


def _train(
    batch: ItgBatch,
    expect: Callable[..., None],
    given: NDArray[np.int32],
    words: int,
    prior: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(emitted | given) of each type and P(emitted | empty word), from uniform ones (and the prior) on."""
    favoured = np.zeros(len(given)) if prior is None else prior
    p, null = np.full(len(given), 1.0 / max(words, 1)) + favoured, np.full(words, 1.0 / max(words, 1))
    for _ in range(ITERATIONS):
        expected, expected_null = favoured.copy(), np.zeros(words)
        expect(batch, p, null, expected, expected_null)
        totals = np.bincount(given, expected)
        p = expected / np.maximum(totals[given], 1e-300)
        null = expected_null / max(expected_null.sum(), 1e-300)
    uniform = SMOOTHING / max(words, 1)
    return (1 - SMOOTHING) * p + uniform, (1 - SMOOTHING) * null + uniform


def train_model1(batch: ItgBatch, prior: NDArray[np.float64] | None = None) -> Model1:
    """Model 1 of both directions by expectation maximisation, smoothed so that no probability is 0.

    `prior` float64[T] is added to what each type is expected to be used, in both directions.
    """
    target, null_target = _train(batch, _expect_target, batch.type_source, batch.target_words, prior)
    source, null_source = _train(batch, _expect_source, batch.type_target, batch.source_words, prior)
    return Model1(target, source, null_target, null_source)
