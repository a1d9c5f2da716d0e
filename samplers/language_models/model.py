"""N-gram models with backoff, which kernels query: (state, word) → (log probability, next state).

    state = model.begin                                    # after <s>, or EMPTY for an unknown context
    for word in vocabulary.numbers(["the", "house"]):      # unknown words are UNKNOWN
        log10, state = score(model, state, word)
    log10, state = score(model, state, END)

A state is one int32. Histories with the same state have the same probabilities for all continuations. `score` can be
called from kernels and from Python. docs/model.md, section 9, defines states and their `open` words.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import probe, table_mask

EMPTY = 0
"""State of a context that the model does not contain."""

UNKNOWN, BEGIN, END = 0, 1, 2
"""Numbers of the words <unk>, <s> and </s> in every vocabulary."""

FREE = -1
"""Value of an empty slot in a hash table."""

UNIGRAM = np.dtype([("log10", np.float32), ("next", np.int32)], align=True)
"""Log10 probability of a word without context, and the next state."""

NGRAM = np.dtype([("context", np.int32), ("word", np.int32), ("log10", np.float32), ("next", np.int32)], align=True)
"""Log10 probability of a word after the state `context` (`FREE`: empty slot), and the next state."""

STATE = np.dtype([("backoff", np.float32), ("suffix", np.int32), ("length", np.int16), ("open", np.int16)], align=True)
"""State: a context of words that changes the probability of some later word.

`backoff`: log10 backoff weight. `suffix`: longest shorter state that ends the context. `length`: number of words.
`open`: 1 if a longer state ends with this context.
"""

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xBF58476D1CE4E5B9)
_BITS = np.uint64(32)


class LanguageModel(NamedTuple):
    """N-gram model with backoff, as an automaton of contexts."""

    # UNIGRAM[V]: unigrams by word number.
    unigrams: NDArray[np.void]
    # NGRAM[capacity]: hash table of longer n-grams with open addressing. The capacity is a power of two.
    ngrams: NDArray[np.void]
    # STATE[S]: states, EMPTY first.
    states: NDArray[np.void]
    # Length of the longest n-grams.
    order: int
    # State after the word <s>.
    begin: int


@njit_inline
def _ends_at(ngrams, slot, key):
    context, word = key
    slot_context = ngrams[slot].context
    return slot_context == FREE or (slot_context == context and ngrams[slot].word == word)


@njit_inline
def find_ngram(ngrams, context, word):
    """Return the slot of a word after the state `context`, or the free slot for it."""
    mask = table_mask(ngrams)
    code = ((np.uint64(context) << _BITS) | np.uint64(word)) * _FIRST
    code = (code ^ (code >> _BITS)) * _SECOND
    home = (code ^ (code >> _BITS)) & mask
    return np.int64(probe(home, mask, _ends_at, ngrams, (np.int32(context), np.int32(word))))


@njit
def score(model, state, word):
    """Return the log10 probability of a word number after a state, and the next state [Katz 1987]."""
    backoffs = 0.0
    context = np.int32(state)
    while context != EMPTY:
        ngram = model.ngrams[find_ngram(model.ngrams, context, word)]
        if ngram.context != FREE:
            return backoffs + ngram.log10, ngram.next
        backoffs += model.states[context].backoff
        context = model.states[context].suffix
    return backoffs + model.unigrams[word].log10, model.unigrams[word].next


class NGrams(NamedTuple):
    """N-grams of one order k, int32[n, k], with log10 probabilities and backoff weights, float32[n]."""

    words: NDArray[np.int32]
    log10: NDArray[np.float32]
    backoff: NDArray[np.float32]


def iterate_ngrams(model: LanguageModel) -> Iterator[NGrams]:
    """Yield the n-grams of each order, from order 1, sorted by word numbers."""
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
        entries_of_order = entries[length[entries["context"]] == order - 1]
        rows = np.empty((len(entries_of_order), order), np.int32)
        rows[:, -1] = entries_of_order["word"]
        context = entries_of_order["context"]
        for k in range(order - 2, -1, -1):
            rows[:, k] = last[context]
            context = parent[context]
        backoff = np.where(length[entries_of_order["next"]] == order, weight[entries_of_order["next"]], np.float32(0))
        sequence = np.lexsort(rows.T[::-1])
        yield NGrams(rows[sequence], entries_of_order["log10"][sequence], backoff[sequence])
