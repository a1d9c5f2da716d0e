"""Words that are spelled alike are likely translations: names, numbers, punctuation, cognates.

The prior of a word pair that occurs together grows with the pair's likeness: 1 for the same spelling, the squared
share of the common beginning where both words are long enough for one, else 0.
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.alignment.counts import (
    SHIFT,
    WordPairs,
    find_pair,
    has_room,
    larger_pairs,
    pair_key,
    take_row,
)
from hierogram.samplers.compiled.jit import njit, njit_inline

SHORTEST = 4
"""Words of fewer letters are alike only if they are the same."""
COMMON = 3
"""Fewer letters in common at the beginning are chance."""


def letters(vocabulary: tuple[str, ...]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The code points of all words one after the other, int32, and the words' offsets, int64."""
    offset = np.zeros(len(vocabulary) + 1, np.int64)
    np.cumsum([len(word) for word in vocabulary], out=offset[1:])
    codes = np.frombuffer("".join(vocabulary).encode("utf-32-le", "surrogatepass"), np.int32)
    return codes, offset


@njit_inline
def likeness(one, one_start, one_length, other, other_start, other_length):
    """Likeness of two words, 0 to 1."""
    shorter = min(one_length, other_length)
    common = 0
    while common < shorter and one[one_start + common] == other[other_start + common]:
        common += 1
    if common == one_length and common == other_length:
        return 1.0
    if common < COMMON or shorter < SHORTEST:
        return 0.0
    share = common / max(one_length, other_length)
    return share * share


@njit
def _favour(first, sides, codes, offset, given_codes, given_offset, strength, pairs, given):
    """Enter the favoured word pairs from pair `first` on; the pair at which the table had no room, or the end."""
    for pair in range(first, len(sides.generated_offset) - 1):
        j_start, j_stop = sides.generated_offset[pair], sides.generated_offset[pair + 1]
        i_start, i_stop = sides.given_offset[pair], sides.given_offset[pair + 1]
        for j in range(j_start, j_stop):
            # What the pair has entered already is met again as it stands.
            if not has_room(pairs, i_stop - i_start):
                return pair
            f = np.int64(sides.generated[j])
            f_first = codes[offset[f]]
            for i in range(i_start, i_stop):
                e = np.int64(sides.given[i])
                if given_codes[given_offset[e]] != f_first:
                    continue
                alike = likeness(
                    codes, offset[f], offset[f + 1] - offset[f],
                    given_codes, given_offset[e], given_offset[e + 1] - given_offset[e],
                )  # fmt: skip
                if alike > 0.0:
                    key = pair_key(e, f)
                    row = find_pair(pairs.rows, pairs.registers[SHIFT], key)
                    if pairs.rows[row]["key"] != key:
                        take_row(pairs, row, key)
                        pairs.rows[row]["prior"] = strength * alike
                        given[e]["prior"] += np.float64(pairs.rows[row]["prior"])
    return len(sides.generated_offset) - 1


def favour_likeness(
    sides: Sides,
    generated: tuple[str, ...],
    given_words: tuple[str, ...],
    strength: float,
    pairs: WordPairs,
    given: NDArray[np.void],
) -> WordPairs:
    """Enter every word pair that occurs together and is alike, with `strength` times its likeness as prior.

    The table must still be empty; `given` GIVEN[V] is changed in place.
    """
    codes, offset = letters(generated)
    given_codes, given_offset = letters(given_words)
    at = 0
    while True:
        at = _favour(at, sides, codes, offset, given_codes, given_offset, strength, pairs, given)
        if at == sides.pairs:
            return pairs
        pairs = larger_pairs(pairs, sides.longest_given)
