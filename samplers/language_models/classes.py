"""Word classes by the exchange algorithm [Kneser & Ney 1993; Martin, Liermann & Ney 1998]; docs/model.md, section 2.

Each word in turn, the most frequent first, moves to the class that maximizes the likelihood of the text, P(w | v) = P(w
| c(w)) P(c(w) | c(v)), until no word moves. Sentence boundaries are a class of their own. A class model has longer
histories: n-grams of classes, and each word given its class [Brown et al. 1992].
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.language_models.model import END, LanguageModel, score
from hierogram.samplers.language_models.vocabulary import Vocabulary

_SWEEPS = 30
_GAIN = 1e-9


@njit
def _add_word(word, c, change, bigrams, between, sizes, counts, classes):
    """Add `change` times the bigrams of a word to the bigrams of class c, treating the word as a member of c.

    `bigrams` is (start, neighbor, counts): the neighbors of word w are at start[w] to start[w + 1], with the counts of
    the neighbor before w and after w. `between` is int64[C, C], bigrams of classes; `sizes` int64[C], tokens.
    """
    start, neighbor, sides = bigrams
    for k in range(start[word], start[word + 1]):
        neighbor_word = neighbor[k]
        left, right = sides[k, 0], sides[k, 1]
        d = c if neighbor_word == word else classes[neighbor_word]
        if neighbor_word != word:
            between[d, c] += change * left
        between[c, d] += change * right
    sizes[c] += change * counts[word]


@njit
def _neighbors(word, bigrams, classes, before, after, adjacent):
    """Count the words of each class before and after a word, without the word itself, and its self-bigrams.

    Lists the adjacent classes in `near` in ascending order; returns also their number.
    """
    start, neighbor, sides = bigrams
    before[:] = 0
    after[:] = 0
    repeats = np.int64(0)
    for k in range(start[word], start[word + 1]):
        neighbor_word = neighbor[k]
        if neighbor_word == word:
            repeats = sides[k, 1]
        else:
            before[classes[neighbor_word]] += sides[k, 0]
            after[classes[neighbor_word]] += sides[k, 1]
    found = 0
    for d in range(len(before)):
        if before[d] or after[d]:
            adjacent[found] = d
            found += 1
    return repeats, found


@njit_inline
def _gain(c, count, repeats, before, after, adjacent, between, sizes, entropy):
    """Return the increase of ln P if a word without a class joins class c; `near` lists its adjacent classes."""
    gain = 0.0
    for d in adjacent:
        if d != c:
            gain += entropy[between[c, d] + after[d]] - entropy[between[c, d]]
            gain += entropy[between[d, c] + before[d]] - entropy[between[d, c]]
    gain += entropy[between[c, c] + before[c] + after[c] + repeats] - entropy[between[c, c]]
    return gain - 2.0 * (entropy[sizes[c] + count] - entropy[sizes[c]])


@njit
def _fill_entropies(entropy):
    for n in range(len(entropy)):
        entropy[n] = n * math.log(n) if n > 0 else 0.0


@njit
def _exchange(bigrams, counts, order, classes, between, sizes, entropy, scratch):
    """Move each word to its best class, in place; returns the number of moves. The last class is sentence boundaries.

    `entropy` is a table of n ln n, `scratch` is int64[3, classes].
    """
    moved = 0
    class_count = len(sizes) - 1
    before, after = scratch[0], scratch[1]
    for word in order:
        current = classes[word]
        _add_word(word, current, -1, bigrams, between, sizes, counts, classes)
        repeats, adjacent_count = _neighbors(word, bigrams, classes, before, after, scratch[2])
        adjacent = scratch[2, :adjacent_count]
        best = current
        best_gain = _gain(current, counts[word], repeats, before, after, adjacent, between, sizes, entropy) + _GAIN
        for c in range(class_count):
            if c != current:
                gain = _gain(c, counts[word], repeats, before, after, adjacent, between, sizes, entropy)
                if gain > best_gain:
                    best, best_gain = c, gain
        classes[word] = best
        _add_word(word, best, 1, bigrams, between, sizes, counts, classes)
        moved += best != current
    return moved


def word_classes(words: NDArray[np.int32], offsets: NDArray[np.int64], class_count: int) -> NDArray[np.int64]:
    """Return the class of each word, int64 by word, 0 to `class_count` - 1; class 0 has the most words.

    `words` are word numbers; sentence k is `words[offsets[k]:offsets[k + 1]]`.
    """
    types = int(words.max(initial=-1)) + 1
    boundary = types
    text = np.insert(words.astype(np.int64), offsets, boundary)
    keys, times = np.unique(text[:-1] * (types + 1) + text[1:], return_counts=True)
    pairs = keys // (types + 1), keys % (types + 1)
    # List each bigram from both sides, but a word followed by itself only once.
    distinct = pairs[0] != pairs[1]
    bigram_words = np.concatenate((pairs[0], pairs[1][distinct]))
    neighbor_words = np.concatenate((pairs[1], pairs[0][distinct]))
    neighbors = np.zeros((len(bigram_words), 2), np.int64)
    neighbors[: len(times), 1] = times
    neighbors[len(times) :, 0] = times[distinct]
    ranked = np.argsort(bigram_words, kind="stable")
    start = np.searchsorted(bigram_words[ranked], np.arange(types + 2))
    bigrams = start, neighbor_words[ranked], neighbors[ranked]
    counts = np.bincount(words, minlength=types)
    order = np.argsort(-counts, kind="stable")
    classes = np.zeros(types + 1, np.int64)
    classes[order] = np.arange(types) % class_count
    classes[boundary] = class_count
    between = np.zeros((class_count + 1, class_count + 1), np.int64)
    np.add.at(between, (classes[pairs[0]], classes[pairs[1]]), times)
    sizes = np.bincount(classes[:types], counts, minlength=class_count + 1).astype(np.int64)
    entropy = np.empty(len(text) + 1)
    _fill_entropies(entropy)
    scratch = np.zeros((3, class_count + 1), np.int64)
    for _ in range(_SWEEPS):
        if not _exchange(bigrams, counts, order, classes, between, sizes, entropy, scratch):
            break
    return _by_size(classes[:types], class_count)


def _by_size(classes: NDArray[np.int64], class_count: int) -> NDArray[np.int64]:
    ranks = np.empty(class_count, np.int64)
    ranks[np.argsort(-np.bincount(classes, minlength=class_count), kind="stable")] = np.arange(class_count)
    return ranks[classes]


class ClassModel(NamedTuple):
    """N-gram model of word classes, P(w | history) = P(c(w) | previous classes) P(w | c(w))."""

    # The words; its <unk> represents unknown words.
    vocabulary: Vocabulary
    # int32[V]: class of each word, as a word of `model`.
    classes: NDArray[np.int32]
    # float32[V]: log10 probability of each word given its class.
    log10: NDArray[np.float32]
    # N-grams of classes.
    model: LanguageModel

    def scores(self, texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return the log10 probability of each tokenized text, including its end, float64[texts]."""
        words = self.vocabulary.numbers([word for text in texts for word in text])
        starts = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        scores = np.empty(len(texts))
        _score_texts(self.model, self.classes[words], self.log10[words], starts, scores)
        return scores


@njit
def _score_texts(model, classes, log10, starts, scores):
    """Compute the log10 probability of each text, whose words are starts[k] to starts[k + 1]."""
    for k in range(len(scores)):
        state = np.int32(model.begin)
        scores[k] = 0.0
        for position in range(starts[k], starts[k + 1]):
            log_probability, state = score(model, state, classes[position])
            scores[k] += log_probability + log10[position]
        scores[k] += score(model, state, END)[0]
