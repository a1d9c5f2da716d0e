"""Initial links of HMM chains: random (bhmm-f), or Viterbi links of Model 1 after EM (bhmm, bhmm-z)."""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.alignment.chain import UNLINKED
from hierogram.samplers.alignment.counts import find_pair, pair_key
from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform

ITERATIONS = 5

_ROW = np.dtype([("key", np.uint64), ("p", np.float32), ("expected", np.float32)])
_SMALLEST = 1 << 12
_FREE = np.uint64(0)


@njit_inline
def _conditioning_word(sides, pair, k, empty_word):
    return empty_word if k < 0 else np.int64(sides.conditioning[sides.conditioning_offset[pair] + k])


@njit
def _add_pairs(first, sides, lowest, empty_word, rows, shift, rows_used):
    """Add rows for co-occurring word pairs. Returns the pair that lacks room, or the number of pairs."""
    for pair in range(first, len(sides.emitted_offset) - 1):
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            if 4 * (rows_used[0] + length + 1) > 3 * len(rows):
                return pair
            for k in range(lowest, length):
                key = pair_key(_conditioning_word(sides, pair, k, empty_word), sides.emitted[g])
                row = find_pair(rows, shift, key)
                if rows[row]["key"] == _FREE:
                    rows[row]["key"] = key
                    rows[row]["p"] = 1.0
                    rows[row]["expected"] = 0.0
                    rows_used[0] += 1
    return len(sides.emitted_offset) - 1


@njit
def _move_rows(old, rows, shift):
    for k in range(len(old)):
        if old[k]["key"] != _FREE:
            rows[find_pair(rows, shift, old[k]["key"])] = old[k]


@njit
def _iterate(sides, lowest, empty_word, rows, shift, total):
    total[:] = 0.0
    for pair in range(len(sides.emitted_offset) - 1):
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            mass = 0.0
            for k in range(lowest, length):
                key = pair_key(_conditioning_word(sides, pair, k, empty_word), sides.emitted[g])
                mass += rows[find_pair(rows, shift, key)]["p"]
            for k in range(lowest, length):
                word = _conditioning_word(sides, pair, k, empty_word)
                row = find_pair(rows, shift, pair_key(word, sides.emitted[g]))
                share = rows[row]["p"] / mass
                rows[row]["expected"] += np.float32(share)
                total[word] += share
    for row in range(len(rows)):
        key = rows[row]["key"]
        if key != _FREE:
            word = np.int64(key >> np.uint64(32)) - 1
            rows[row]["p"] = np.float32(rows[row]["expected"] / total[word])
            rows[row]["expected"] = 0.0


@njit
def _best_links(sides, lowest, empty_word, rows, shift, links):
    for pair in range(len(sides.emitted_offset) - 1):
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            best, best_probability = UNLINKED, -1.0
            for k in range(lowest, length):
                word = _conditioning_word(sides, pair, k, empty_word)
                p = rows[find_pair(rows, shift, pair_key(word, sides.emitted[g]))]["p"]
                if p > best_probability:
                    best, best_probability = k, p
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
    capacity = _SMALLEST
    rows = np.zeros(capacity, _ROW)
    rows_used = np.zeros(1, np.int64)
    position = 0
    while True:
        shift = 65 - capacity.bit_length()
        position = _add_pairs(position, sides, lowest, conditioning_vocabulary, rows, shift, rows_used)
        if position == sides.pairs:
            break
        while 3 * capacity < 4 * (int(rows_used[0]) + sides.longest_conditioning + 1) * 3 // 2:
            capacity *= 2
        larger = np.zeros(capacity, _ROW)
        _move_rows(rows, larger, 65 - capacity.bit_length())
        rows = larger
    total = np.zeros(conditioning_vocabulary + 1)
    for _ in range(ITERATIONS):
        _iterate(sides, lowest, conditioning_vocabulary, rows, shift, total)
    links = np.zeros(len(sides.emitted), np.int16)
    _best_links(sides, lowest, conditioning_vocabulary, rows, shift, links)
    return links
