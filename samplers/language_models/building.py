"""Construction of an n-gram model from its n-grams, order by order (docs/model.md, section 9).

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
from hierogram.samplers.language_models.model import BEGIN, EMPTY, FREE, NGRAM, STATE, UNIGRAM, LanguageModel, find

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
`length`: number of words. `extended`: 1 if a longer n-gram begins with this n-gram, at the end 1 if the node becomes a
state. `number`: state that represents the node, set at the end.
"""

NODES, NGRAMS = 0, 1
DONE, FULL = -1, -2
MAX_ORDER = 15
"""Maximum order of a model."""
_MIN_CAPACITY = 1 << 10


class _Parts(NamedTuple):
    """Model under construction: nodes, hash table of n-grams, and counts of used entries of both."""

    nodes: NDArray[np.void]
    ngrams: NDArray[np.void]
    used: NDArray[np.int64]


@njit_inline
def _add_node(parts, context, word, log10, backoff, suffix, slot):
    node = parts.used[NODES]
    parts.used[NODES] = node + 1
    entry = parts.nodes[node]
    entry.log10, entry.backoff, entry.suffix = log10, backoff, suffix
    entry.length, entry.extended = parts.nodes[context].length + 1, 0
    _add_ngram(parts, context, word, log10, node, slot)
    return node


@njit_inline
def _add_ngram(parts, context, word, log10, next_node, slot):
    parts.used[NGRAMS] += 1
    parts.nodes[context].extended = 1
    entry = parts.ngrams[slot]
    entry.context, entry.word, entry.log10, entry.next = context, word, log10, next_node


@njit_inline
def _child(parts, context, word):
    if context == EMPTY:
        return np.int64(word + 1)
    ngram = parts.ngrams[find(parts.ngrams, context, word)]
    return np.int64(FREE if ngram.context == FREE else ngram.next)


@njit
def _suffix_node(parts, context, word):
    """Return the node of the suffix of (context, word). Adds the node and its suffixes if missing."""
    node = _child(parts, parts.nodes[context].suffix, word)
    while node == FREE:
        # Add the shortest missing suffix first, because its own suffix exists.
        shorter = parts.nodes[context].suffix
        while _child(parts, parts.nodes[shorter].suffix, word) == FREE:
            shorter = parts.nodes[shorter].suffix
        suffix = _child(parts, parts.nodes[shorter].suffix, word)
        log10 = parts.nodes[shorter].backoff + parts.nodes[suffix].log10
        _add_node(parts, shorter, word, log10, 0.0, suffix, find(parts.ngrams, shorter, word))
        node = _child(parts, parts.nodes[context].suffix, word)
    return node


@njit
def _find_context(parts, words):
    """Return the node of all words but the last. Adds the node and its prefixes if missing."""
    node = np.int64(words[0] + 1)
    for k in range(1, len(words) - 1):
        child = _child(parts, node, words[k])
        if child == FREE:
            suffix = _suffix_node(parts, node, words[k])
            log10 = parts.nodes[node].backoff + parts.nodes[suffix].log10
            child = _add_node(parts, node, words[k], log10, 0.0, suffix, find(parts.ngrams, node, words[k]))
        node = child
    return node


@njit
def _add(parts, words, log10, backoff, is_highest, row):
    """Add n-grams from `row` on. Returns (`DONE`, `FULL` or row of a duplicate; first row not added)."""
    length = words.shape[1]
    needed = length * length
    while row < len(words):
        if parts.used[NODES] + needed > len(parts.nodes) or 3 * (parts.used[NGRAMS] + needed) > 2 * len(parts.ngrams):
            return np.int64(FULL), row
        context = _find_context(parts, words[row])
        last = words[row, length - 1]
        suffix = _suffix_node(parts, context, last)
        slot = find(parts.ngrams, context, last)
        if parts.ngrams[slot].context != FREE:
            return np.int64(row), row
        if is_highest:
            _add_ngram(parts, context, last, log10[row], suffix, slot)
        else:
            _add_node(parts, context, last, log10[row], backoff[row], suffix, slot)
        row += 1
    return np.int64(DONE), row


