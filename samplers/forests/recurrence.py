"""Recurrence: expected occurrences of a rule's source side in new text, by an n-gram model of the training text.

Each n-gram count excludes the occurrence that produced the rule. The model backs off to the shorter n-gram as with a
Dirichlet prior of strength one [MacKay & Peto 1995]. This distinguishes phrases that were seen once: phrases of common
words in a common order are more likely to recur.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.fragments import add_up, powers_of_base
from hierogram.samplers.grammar.keys import ALL_BITS, hash_words, numbering
from hierogram.samplers.grammar.rules import terminal_of

ORDER = 3
"""Length of the longest n-grams in words."""
_UNMET = 0.5
"""Pseudo-count that is added to the other occurrences of each word."""
_FEWEST_WORDS = 100_000
"""Minimal text size in words for expected occurrences, so that small stores do not omit too many rules."""
_PLACES_A_PAIR = 64
_FEWEST_BITS, _MOST_BITS = 12, 24
_HALF_BITS = np.uint64(32)
_POWERS = powers_of_base(ORDER)
_END = "\n"
"""Separator between sides; no symbol contains it."""


class Ngrams(NamedTuple):
    """Counts of hashed n-grams in a text of `words` words: `counts` uint32[ORDER, places], row n - 1 for n-grams.

    Expected occurrences refer to a text of `text_words` words: `words`, but not less than a minimum. N-grams whose
    hashes collide share a count, so a rule may be kept that a larger table would omit.
    """

    counts: NDArray[np.uint32]
    words: int
    text_words: int


@njit_inline
def _place(running, start, end, counts):
    """Return the column in `counts` of the n-gram of words start..end."""
    value = running[end] - running[start] * _POWERS[end - start]
    value ^= value >> _HALF_BITS
    return value & np.uint64(counts.shape[1] - 1)


@njit
def _count(offset, running, counts):
    """Count the n-grams within each sentence."""
    for sentence in range(len(offset) - 1):
        for end in range(offset[sentence] + 1, offset[sentence + 1] + 1):
            for n in range(1, min(ORDER, end - offset[sentence]) + 1):
                counts[n - 1, _place(running, end - n, end, counts)] += np.uint32(1)


@njit_inline
def log_probability(running, start, end, ngrams):
    """Return the log probability that a given position of a text has the words start..end."""
    counts = ngrams.counts
    value = 0.0
    for k in range(start, end):
        times = np.float64(counts[0, _place(running, k, k + 1, counts)])
        p = (max(times - 1.0, 0.0) + _UNMET) / ngrams.words
        for n in range(2, min(ORDER, k + 1 - start) + 1):
            before = np.float64(counts[n - 2, _place(running, k + 1 - n, k, counts)])
            times = np.float64(counts[n - 1, _place(running, k + 1 - n, k + 1, counts)])
            p = (max(times - 1.0, 0.0) + p) / max(before, 1.0)
        value += np.log(p)
    return value


@njit
def _expect(running, runs, ngrams, expected):
    """Multiply the expected occurrences of each side by the linear probability of each of its word runs."""
    for run in runs:
        side = run[0]
        expected[side] *= np.exp(log_probability(running, run[1], run[2], ngrams))


def no_ngrams(pairs: int) -> Ngrams:
    """Return empty n-gram counts, sized for about `pairs` sentence pairs."""
    bits = min(max((_PLACES_A_PAIR * pairs).bit_length(), _FEWEST_BITS), _MOST_BITS)
    return Ngrams(np.zeros((ORDER, 1 << bits), np.uint32), 0, _FEWEST_WORDS)


def add_ngrams(ngrams: Ngrams, batch: Batch) -> Ngrams:
    """Add the n-grams of a batch's source sentences to the same count table."""
    _count(batch.bitext.source_offset, batch.words.source, ngrams.counts)
    words = ngrams.words + len(batch.bitext.source)
    return Ngrams(ngrams.counts, words, max(words, _FEWEST_WORDS))


def expected_occurrences(ngrams: Ngrams, sides: Iterable[str], salt: int) -> NDArray[np.float64]:
    """Return the expected occurrences of each source side in a text of `text_words` words, float64[m].

    `sides` are in rule notation; `salt` is the salt of the word hashes. The word runs of a side, separated by
    nonterminals, are assumed to be independent.
    """
    sides = list(sides)
    numbers = numbering()
    end = numbers[_END]
    # Number all sides in one pass, so that each distinct symbol is parsed once. The end of a side separates runs as a
    # nonterminal does.
    symbols = np.array([numbers[symbol] for symbol in f" {_END} ".join(sides).split(" ")], np.int64)
    spelled = [None if symbol == _END else terminal_of(symbol) for symbol in numbers]
    is_word = np.array([word is not None for word in spelled])[symbols]
    side = np.cumsum(symbols == end)
    hashes = hash_words((word or "" for word in spelled), salt)[symbols[is_word]]
    begins = is_word & ~np.append(False, is_word[:-1])
    ends = is_word & ~np.append(is_word[1:], False)
    # Positions that count only words.
    place = np.cumsum(is_word)
    runs = np.stack((side[begins], place[begins] - 1, place[ends]), axis=1)
    expected = np.full(len(sides), float(ngrams.text_words))
    running = add_up(hashes, hashes[:0], ALL_BITS).source
    _expect(running, runs, ngrams, expected)
    return expected
