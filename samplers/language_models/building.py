"""Building of an n-gram model from its n-grams, order by order, as in ARPA files; see docs/model.md, section 9.

Every n-gram below the highest order is first a *node*. In the end, the nodes that can affect a later word become the
states of the model; the others are dropped.
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
    find,
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
"""N-gram below the highest order; `extended`: whether a longer n-gram starts with it."""

NODES, NGRAMS = 0, 1
DONE, FULL = -1, -2
LONGEST = 15
_SMALLEST = 1 << 10


class _Parts(NamedTuple):
    """Model under construction: NODE[n], NGRAM[capacity], and the numbers of both in use, int64[2]."""

    nodes: NDArray[np.void]
    ngrams: NDArray[np.void]
    taken: NDArray[np.int64]


@njit_inline
def _put(parts, context, word, log10, backoff, suffix, slot):
    """Add a node for a word after a context; returns its number."""
    node = parts.taken[NODES]
    parts.taken[NODES] = node + 1
    made = parts.nodes[node]
    made.log10 = log10
    made.backoff = backoff
    made.suffix = suffix
    made.length = parts.nodes[context].length + 1
    made.extended = 0
    _link(parts, context, word, log10, node, slot)
    return node


@njit_inline
def _link(parts, context, word, log10, after, slot):
    parts.taken[NGRAMS] += 1
    parts.nodes[context].extended = 1
    made = parts.ngrams[slot]
    made.context = context
    made.word = word
    made.log10 = log10
    made.next = after


@njit_inline
def _child(parts, context, word):
    """Return the node of a word after a context, or `FREE`."""
    if context == EMPTY:
        return np.int64(word + 1)
    ngram = parts.ngrams[find(parts.ngrams, context, word)]
    return np.int64(FREE if ngram.context == FREE else ngram.next)


@njit
def _with_ends(parts, context, word):
    """Return the node of a word after the context without its first word; adds it and its suffixes if missing.

    A missing n-gram gets the probability of its suffix plus the backoff weight of its context, and backoff weight 0.
    """
    node = _child(parts, parts.nodes[context].suffix, word)
    while node == FREE:
        # Add the shortest missing one, whose own suffix exists.
        short = parts.nodes[context].suffix
        while _child(parts, parts.nodes[short].suffix, word) == FREE:
            short = parts.nodes[short].suffix
        end = _child(parts, parts.nodes[short].suffix, word)
        log10 = parts.nodes[short].backoff + parts.nodes[end].log10
        _put(parts, short, word, log10, 0.0, end, find(parts.ngrams, short, word))
        node = _child(parts, parts.nodes[context].suffix, word)
    return node


@njit
def _find_context(parts, words):
    """Return the node of all words but the last; adds it and its prefixes if missing."""
    node = np.int64(words[0] + 1)
    for k in range(1, len(words) - 1):
        child = _child(parts, node, words[k])
        if child == FREE:
            end = _with_ends(parts, node, words[k])
            log10 = parts.nodes[node].backoff + parts.nodes[end].log10
            child = _put(parts, node, words[k], log10, 0.0, end, find(parts.ngrams, node, words[k]))
        node = child
    return node


@njit
def _add(parts, words, log10, backoff, is_highest, row):
    """Add n-grams from `row`; returns the outcome and the row at which it stopped.

    Outcomes: `DONE`, `FULL` (the row may not fit), or the number of an existing duplicate row.
    """
    length = words.shape[1]
    most = length * length
    while row < len(words):
        if parts.taken[NODES] + most > len(parts.nodes) or 3 * (parts.taken[NGRAMS] + most) > 2 * len(parts.ngrams):
            return np.int64(FULL), row
        context = _find_context(parts, words[row])
        last = words[row, length - 1]
        end = _with_ends(parts, context, last)
        slot = find(parts.ngrams, context, last)
        if parts.ngrams[slot].context != FREE:
            return np.int64(row), row
        if is_highest:
            _link(parts, context, last, log10[row], end, slot)
        else:
            _put(parts, context, last, log10[row], backoff[row], end, slot)
        row += 1
    return np.int64(DONE), row


@njit
def _rehash(ngrams, larger):
    for k in range(len(ngrams)):
        if ngrams[k].context != FREE:
            larger[find(larger, ngrams[k].context, ngrams[k].word)] = ngrams[k]


@njit
def _number_states(nodes, order):
    """Assign numbers to the nodes that are states; returns their count.

    A state is extended or has a backoff weight, or is the suffix of a state, so that every state's suffix is a state.
    """
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
            # Other nodes get the number of their longest suffix that is a state.
            if nodes[k].length == length and nodes[k].extended == 0:
                nodes[k].number = nodes[nodes[k].suffix].number
    return number


@njit
def _fill(parts, unigrams, ngrams, states):
    nodes = parts.nodes
    for k in range(parts.taken[NODES]):
        if k == EMPTY or nodes[k].extended != 0:
            made = states[nodes[k].number]
            made.backoff = nodes[k].backoff
            made.suffix = nodes[nodes[k].suffix].number
            made.length = nodes[k].length
            if k != EMPTY:
                states[made.suffix].open = 1
    for word in range(len(unigrams)):
        unigrams[word].log10 = nodes[word + 1].log10
        unigrams[word].next = nodes[word + 1].number
    for k in range(len(parts.ngrams)):
        ngram = parts.ngrams[k]
        if ngram.context != FREE:
            context = nodes[ngram.context].number
            made = ngrams[find(ngrams, context, ngram.word)]
            made.context = context
            made.word = ngram.word
            made.log10 = ngram.log10
            made.next = nodes[ngram.next].number


def _free_ngrams(capacity: int) -> NDArray[np.void]:
    made = np.zeros(capacity, NGRAM)
    made["context"] = FREE
    return made


def _capacity(ngrams: int) -> int:
    """Return a table size, a power of two, of which the n-grams fill up to two thirds."""
    return capacity_for(3 * ngrams // 4 + 1, _SMALLEST)


class ModelBuilder:
    """Builder of a model of `order` from its n-grams: unigrams first, then order by order."""

    def __init__(
        self, order: int, log10: NDArray[np.float32], backoff: NDArray[np.float32], expected: Sequence[int] = ()
    ) -> None:
        """Start with the unigrams: log10 probabilities and backoff weights float32[V], by word.

        `expected` are approximate numbers of bigrams, trigrams, …, to allocate tables.
        """
        if not 1 <= order <= LONGEST:
            raise SamplerError(f"order must be from 1 to {LONGEST}, got {order}")
        self.order = order
        self._words = len(log10)
        nodes = np.zeros(1 + self._words + sum(expected[: order - 2]) + _SMALLEST, NODE)
        unigrams = nodes[1 : 1 + self._words]
        unigrams["log10"], unigrams["backoff"], unigrams["length"] = log10, backoff, 1
        if order == 1:
            unigrams["backoff"] = 0
        self._parts = _Parts(nodes, _free_ngrams(_capacity(sum(expected))), np.array([1 + self._words, 0], np.int64))

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> int | None:
        """Add n-grams of one order: words int32[n, k] in order, after all shorter n-grams.

        Returns the row of the first duplicate, or None; rows after a duplicate are not added.
        """
        row = 0
        while True:
            outcome, row = _add(self._parts, words, log10, backoff, words.shape[1] == self.order, row)
            if outcome != FULL:
                return None if outcome == DONE else int(outcome)
            self._grow(words.shape[1] ** 2)

    def finish(self) -> LanguageModel:
        """Return the model of all added n-grams and empty the builder."""
        nodes, ngrams, taken = self._parts
        nodes = nodes[: taken[NODES]]
        states = np.zeros(_number_states(nodes, self.order), STATE)
        made = LanguageModel(
            np.zeros(self._words, UNIGRAM), _free_ngrams(_capacity(int(taken[NGRAMS]))), states, self.order, 0
        )
        _fill(_Parts(nodes, ngrams, taken), made.unigrams, made.ngrams, states)
        del self._parts
        return made._replace(begin=int(made.unigrams[BEGIN]["next"]))

    def _grow(self, most: int) -> None:
        nodes, ngrams, taken = self._parts
        if taken[NODES] + most > len(nodes):
            nodes = np.concatenate([nodes, np.zeros(len(nodes) // 2 + most, NODE)])
        if 3 * (taken[NGRAMS] + most) > 2 * len(ngrams):
            larger = _free_ngrams(2 * len(ngrams))
            _rehash(ngrams, larger)
            ngrams = larger
        self._parts = _Parts(nodes, ngrams, taken)
