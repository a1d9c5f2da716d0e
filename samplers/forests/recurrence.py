"""Recurrence: how often new text has the source side of a rule, by an n-gram model of the text that was met.

Each n-gram is counted without the occurrence that the rule itself comes from, and what is left over goes to the shorter
n-gram, as a Dirichlet prior of strength one has it [MacKay & Peto 1995]. So phrases that were met once differ: those
of usual words in a usual order come again.
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
"""Words of the longest n-grams."""
_UNMET = 0.5
"""Occurrences of a word that was met in no other place."""
_FEWEST_WORDS = 100_000
"""Occurrences are expected in a text of this size at least, so that small stores do not leave out too much."""
_PLACES_A_PAIR = 64
_FEWEST_BITS, _MOST_BITS = 12, 24
_HALF_BITS = np.uint64(32)
_POWERS = powers_of_base(ORDER)
_END = "\n"
"""Stands between sides: no symbol has it."""


class Ngrams(NamedTuple):
    """Counts of n-grams in a text of `words` words: `counts` uint32[ORDER, places], n - 1 first, by hashes.

    Occurrences are expected in a text of `text_words` words: as many as were met, if these are not few. N-grams may
    share a place: then they are counted together, and a rule is kept that a larger table would leave out.
    """

    counts: NDArray[np.uint32]
    words: int
    text_words: int


@njit_inline
def _place(running, start, end, counts):
    """Return the place of the n-gram of the words start..end, among those of its length."""
    value = running[end] - running[start] * _POWERS[end - start]
    value ^= value >> _HALF_BITS
    return value & np.uint64(counts.shape[1] - 1)


@njit
def _count(offset, running, counts):
    """Count the n-grams of all sentences; no n-gram goes beyond its sentence."""
    for sentence in range(len(offset) - 1):
        for end in range(offset[sentence] + 1, offset[sentence + 1] + 1):
            for n in range(1, min(ORDER, end - offset[sentence]) + 1):
                counts[n - 1, _place(running, end - n, end, counts)] += np.uint32(1)


@njit_inline
def log_probability(running, start, end, ngrams):
    """Return the logarithm of the probability that the words start..end stand at some place of a text."""
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
    """Multiply the expected occurrences of each side by the probability of each of its runs of words."""
    for run in runs:
        side = run[0]
        expected[side] *= np.exp(log_probability(running, run[1], run[2], ngrams))


def no_ngrams(pairs: int) -> Ngrams:
    """Return a table for the n-grams of about so many pairs."""
    bits = min(max((_PLACES_A_PAIR * pairs).bit_length(), _FEWEST_BITS), _MOST_BITS)
    return Ngrams(np.zeros((ORDER, 1 << bits), np.uint32), 0, _FEWEST_WORDS)


def add_ngrams(ngrams: Ngrams, batch: Batch) -> Ngrams:
    """Count the n-grams of a batch's source sentences, too, in the same table."""
    _count(batch.bitext.source_offset, batch.words.source, ngrams.counts)
    words = ngrams.words + len(batch.bitext.source)
    return Ngrams(ngrams.counts, words, max(words, _FEWEST_WORDS))


def expected_occurrences(ngrams: Ngrams, sides: Iterable[str], salt: int) -> NDArray[np.float64]:
    """Return how often a text of `text_words` words is expected to have each source side, float64[m].

    Sides are as rules are written; `salt` is that of the words' hashes. A side's runs of words, with nonterminals
    between them, are taken to come independently.
    """
    sides = list(sides)
    numbers = numbering()
    end = numbers[_END]
    # Numbered in one go, each symbol looked at once; a side's end divides runs as a nonterminal does.
    symbols = np.array([numbers[symbol] for symbol in f" {_END} ".join(sides).split(" ")], np.int64)
    spelled = [None if symbol == _END else terminal_of(symbol) for symbol in numbers]
    is_word = np.array([word is not None for word in spelled])[symbols]
    side = np.cumsum(symbols == end)
    hashes = hash_words((word or "" for word in spelled), salt)[symbols[is_word]]
    begins = is_word & ~np.append(False, is_word[:-1])
    ends = is_word & ~np.append(is_word[1:], False)
    # Places among words alone.
    place = np.cumsum(is_word)
    runs = np.stack((side[begins], place[begins] - 1, place[ends]), axis=1)
    expected = np.full(len(sides), float(ngrams.text_words))
    running = add_up(hashes, hashes[:0], ALL_BITS).source
    _expect(running, runs, ngrams, expected)
    return expected