@njit
def _rehash(ngrams, larger):
    for k in range(len(ngrams)):
        if ngrams[k].context != FREE:
            larger[find(larger, ngrams[k].context, ngrams[k].word)] = ngrams[k]


@njit
def _number_states(nodes, order):
    """Assign state numbers to EMPTY and nodes that are extended, have a backoff or are a state's suffix."""
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
def _fill(parts, model):
    nodes, states, ngrams = parts.nodes, model.states, model.ngrams
    for k in range(parts.used[NODES]):
        if k == EMPTY or nodes[k].extended != 0:
            entry = states[nodes[k].number]
            entry.backoff, entry.length = nodes[k].backoff, nodes[k].length
            entry.suffix = nodes[nodes[k].suffix].number
            if k != EMPTY:
                states[entry.suffix].open = 1
    for word in range(len(model.unigrams)):
        model.unigrams[word].log10 = nodes[word + 1].log10
        model.unigrams[word].next = nodes[word + 1].number
    for k in range(len(parts.ngrams)):
        ngram = parts.ngrams[k]
        if ngram.context != FREE:
            context = nodes[ngram.context].number
            entry = ngrams[find(ngrams, context, ngram.word)]
            entry.context, entry.word = context, ngram.word
            entry.log10, entry.next = ngram.log10, nodes[ngram.next].number


def _free_ngrams(capacity: int) -> NDArray[np.void]:
    ngrams = np.zeros(capacity, NGRAM)
    ngrams["context"] = FREE
    return ngrams


def _capacity(ngrams: int) -> int:
    """Return the size of a table, a power of two, that the n-grams fill up to two thirds."""
    return capacity_for(3 * ngrams // 4 + 1, _MIN_CAPACITY)


class ModelBuilder:
    """Builder of a language model. Unigrams are added first, then each higher order."""

    def __init__(
        self, order: int, log10: NDArray[np.float32], backoff: NDArray[np.float32], expected: Sequence[int] = ()
    ) -> None:
        """Add the unigrams, given log10 probabilities and backoff weights of words, float32[V].

        `expected` are the expected numbers of bigrams, trigrams, …, for which tables are allocated. Raises
        `SamplerError` unless 1 <= `order` <= `MAX_ORDER`.
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
        self._parts = _Parts(nodes, _free_ngrams(_capacity(sum(expected))), np.array([1 + self._words, 0], np.int64))

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> int | None:
        """Add n-grams int32[n, k], after shorter ones. Stops at a duplicate and returns its row, else None."""
        row = 0
        while True:
            outcome, row = _add(self._parts, words, log10, backoff, words.shape[1] == self.order, row)
            if outcome != FULL:
                return None if outcome == DONE else int(outcome)
            nodes, ngrams, used = self._parts
            needed = words.shape[1] ** 2
            if used[NODES] + needed > len(nodes):
                nodes = np.concatenate([nodes, np.zeros(len(nodes) // 2 + needed, NODE)])
            if 3 * (used[NGRAMS] + needed) > 2 * len(ngrams):
                larger = _free_ngrams(2 * len(ngrams))
                _rehash(ngrams, larger)
                ngrams = larger
            self._parts = _Parts(nodes, ngrams, used)

    def finish(self) -> LanguageModel:
        """Return the model of all added n-grams. Do not use the builder afterwards."""
        nodes, ngrams, used = self._parts
        nodes = nodes[: used[NODES]]
        states = np.zeros(_number_states(nodes, self.order), STATE)
        model = LanguageModel(
            np.zeros(self._words, UNIGRAM), _free_ngrams(_capacity(int(used[NGRAMS]))), states, self.order, 0
        )
        _fill(_Parts(nodes, ngrams, used), model)
        del self._parts
        return model._replace(begin=int(model.unigrams[BEGIN]["next"]))
