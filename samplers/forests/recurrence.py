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
from hierogram.samplers.forests.fragments import add_up, base_powers
from hierogram.samplers.grammar.keys import ALL_BITS, hash_words, numbering
from hierogram.samplers.grammar.rules import unescape_terminal

ORDER = 3
"""Length of the longest n-grams in words."""
_UNSEEN = 0.5
"""Pseudo-count added to the other occurrences of each word."""
_MIN_WORDS = 100_000
"""Minimum text size in words for expected occurrences, so that small stores do not omit too many rules."""
_MIN_PLACES, _MAX_PLACES = 1 << 12, 1 << 24
"""First size of the table, and the size from which n-grams seen once are dropped if it is full."""
_PLACES_PER_NGRAM = 1.5
_HALF_BITS = np.uint64(32)
_POWERS = base_powers(ORDER)
_END = "\n"
"""Separator between sides; no symbol contains it."""


class Ngrams(NamedTuple):
    """Counts of the n-grams in a text of `words` words: a hash table of `keys` uint64[places] and `counts` uint32.

    A key is the 64-bit hash of an n-gram, 0 for a free place; `taken` places are used. Expected occurrences refer to a
    text of `text_words` words: `words`, but at least a minimum.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    taken: int
    words: int
    text_words: int


@njit_inline
def _place_of(key, keys):
    """Return the place of an n-gram, or the free place where it belongs."""
    mask = np.uint64(len(keys) - 1)
    place = (key ^ (key >> _HALF_BITS)) & mask
    while keys[place] != np.uint64(0) and keys[place] != key:
        place = (place + np.uint64(1)) & mask
    return place


@njit_inline
def _key_of(running, start, end):
    return max(running[end] - running[start] * _POWERS[end - start], np.uint64(1))


@njit_inline
def _times(running, start, end, ngrams):
    return np.float64(ngrams.counts[_place_of(_key_of(running, start, end), ngrams.keys)])


@njit
def _count(offset, running, keys, counts):
    """Count the n-grams within each sentence. Returns the number of new ones."""
    new = 0
    for sentence in range(len(offset) - 1):
        for end in range(offset[sentence] + 1, offset[sentence + 1] + 1):
            for n in range(1, min(ORDER, end - offset[sentence]) + 1):
                key = _key_of(running, end - n, end)
                place = _place_of(key, keys)
                new += np.int64(keys[place] == np.uint64(0))
                keys[place] = key
                counts[place] += np.uint32(1)
    return new


@njit
def _move(keys, counts, least, new_keys, new_counts):
    """Insert the n-grams with counts of at least `least` into an empty table. Returns their number."""
    moved = 0
    for k in range(len(keys)):
        if keys[k] != np.uint64(0) and counts[k] >= least:
            place = _place_of(keys[k], new_keys)
            new_keys[place] = keys[k]
            new_counts[place] = counts[k]
            moved += 1
    return moved


@njit_inline
def log_probability(running, start, end, ngrams):
    """Return the log probability that a given position of a text has the words start..end."""
    value = 0.0
    for k in range(start, end):
        times = _times(running, k, k + 1, ngrams)
        p = (max(times - 1.0, 0.0) + _UNSEEN) / ngrams.words
        for n in range(2, min(ORDER, k + 1 - start) + 1):
            before = _times(running, k + 1 - n, k, ngrams)
            times = _times(running, k + 1 - n, k + 1, ngrams)
            p = (max(times - 1.0, 0.0) + p) / max(before, 1.0)
        value += np.log(p)
    return value


@njit
def _expect(running, runs, ngrams, expected):
    """Multiply the expected occurrences of each side by the linear probability of each of its word runs."""
    for run in runs:
        side = run[0]
        expected[side] *= np.exp(log_probability(running, run[1], run[2], ngrams))


def empty_ngrams() -> Ngrams:
    """Return empty n-gram counts."""
    return Ngrams(np.zeros(_MIN_PLACES, np.uint64), np.zeros(_MIN_PLACES, np.uint32), 0, 0, _MIN_WORDS)


def _with_room(ngrams: Ngrams, extra: int) -> Ngrams:
    """Return the counts in a table with room for `extra` n-grams.

    Beyond `_MAX_PLACES`, n-grams seen once are dropped: their counts matter only if they recur, and are then too small
    by one.
    """
    slots = len(ngrams.keys)
    if _PLACES_PER_NGRAM * (ngrams.taken + extra) <= slots:
        return ngrams
    min_count = 1
    if _PLACES_PER_NGRAM * (ngrams.taken + extra) > _MAX_PLACES:
        min_count = 2
    remaining = int(((ngrams.keys != 0) & (ngrams.counts >= min_count)).sum())
    while slots < _PLACES_PER_NGRAM * (remaining + extra):
        slots *= 2
    keys, counts = np.zeros(slots, np.uint64), np.zeros(slots, np.uint32)
    used = _move(ngrams.keys, ngrams.counts, min_count, keys, counts)
    return ngrams._replace(keys=keys, counts=counts, taken=used)


def add_ngrams(ngrams: Ngrams, batch: Batch) -> Ngrams:
    """Return the counts with the n-grams of a batch's source sentences added. Consumes `ngrams`."""
    ngrams = _with_room(ngrams, ORDER * len(batch.bitext.source))
    new = _count(batch.bitext.source_offset, batch.words.source, ngrams.keys, ngrams.counts)
    words = ngrams.words + len(batch.bitext.source)
    return ngrams._replace(taken=ngrams.taken + new, words=words, text_words=max(words, _MIN_WORDS))


def expected_occurrences(ngrams: Ngrams, sides: Iterable[str], salt: int) -> NDArray[np.float64]:
    """Return the expected occurrences of each source side in a text of `text_words` words, float64[m].

    `sides` are in rule notation; `salt` is the salt of the word hashes. Word runs of a side, separated by nonterminals,
    are assumed to be independent.
    """
    sides = list(sides)
    numbers = numbering()
    end = numbers[_END]
    # Number all sides in one pass, so that each distinct symbol is parsed once. The end of a side separates runs like a
    # nonterminal.
    symbols = np.array([numbers[symbol] for symbol in f" {_END} ".join(sides).split(" ")], np.int64)
    spelled = [None if symbol == _END else unescape_terminal(symbol) for symbol in numbers]
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
