"""Classes of words that follow each other alike, by the exchange algorithm [Kneser & Ney 1993; Martin, Liermann & Ney
1998]; docs/model.md, section 2.

Each word in turn, the most frequent first, goes to the class where a text is likeliest, P(w | v) = P(w | c(w))
P(c(w) | c(v)), until no word moves. A sentence's beginning and end are a class of their own.
"""

import math

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline

_SWEEPS = 30
_GAIN = 1e-9


@njit_inline
def _entropy(n):
    return n * math.log(n) if n > 0 else 0.0


@njit
def _add_word(word, c, change, followers, between, sizes, counts, classes):
    """Add the bigrams of a word to those of class c, `change` times; the word itself is taken to be of class c."""
    start, neighbour, number = followers
    for k in range(start[word], start[word + 1]):
        other = neighbour[k]
        left, times = number[k, 0], number[k, 1]
        d = c if other == word else classes[other]
        if other != word:
            between[d, c] += change * left
        between[c, d] += change * times
    sizes[c] += change * counts[word]


@njit
def _neighbours(word, followers, classes, before, after):
    """Count the words of each class before and after a word, itself left out, and how often it follows itself."""
    start, neighbour, number = followers
    before[:] = 0
    after[:] = 0
    twice = np.int64(0)
    for k in range(start[word], start[word + 1]):
        other = neighbour[k]
        if other == word:
            twice = number[k, 1]
        else:
            before[classes[other]] += number[k, 0]
            after[classes[other]] += number[k, 1]
    return twice


@njit_inline
def _gain(c, count, twice, before, after, between, sizes):
    """By how much ln P rises where a word that is in no class comes to class c."""
    gain = 0.0
    for d in range(len(sizes)):
        if d != c:
            gain += _entropy(between[c, d] + after[d]) - _entropy(between[c, d])
            gain += _entropy(between[d, c] + before[d]) - _entropy(between[d, c])
    gain += _entropy(between[c, c] + before[c] + after[c] + twice) - _entropy(between[c, c])
    return gain - 2.0 * (_entropy(sizes[c] + count) - _entropy(sizes[c]))


@njit
def _exchange(followers, counts, order, classes, between, sizes, scratch):
    """Move each word to its best class, in place; how many moved. The last class is that of sentences' ends.

    `scratch` is int64[2, classes].
    """
    moved = 0
    different = len(sizes) - 1
    before, after = scratch[0], scratch[1]
    for word in order:
        now = classes[word]
        _add_word(word, now, -1, followers, between, sizes, counts, classes)
        twice = _neighbours(word, followers, classes, before, after)
        best = now
        most = _gain(now, counts[word], twice, before, after, between, sizes) + _GAIN
        for c in range(different):
            if c != now:
                gain = _gain(c, counts[word], twice, before, after, between, sizes)
                if gain > most:
                    best, most = c, gain
        classes[word] = best
        _add_word(word, best, 1, followers, between, sizes, counts, classes)
        moved += best != now
    return moved


def word_classes(words: NDArray[np.int32], offsets: NDArray[np.int64], different: int) -> NDArray[np.int64]:
    """The class of each word of sentences, int64 by word, from 0 to `different` - 1: 0 is that of most words.

    `words` are the numbers from 0 on, of sentence after sentence; sentence k is `words[offsets[k]:offsets[k + 1]]`.
    """
    types = int(words.max(initial=-1)) + 1
    edge = types
    bounds = np.insert(words.astype(np.int64), offsets, edge)
    keys, number = np.unique(bounds[:-1] * (types + 1) + bounds[1:], return_counts=True)
    pairs = keys // (types + 1), keys % (types + 1)
    # Each bigram as a word's right neighbour and as a word's left one; a word after itself once.
    apart = pairs[0] != pairs[1]
    own = np.concatenate((pairs[0], pairs[1][apart]))
    other = np.concatenate((pairs[1], pairs[0][apart]))
    both = np.zeros((len(own), 2), np.int64)
    both[: len(number), 1] = number
    both[len(number) :, 0] = number[apart]
    ranked = np.argsort(own, kind="stable")
    start = np.searchsorted(own[ranked], np.arange(types + 2))
    followers = start, other[ranked], both[ranked]
    counts = np.bincount(words, minlength=types)
    order = np.argsort(-counts, kind="stable")
    classes = np.zeros(types + 1, np.int64)
    classes[order] = np.arange(types) % different
    classes[edge] = different
    between = np.zeros((different + 1, different + 1), np.int64)
    np.add.at(between, (classes[pairs[0]], classes[pairs[1]]), number)
    sizes = np.bincount(classes[:types], counts, minlength=different + 1).astype(np.int64)
    scratch = np.zeros((2, different + 1), np.int64)
    for _ in range(_SWEEPS):
        if not _exchange(followers, counts, order, classes, between, sizes, scratch):
            break
    return _by_size(classes[:types], different)


def _by_size(classes: NDArray[np.int64], different: int) -> NDArray[np.int64]:
    """Number the classes by how many words they have, most first."""
    ranks = np.empty(different, np.int64)
    ranks[np.argsort(-np.bincount(classes, minlength=different), kind="stable")] = np.arange(different)
    return ranks[classes]
