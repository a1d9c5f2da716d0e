"""Initial links of HMM chains: random (bhmm-f), or Viterbi links of IBM Model 1 (bhmm, bhmm-z)."""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import DirectedBitext
from hierogram.samplers.alignment.chain import UNLINKED, conditioning_word
from hierogram.samplers.alignment.counts import (
    SHIFT,
    assign_row,
    empty_pairs,
    find_pair,
    has_room,
    larger_pairs,
    pair_key,
)
from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform

ITERATIONS = 5
"""Number of EM iterations of Model 1."""


@njit_inline
def _find_row(bitext, pair, k, g, empty_word, pairs):
    """Return the conditioning word at position k or `UNLINKED`, and its row with the emitted word at g."""
    word = conditioning_word(bitext, bitext.conditioning_offset[pair], k, empty_word)
    return word, find_pair(pairs.rows, pairs.registers[SHIFT], pair_key(word, bitext.emitted[g]))


@njit
def _add_pairs(first, bitext, lowest, empty_word, pairs):
    """Add rows for co-occurring word pairs. Returns the pair that lacks room, or the number of pairs."""
    for pair in range(first, len(bitext.emitted_offset) - 1):
        length = bitext.conditioning_offset[pair + 1] - bitext.conditioning_offset[pair]
        for g in range(bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]):
            if not has_room(pairs, length + 1):
                return pair
            for k in range(lowest, length):
                word, row = _find_row(bitext, pair, k, g, empty_word, pairs)
                assign_row(pairs, row, pair_key(word, bitext.emitted[g]))
    return len(bitext.emitted_offset) - 1


@njit
def _iterate(bitext, lowest, pairs, p, expected, total):
    """Run one EM iteration on the linear probability `p` of each row. `expected` must be 0."""
    empty_word = len(total) - 1
    total[:] = 0.0
    for pair in range(len(bitext.emitted_offset) - 1):
        length = bitext.conditioning_offset[pair + 1] - bitext.conditioning_offset[pair]
        for g in range(bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]):
            mass = 0.0
            for k in range(lowest, length):
                mass += p[_find_row(bitext, pair, k, g, empty_word, pairs)[1]]
            for k in range(lowest, length):
                word, row = _find_row(bitext, pair, k, g, empty_word, pairs)
                share = p[row] / mass
                expected[row] += np.float32(share)
                total[word] += share
    for row in range(len(p)):
        key = pairs.rows[row]["key"]
        if key != np.uint64(0):
            p[row] = np.float32(expected[row] / total[np.int64(key >> np.uint64(32)) - 1])
            expected[row] = 0.0


@njit
def _best_links(bitext, lowest, pairs, p, empty_word, links):
    for pair in range(len(bitext.emitted_offset) - 1):
        length = bitext.conditioning_offset[pair + 1] - bitext.conditioning_offset[pair]
        for g in range(bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]):
            best, best_probability = UNLINKED, -1.0
            for k in range(lowest, length):
                row = _find_row(bitext, pair, k, g, empty_word, pairs)[1]
                if p[row] > best_probability:
                    best, best_probability = k, p[row]
            links[g] = best


@njit_allocating
def random_links(bitext, seed, unlinked):
    """Draw links int16[N], `UNLINKED` with probability `unlinked` or if the other sentence is empty."""
    links = np.zeros(len(bitext.emitted), np.int16)
    for pair in range(len(bitext.emitted_offset) - 1):
        length = bitext.conditioning_offset[pair + 1] - bitext.conditioning_offset[pair]
        state = stream(seed, pair, 0)
        for g in range(bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]):
            state = advance(state)
            u = uniform(state)
            if u < unlinked or length == 0:
                links[g] = UNLINKED
            else:
                links[g] = min(np.int64((u - unlinked) / (1.0 - unlinked) * length), length - 1)
    return links


def model1_links(
    bitext: DirectedBitext, conditioning_vocabulary: int, with_empty_word: bool = True
) -> NDArray[np.int16]:
    """Return the Viterbi links of Model 1, int16[N]. Links to the empty word are `UNLINKED`."""
    lowest = UNLINKED if with_empty_word else 0
    # The empty word follows the other conditioning words.
    empty_word = conditioning_vocabulary
    position, pairs = 0, empty_pairs()
    while (position := _add_pairs(position, bitext, lowest, empty_word, pairs)) < bitext.pairs:
        pairs = larger_pairs(pairs, bitext.longest_conditioning + 1)
    p, expected = np.ones(len(pairs.rows), np.float32), np.zeros(len(pairs.rows), np.float32)
    total = np.zeros(empty_word + 1)
    for _ in range(ITERATIONS):
        _iterate(bitext, lowest, pairs, p, expected, total)
    links = np.zeros(len(bitext.emitted), np.int16)
    _best_links(bitext, lowest, pairs, p, empty_word, links)
    return links
