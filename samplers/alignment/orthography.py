"""Orthographic similarity: names, numbers and cognates are likely translations of each other.

The similarity of two words is 1 for the same spelling, the squared share of the common prefix if both words and the
prefix are long enough, otherwise 0. The prior of a co-occurring word pair is proportional to its similarity. Words of
different scripts are compared in Latin letters.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction
from hierogram.samplers.alignment.counts import (
    SHIFT,
    WordPairs,
    find_pair,
    has_room,
    larger_pairs,
    pair_key,
    take_row,
)
from hierogram.samplers.alignment.romanization import find_script, romanize
from hierogram.samplers.compiled.jit import njit, njit_inline

MIN_LENGTH = 4
"""Minimum length of similar words. Shorter words must be equal."""
MIN_COMMON_LETTERS = 3
"""Minimum length of the common prefix of similar words."""


class Letters(NamedTuple):
    """Letters of a vocabulary. Word k has the code points `code[offset[k] : offset[k + 1]]`."""

    code: NDArray[np.int32]
    offset: NDArray[np.int64]


@lru_cache(maxsize=4)
def letters(vocabulary: tuple[str, ...], other_vocabulary: tuple[str, ...]) -> Letters:
    """Return the letters of a vocabulary, romanized if the other vocabulary has another script."""
    # Romanize only if scripts differ, because a letter that becomes two, such as sh, would count twice.
    is_foreign = find_script(vocabulary) != find_script(other_vocabulary)
    spellings = list(map(romanize, vocabulary)) if is_foreign else vocabulary
    offset = np.zeros(len(vocabulary) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, spellings), np.int64, len(spellings)), out=offset[1:])
    return Letters(np.frombuffer("".join(spellings).encode("utf-32-le", "surrogatepass"), np.int32), offset)


@njit_inline
def similarity(letters, word, other_letters, other_word):
    """Return the orthographic similarity of two words from two vocabularies, 0 to 1."""
    start, other_start = letters.offset[word], other_letters.offset[other_word]
    length, other_length = letters.offset[word + 1] - start, other_letters.offset[other_word + 1] - other_start
    shorter = min(length, other_length)
    common = 0
    while common < shorter and letters.code[start + common] == other_letters.code[other_start + common]:
        common += 1
    if common == length and common == other_length:
        return 1.0
    if common < MIN_COMMON_LETTERS or shorter < MIN_LENGTH:
        return 0.0
    share = common / max(length, other_length)
    return share * share


@njit
def _similarities(one, words, other, other_words, to):
    for k in range(len(words)):
        if one.code[one.offset[words[k]]] == other.code[other.offset[other_words[k]]]:
            to[k] = similarity(one, np.int64(words[k]), other, np.int64(other_words[k]))


def similarities(
    words: NDArray[np.int32],
    vocabulary: tuple[str, ...],
    other_words: NDArray[np.int32],
    other_vocabulary: tuple[str, ...],
) -> NDArray[np.float64]:
    """Return the elementwise similarity of two arrays of word numbers, float64[N]."""
    values = np.zeros(len(words))
    both = vocabulary, other_vocabulary
    _similarities(letters(*both), words, letters(*both[::-1]), other_words, values)
    return values


@njit
def _add_similar(first, sides, emitted, others, strength, pairs, conditioning):
    """Add similar word pairs from pair `first` on. Returns the pair that needs a larger table, or the pair count."""
    for pair in range(first, len(sides.emitted_offset) - 1):
        j_start, j_stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        i_start, i_stop = sides.conditioning_offset[pair], sides.conditioning_offset[pair + 1]
        for j in range(j_start, j_stop):
            # After the table has grown, this pair is repeated. Word pairs that were added before remain unchanged.
            if not has_room(pairs, i_stop - i_start):
                return pair
            f = np.int64(sides.emitted[j])
            f_first = emitted.code[emitted.offset[f]]
            for i in range(i_start, i_stop):
                e = np.int64(sides.conditioning[i])
                if others.code[others.offset[e]] != f_first:
                    continue
                alike = similarity(emitted, f, others, e)
                if alike > 0.0:
                    key = pair_key(e, f)
                    row = find_pair(pairs.rows, pairs.registers[SHIFT], key)
                    if pairs.rows[row]["key"] != key:
                        take_row(pairs, row, key)
                        pairs.rows[row]["prior"] = strength * alike
                        conditioning[e]["prior"] += np.float64(pairs.rows[row]["prior"])
    return len(sides.emitted_offset) - 1


def favor_similar(direction: Direction, strength: float, pairs: WordPairs, conditioning: NDArray[np.void]) -> WordPairs:
    """Add all similar co-occurring word pairs to an empty table, and return the table.

    The prior of a word pair is `strength` times its similarity, and is also added to `conditioning`.
    """
    sides = direction.sides
    both = direction.emitted.vocabulary, direction.conditioning.vocabulary
    emitted, conditioning_letters = letters(*both), letters(*both[::-1])
    position = 0
    while True:
        position = _add_similar(position, sides, emitted, conditioning_letters, strength, pairs, conditioning)
        if position == sides.pairs:
            return pairs
        pairs = larger_pairs(pairs, sides.longest_conditioning)
