"""Sparse counts of linked word pairs: a hash table with open addressing.

A *word pair* is a conditioning word and an emitted word. It has a row if it is linked somewhere or has a prior. A Bloom
filter that fits the processor's cache rules out most word pairs without a row.

Kernels cannot enlarge the table. They check `has_room` before they add rows, and return to the caller if it is false.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import close_gap, probe
from hierogram.samplers.compiled.streams import GOLDEN

ROW = np.dtype([("key", np.uint64), ("count", np.int32), ("prior", np.float32)])
"""Row of a word pair.

`key`: see `pair_key`, 0 if the row is free. `count`: number of links. `prior`: prior count in addition to the symmetric
prior, which all word pairs have.
"""

TOTALS = np.dtype([("links", np.int64), ("prior", np.float64)])
"""Totals of a conditioning word over all emitted words: number of `links`, and sum of prior counts."""

USED, SHIFT = 0, 1
"""Indices into `WordPairs.registers`."""

_SMALLEST = 1 << 10
_FREE = np.uint64(0)
_32 = np.uint64(32)
_BITS = np.uint64(3)
_ONE, _IN_BYTE = np.uint64(1), np.uint64(7)


class WordPairs(NamedTuple):
    """Counts of linked word pairs."""

    # ROW[capacity]: hash table with open addressing. The capacity is a power of two.
    rows: NDArray[np.void]
    # int64[2]: number of used rows, and 64 - log2 of the capacity.
    registers: NDArray[np.int64]
    # uint8[capacity]: Bloom filter. Byte r has the filter bits of all pairs whose search starts at row r.
    filter_bytes: NDArray[np.uint8]


@njit_inline
def pair_key(conditioning_word, emitted_word):
    """Return the key of a word pair, which is never 0."""
    return np.uint64(conditioning_word + 1) << _32 | np.uint64(emitted_word)


@njit_inline
def _home_row(key, shift):
    """Return the row where the search for a key starts, in a table of 2^(64 - shift) rows."""
    return (key * GOLDEN) >> np.uint64(shift)


@njit_inline
def may_have_row(filter_bytes, hashed, shift):
    """Return 0 if a word pair has no row, 1 if it may have one. `hashed` is its key times `GOLDEN`."""
    bit = (hashed >> (np.uint64(shift) - _BITS)) & _IN_BYTE
    return (np.uint64(filter_bytes[hashed >> np.uint64(shift)]) >> bit) & _ONE


@njit_inline
def _filter_bit(key, shift):
    return np.uint8(_ONE << (((key * GOLDEN) >> (np.uint64(shift) - _BITS)) & _IN_BYTE))


@njit_inline
def _ends_at(rows, row, key):
    stored_key = rows[row]["key"]
    return (stored_key == key) | (stored_key == _FREE)


@njit_inline
def find_pair(rows, shift, key):
    """Return the row of the key, or the free row where it belongs."""
    return np.int64(probe(_home_row(key, shift), np.uint64(len(rows) - 1), _ends_at, rows, key))


@njit_inline
def assign_row(pairs, row, key):
    """Assign a free row to the key, or do nothing if the row already has the key."""
    if pairs.rows[row]["key"] == _FREE:
        pairs.rows[row]["key"] = key
        pairs.rows[row]["count"] = 0
        pairs.rows[row]["prior"] = 0.0
        pairs.registers[USED] += 1
        shift = pairs.registers[SHIFT]
        pairs.filter_bytes[_home_row(key, shift)] |= _filter_bit(key, shift)


@njit_inline
def _home_of(pairs, row):
    key = pairs.rows[row]["key"]
    return key != _FREE, _home_row(key, pairs.registers[SHIFT])


@njit_inline
def _move(pairs, row, to):
    pairs.rows[to] = pairs.rows[row]


@njit
def _free_row(pairs, row):
    shift = pairs.registers[SHIFT]
    mask = np.uint64(len(pairs.rows) - 1)
    begin = _home_row(pairs.rows[row]["key"], shift)
    hole = close_gap(np.uint64(row), mask, _home_of, _move, pairs)
    pairs.rows[hole]["key"] = _FREE
    pairs.registers[USED] -= 1
    # Recompute the filter byte, because other pairs whose search starts at the same row may share the bit.
    filter_bytes = np.uint8(0)
    at = begin
    while pairs.rows[at]["key"] != _FREE:
        key = pairs.rows[at]["key"]
        if _home_row(key, shift) == begin:
            filter_bytes |= _filter_bit(key, shift)
        at = (at + _ONE) & mask
    pairs.filter_bytes[begin] = filter_bytes


@njit_inline
def copy_pairs(pairs, to):
    """Copy the table into `to`, which must have the same capacity."""
    for row in range(len(pairs.rows)):
        to.rows[row] = pairs.rows[row]
        to.filter_bytes[row] = pairs.filter_bytes[row]
    to.registers[USED] = pairs.registers[USED]


@njit_inline
def has_room(pairs, extra):
    """Check if `extra` rows fit within a load factor of 3/4."""
    return 4 * (pairs.registers[USED] + extra) <= 3 * len(pairs.rows)


@njit_inline
def link_pair(pairs, totals, conditioning_word, emitted_word):
    """Add a link of a word pair. The table must have room for a new row."""
    key = pair_key(conditioning_word, emitted_word)
    row = find_pair(pairs.rows, pairs.registers[SHIFT], key)
    assign_row(pairs, row, key)
    pairs.rows[row]["count"] += 1
    totals[conditioning_word]["links"] += 1


@njit_inline
def unlink_pair(pairs, totals, conditioning_word, emitted_word):
    """Remove a link of a word pair. Returns its row, for `free_if_unused` if no new link follows."""
    row = find_pair(pairs.rows, pairs.registers[SHIFT], pair_key(conditioning_word, emitted_word))
    pairs.rows[row]["count"] -= 1
    totals[conditioning_word]["links"] -= 1
    return row


@njit_inline
def free_if_unused(pairs, row):
    """Remove the row if it has neither a link nor a prior."""
    if pairs.rows[row]["count"] == 0 and pairs.rows[row]["prior"] == 0.0:
        _free_row(pairs, row)


@njit_inline
def relink_pair(pairs, totals, row, old_word, new_word, emitted_word):
    """Link an emitted word to `new_word`, after `unlink_pair` of `old_word` returned `row`."""
    if new_word == old_word:
        pairs.rows[row]["count"] += 1
        totals[old_word]["links"] += 1
    else:
        free_if_unused(pairs, row)
        link_pair(pairs, totals, new_word, emitted_word)


@njit_inline
def total_mass(totals, conditioning_word):
    """Return the denominator of `lexical`: the number of links of the conditioning word plus its prior."""
    return totals[conditioning_word]["links"] + totals[conditioning_word]["prior"]


@njit_inline
def unfiltered_weight(pairs, conditioning_word, emitted_word):
    """Return the number of links of a word pair plus the prior in its row, or 0 if it has no row."""
    key = pair_key(conditioning_word, emitted_word)
    row = pairs.rows[find_pair(pairs.rows, pairs.registers[SHIFT], key)]
    # If the pair has no row, this row is free and its key differs. Multiply by the comparison to avoid a branch.
    return np.float64(row["key"] == key) * (row["count"] + np.float64(row["prior"]))


@njit_inline
def pair_weight(pairs, conditioning_word, emitted_word):
    """Return `unfiltered_weight`. Checks the filter first, which is faster if most pairs have no row."""
    hashed = pair_key(conditioning_word, emitted_word) * GOLDEN
    if may_have_row(pairs.filter_bytes, hashed, pairs.registers[SHIFT]) == 0:
        return 0.0
    return unfiltered_weight(pairs, conditioning_word, emitted_word)


@njit_inline
def lexical(pairs, totals, conditioning_word, emitted_word, symmetric):
    """Return the predictive P(emitted word | conditioning word), linear [SA16 eqs. 2, 3, 5]."""
    return (pair_weight(pairs, conditioning_word, emitted_word) + symmetric) / total_mass(totals, conditioning_word)


@njit
def _refill(old, pairs):
    for k in range(len(old)):
        if old[k]["key"] != _FREE:
            row = find_pair(pairs.rows, pairs.registers[SHIFT], old[k]["key"])
            assign_row(pairs, row, old[k]["key"])
            pairs.rows[row] = old[k]


def empty_pairs(expected: int = 0) -> WordPairs:
    """Return an empty table with room for `expected` word pairs."""
    capacity = _SMALLEST
    while 3 * capacity < 4 * expected:
        capacity *= 2
    registers = np.array([0, 65 - capacity.bit_length()], np.int64)
    return WordPairs(np.zeros(capacity, ROW), registers, np.zeros(capacity, np.uint8))


def larger_pairs(pairs: WordPairs, extra: int = 0) -> WordPairs:
    """Return a copy with at least twice the capacity and room for `extra` more rows."""
    return _resized(pairs, max(len(pairs.rows), int(pairs.registers[USED]) + extra))


def smaller_pairs(pairs: WordPairs) -> WordPairs:
    """Return a smaller copy if less than 1/8 of the rows are used, otherwise, or if minimal, `pairs`."""
    used = int(pairs.registers[USED])
    return _resized(pairs, 2 * used) if len(pairs.rows) > _SMALLEST and 8 * used < len(pairs.rows) else pairs


def _resized(pairs: WordPairs, expected: int) -> WordPairs:
    resized = empty_pairs(expected)
    _refill(pairs.rows, resized)
    return resized
