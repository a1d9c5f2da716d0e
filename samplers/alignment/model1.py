"""Initial links of HMM chains: random (bhmm-f), or Viterbi links of Model 1 after EM (bhmm, bhmm-z)."""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.alignment.chain import UNLINKED, conditioning_word
from hierogram.samplers.alignment.counts import (
    SHIFT,
    empty_pairs,
    find_pair,
    has_room,
    larger_pairs,
    pair_key,
    take_row,
)
from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform

ITERATIONS = 5


@njit_inline
def _find_row(sides, pair, k, g, total, pairs):
    """Return conditioning word k of a pair (-1: the empty word), and its row with emitted word g."""
    word = conditioning_word(sides, sides.conditioning_offset[pair], k, total)
    return word, find_pair(pairs.rows, pairs.registers[SHIFT], pair_key(word, sides.emitted[g]))


@njit
def _add_pairs(first, sides, lowest, total, pairs):
    """Add rows for co-occurring word pairs. Returns the pair that lacks room, or the number of pairs."""
    for pair in range(first, len(sides.emitted_offset) - 1):
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            if not has_room(pairs, length + 1):
                return pair
            for k in range(lowest, length):
                word, row = _find_row(sides, pair, k, g, total, pairs)
                take_row(pairs, row, pair_key(word, sides.emitted[g]))
    return len(sides.emitted_offset) - 1


@njit
def _iterate(sides, lowest, pairs, p, expected, total):
    total[:] = 0.0
    for pair in range(len(sides.emitted_offset) - 1):
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            mass = 0.0
            for k in range(lowest, length):
                mass += p[_find_row(sides, pair, k, g, total, pairs)[1]]
            for k in range(lowest, length):
                word, row = _find_row(sides, pair, k, g, total, pairs)
                share = p[row] / mass
                expected[row] += np.float32(share)
                total[word] += share
    for row in range(len(p)):
        key = pairs.rows[row]["key"]
        if key != np.uint64(0):
            p[row] = np.float32(expected[row] / total[np.int64(key >> np.uint64(32)) - 1])
            expected[row] = 0.0


@njit
def _best_links(sides, lowest, pairs, p, total, links):
    for pair in range(len(sides.emitted_offset) - 1):
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            best, best_probability = UNLINKED, -1.0
            for k in range(lowest, length):
                row = _find_row(sides, pair, k, g, total, pairs)[1]
                if p[row] > best_probability:
                    best, best_probability = k, p[row]
            links[g] = best


@njit_allocating
def random_links(sides, seed, unlinked):
    """Draw links int16[N], `UNLINKED` with probability `unlinked` or if the other sentence is empty."""
    links = np.zeros(len(sides.emitted), np.int16)
    for pair in range(len(sides.emitted_offset) - 1):
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        state = stream(seed, pair, 0)
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            state = advance(state)
            u = uniform(state)
            if u < unlinked or length == 0:
                links[g] = UNLINKED
            else:
                links[g] = min(np.int64((u - unlinked) / (1.0 - unlinked) * length), length - 1)
    return links


def model1_links(sides: Sides, conditioning_vocabulary: int, with_empty_word: bool = True) -> NDArray[np.int16]:
    """Return the Viterbi links of Model 1, int16[N]. Links to the empty word are `UNLINKED`."""
    lowest = UNLINKED if with_empty_word else 0
    # The last conditioning word is the empty word.
    total = np.zeros(conditioning_vocabulary + 1)
    position, pairs = 0, empty_pairs()
    while (position := _add_pairs(position, sides, lowest, total, pairs)) < sides.pairs:
        pairs = larger_pairs(pairs, sides.longest_conditioning + 1)
    p, expected = np.ones(len(pairs.rows), np.float32), np.zeros(len(pairs.rows), np.float32)
    for _ in range(ITERATIONS):
        _iterate(sides, lowest, pairs, p, expected, total)
    links = np.zeros(len(sides.emitted), np.int16)
    _best_links(sides, lowest, pairs, p, total, links)
    return links
