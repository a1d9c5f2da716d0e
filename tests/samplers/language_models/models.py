"""Conversion of the reference's models to kernel models."""

from collections.abc import Sequence

import numpy as np
from tests.reference.language_models.backoff import Model

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.language_models.building import ModelBuilder
from hierogram.samplers.language_models.model import EMPTY, LanguageModel, score


def kernel_model(model: Model, words: int, rows_at_once: int = 1_000, expected: bool = True) -> LanguageModel:
    by_order = [sorted(gram for gram in model.log10 if len(gram) == k + 1) for k in range(model.order)]
    log10 = np.array([model.log10[w,] for w in range(words)], np.float32)
    backoff = np.array([model.backoff.get((w,), 0) for w in range(words)], np.float32)
    builder = ModelBuilder(model.order, log10, backoff, [len(grams) for grams in by_order[1:]] if expected else ())
    for grams in by_order[1:]:
        for first in range(0, len(grams), rows_at_once):
            part = grams[first : first + rows_at_once]
            assert builder.add(*rows(model, part)) is None
    return builder.finish()


def rows(model: Model, grams: list[tuple[int, ...]]):
    """Return the n-grams of one order as columns."""
    return (
        np.array(grams, np.int32),
        np.array([model.log10[gram] for gram in grams], np.float32),
        np.array([model.backoff.get(gram, 0) for gram in grams], np.float32),
    )


def walk(model: LanguageModel, words: Sequence[int], state: int = EMPTY) -> tuple[np.ndarray, np.ndarray]:
    """Return the log10 probability of each word in sequence, and the state after it."""
    log10, states = np.zeros(len(words)), np.zeros(len(words), np.int32)
    _score_all(model, state, np.array(words, np.int32), log10, states)
    return log10, states


@njit
def _score_all(model, state, words, log10, states):
    for k in range(len(words)):
        log10[k], state = score(model, state, words[k])
        states[k] = state
