"""The n-grams of a model, from its automaton."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.language_models.model import EMPTY, FREE, LanguageModel


class NGrams(NamedTuple):
    """N-grams of one order k: `words` int32[n, k], `log10` and `backoff` float32[n], log10 (0: no weight)."""

    words: NDArray[np.int32]
    log10: NDArray[np.float32]
    backoff: NDArray[np.float32]


def ngrams_of(model: LanguageModel) -> Iterator[NGrams]:
    """All n-grams, order by order from 1, each order sorted by its words."""
    length, weight = model.states["length"], model.states["backoff"]
    after = model.unigrams["next"]
    words = np.arange(len(model.unigrams), dtype=np.int32)
    has_state = length[after] == 1
    backoff = np.where(has_state, weight[after], np.float32(0))
    yield NGrams(words[:, None], model.unigrams["log10"].copy(), backoff)

    entries = model.ngrams[model.ngrams["context"] != FREE]
    longer = entries[length[entries["next"]] == length[entries["context"]] + 1]
    parent, last = np.full(len(model.states), EMPTY, np.int32), np.zeros(len(model.states), np.int32)
    last[after[has_state]] = words[has_state]
    parent[longer["next"]], last[longer["next"]] = longer["context"], longer["word"]
    for order in range(2, model.order + 1):
        found = entries[length[entries["context"]] == order - 1]
        rows = np.empty((len(found), order), np.int32)
        rows[:, -1] = found["word"]
        context = found["context"]
        for k in range(order - 2, -1, -1):
            rows[:, k] = last[context]
            context = parent[context]
        backoff = np.where(length[found["next"]] == order, weight[found["next"]], np.float32(0))
        sequence = np.lexsort(rows.T[::-1])
        yield NGrams(rows[sequence], found["log10"][sequence], backoff[sequence])
