"""Construction of a `LanguageModel` from its n-grams, order by order (docs/model.md, section 9).

While the model is built, each n-gram below the highest order is a *node*. At the end, nodes that can affect the
probability of a later word become states of the model, and other nodes are dropped.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.language_models.model import (
    BEGIN,
    EMPTY,
    FREE,
    NGRAM,
    STATE,
    UNIGRAM,
    LanguageModel,
    find_ngram,
)

NODE = np.dtype(
    [
        ("log10", np.float32),
        ("backoff", np.float32),
        ("suffix", np.int32),
        ("number", np.int32),
        ("length", np.int16),
        ("extended", np.int16),
    ],
    align=True,
)
"""N-gram below the highest order.

`log10`: log10 probability. `backoff`: log10 backoff weight. `suffix`: node of the n-gram without its first word.
`length`: number of words. `extended`: 1 if a longer n-gram begins with this n-gram; after `_number_states`, 1 if the
node becomes a state. `number`: state that represents the node, set by `_number_states`.
"""

NODES, NGRAMS = 0, 1
"""Indices into `_UnfinishedModel.used`."""
DONE, FULL = -1, -2
"""Results of `_add`: all n-grams have been added, or the arrays are full."""
MAX_ORDER = 15
"""Maximum order of a model."""
_MIN_CAPACITY = 1 << 10


class _UnfinishedModel(NamedTuple):
    """Model under construction: nodes, hash table of n-grams, and used entries of both.

    Node 0 is the empty context `EMPTY`, and word w is node w + 1. `context` and `next` in the table are nodes.
    """

    nodes: NDArray[np.void]
    ngrams: NDArray[np.void]
    used: NDArray[np.int64]


@njit_inline
def _add_node(unfinished, context, word, log10, backoff, suffix, slot):
    node = unfinished.used[NODES]
    unfinished.used[NODES] = node + 1
    entry = unfinished.nodes[node]
    entry.log10, entry.backoff, entry.suffix = log10, backoff, suffix
    entry.length, entry.extended = unfinished.nodes[context].length + 1, 0
    _add_ngram(unfinished, context, word, log10, node, slot)
    return node


@njit_inline
def _add_ngram(unfinished, context, word, log10, next_node, slot):
    unfinished.used[NGRAMS] += 1
    unfinished.nodes[context].extended = 1
    entry = unfinished.ngrams[slot]
    entry.context, entry.word, entry.log10, entry.next = context, word, log10, next_node


@njit_inline
def _child(unfinished, context, word):
    if context == EMPTY:
        return np.int64(word + 1)
    ngram = unfinished.ngrams[find_ngram(unfinished.ngrams, context, word)]
    return np.int64(FREE if ngram.context == FREE else ngram.next)


@njit
def _suffix_node(unfinished, context, word):
    """Return the node of the suffix of (context, word). Adds this node and its own suffixes if missing."""
    node = _child(unfinished, unfinished.nodes[context].suffix, word)
    while node == FREE:
        # Add the shortest missing suffix first, because its own suffix exists.
        shorter = unfinished.nodes[context].suffix
        while _child(unfinished, unfinished.nodes[shorter].suffix, word) == FREE:
            shorter = unfinished.nodes[shorter].suffix
        suffix = _child(unfinished, unfinished.nodes[shorter].suffix, word)
        log10 = unfinished.nodes[shorter].backoff + unfinished.nodes[suffix].log10
        _add_node(unfinished, shorter, word, log10, 0.0, suffix, find_ngram(unfinished.ngrams, shorter, word))
        node = _child(unfinished, unfinished.nodes[context].suffix, word)
    return node


@njit
def _find_context(unfinished, words):
    """Return the node of all `words` except the last. Adds this node and its prefixes if missing."""
    node = np.int64(words[0] + 1)
    for k in range(1, len(words) - 1):
        child = _child(unfinished, node, words[k])
        if child == FREE:
            suffix = _suffix_node(unfinished, node, words[k])
            log10 = unfinished.nodes[node].backoff + unfinished.nodes[suffix].log10
            child = _add_node(
                unfinished, node, words[k], log10, 0.0, suffix, find_ngram(unfinished.ngrams, node, words[k])
            )
        node = child
    return node


@njit
def _add(unfinished, words, log10, backoff, is_highest, row):
    """Add n-grams from `row` on. Returns (`DONE`, `FULL` or row of a duplicate; first row not added)."""
    length = words.shape[1]
    needed = length * length
    while row < len(words):
        if unfinished.used[NODES] + needed > len(unfinished.nodes) or 3 * (unfinished.used[NGRAMS] + needed) > 2 * len(
            unfinished.ngrams
        ):
            return np.int64(FULL), row
        context = _find_context(unfinished, words[row])
        last = words[row, length - 1]
        suffix = _suffix_node(unfinished, context, last)
        slot = find_ngram(unfinished.ngrams, context, last)
        if unfinished.ngrams[slot].context != FREE:
            return np.int64(row), row
        if is_highest:
            _add_ngram(unfinished, context, last, log10[row], suffix, slot)
        else:
            _add_node(unfinished, context, last, log10[row], backoff[row], suffix, slot)
        row += 1
    return np.int64(DONE), row


@njit
def _rehash(ngrams, larger):
    for k in range(len(ngrams)):
        if ngrams[k].context != FREE:
            larger[find_ngram(larger, ngrams[k].context, ngrams[k].word)] = ngrams[k]


@njit
def _number_states(nodes, order):
    """Set `extended` of nodes that become states, and `number` of all nodes. Returns the state count."""
    for length in range(order - 1, 0, -1):
        for k in range(len(nodes)):
            if nodes[k].length == length and (nodes[k].extended != 0 or nodes[k].backoff != 0):
                nodes[k].extended = 1
                nodes[nodes[k].suffix].extended = 1
    number = 0
    for k in range(len(nodes)):
        if k == EMPTY or nodes[k].extended != 0:
            nodes[k].number = number
            number += 1
    for length in range(1, order):
        for k in range(len(nodes)):
            # Represent each other node by its longest suffix that is a state. Shorter nodes are done.
            if nodes[k].length == length and nodes[k].extended == 0:
                nodes[k].number = nodes[nodes[k].suffix].number
    return number


@njit
def _fill(unfinished, model):
    nodes, states, ngrams = unfinished.nodes, model.states, model.ngrams
    for k in range(unfinished.used[NODES]):
        if k == EMPTY or nodes[k].extended != 0:
            entry = states[nodes[k].number]
            entry.backoff, entry.length = nodes[k].backoff, nodes[k].length
            entry.suffix = nodes[nodes[k].suffix].number
            if k != EMPTY:
                states[entry.suffix].open = 1
    for word in range(len(model.unigrams)):
        model.unigrams[word].log10 = nodes[word + 1].log10
        model.unigrams[word].next = nodes[word + 1].number
    for k in range(len(unfinished.ngrams)):
        ngram = unfinished.ngrams[k]
        if ngram.context != FREE:
            context = nodes[ngram.context].number
            entry = ngrams[find_ngram(ngrams, context, ngram.word)]
            entry.context, entry.word = context, ngram.word
            entry.log10, entry.next = ngram.log10, nodes[ngram.next].number


def _free_ngrams(capacity: int) -> NDArray[np.void]:
    ngrams = np.zeros(capacity, NGRAM)
    ngrams["context"] = FREE
    return ngrams


def _capacity(ngrams: int) -> int:
    """Return a table size, a power of two, such that `ngrams` n-grams fill up to two thirds."""
    return capacity_for(3 * ngrams // 4 + 1, _MIN_CAPACITY)


class ModelBuilder:
    """Builder of a language model. Call `add` for each order from 2 up to `order`, then `finish`."""

    def __init__(
        self, order: int, log10: NDArray[np.float32], backoff: NDArray[np.float32], expected: Sequence[int] = ()
    ) -> None:
        """Add the unigrams, given log10 probabilities and backoff weights of words, float32[V].

        Words have the numbers of a `Vocabulary`. `expected` are the expected numbers of bigrams, trigrams, …, for which
        tables are allocated. Raises `SamplerError` unless 1 <= `order` <= `MAX_ORDER`.
        """
        if not 1 <= order <= MAX_ORDER:
            raise SamplerError(f"order must be from 1 to {MAX_ORDER}, got {order}")
        self.order = order
        self._words = len(log10)
        nodes = np.zeros(1 + self._words + sum(expected[: order - 2]) + _MIN_CAPACITY, NODE)
        unigrams = nodes[1 : 1 + self._words]
        unigrams["log10"], unigrams["backoff"], unigrams["length"] = log10, backoff, 1
        if order == 1:
            unigrams["backoff"] = 0
        self._unfinished = _UnfinishedModel(
            nodes, _free_ngrams(_capacity(sum(expected))), np.array([1 + self._words, 0], np.int64)
        )

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> int | None:
        """Add n-grams int32[n, k], after shorter ones. Stops at a duplicate and returns its row, else None."""
        row = 0
        while True:
            outcome, row = _add(self._unfinished, words, log10, backoff, words.shape[1] == self.order, row)
            if outcome != FULL:
                return None if outcome == DONE else int(outcome)
            nodes, ngrams, used = self._unfinished
            needed = words.shape[1] ** 2
            if used[NODES] + needed > len(nodes):
                nodes = np.concatenate([nodes, np.zeros(len(nodes) // 2 + needed, NODE)])
            if 3 * (used[NGRAMS] + needed) > 2 * len(ngrams):
                larger = _free_ngrams(2 * len(ngrams))
                _rehash(ngrams, larger)
                ngrams = larger
            self._unfinished = _UnfinishedModel(nodes, ngrams, used)

    def finish(self) -> LanguageModel:
        """Return the model of all added n-grams. The builder cannot be used afterwards."""
        nodes, ngrams, used = self._unfinished
        nodes = nodes[: used[NODES]]
        states = np.zeros(_number_states(nodes, self.order), STATE)
        model = LanguageModel(
            np.zeros(self._words, UNIGRAM), _free_ngrams(_capacity(int(used[NGRAMS]))), states, self.order, 0
        )
        _fill(_UnfinishedModel(nodes, ngrams, used), model)
        del self._unfinished
        return model._replace(begin=int(model.unigrams[BEGIN]["next"]))
