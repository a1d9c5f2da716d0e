"""Rule table: hash table from 128-bit rule keys to counts over all derivations.

The table has open addressing over 32-byte rows: key (two words), count, and packed rule size. A row never straddles a
cache line. An array of one-byte tags stays in the processor's cache and answers most lookups of missing rules. When a
count falls to 0, the row is deleted, and later rows that probes would then miss move up. Counts by length are integers,
so they do not depend on the order of updates.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.intrinsics import prefetch
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, close_gap, probe, table_mask
from hierogram.samplers.counts.models import Model, estimate_tables
from hierogram.samplers.forests.fragments import length_of
from hierogram.samplers.grammar.keys import length_of as packed_length

KEY_HIGH, KEY_LOW, COUNT, SIZE = 0, 1, 2, 3
"""Columns of `CountTable.rows`."""
TOKENS, ROWS = 0, 1
"""Indices of `CountTable.totals`."""
_TAG_SHIFT = np.uint64(56)
_ZERO = np.uint64(0)
_NO_TAG = np.uint8(0)
_MIN_CAPACITY = 1 << 12
_PREFETCHED = 8
"""Number of changes between the prefetch of a row and its change."""

BELOW_ZERO = "the count of a rule fell below zero, so derivations and counts do not match: run `hierogram repair`"

LENGTH = np.dtype([("tokens", np.int64), ("tables", np.int64)])
"""Customers (`tokens`) and estimated `tables` (in units of 2^-32) of all rules of one length."""


class CountTable(NamedTuple):
    """Counts of all rules, and totals by rule length."""

    # uint64[capacity, 4]: key (two words), count and packed size. The capacity is a power of two.
    rows: NDArray[np.uint64]
    # uint8[capacity]: tag of each row: 0 for free rows, otherwise `key_tag`.
    tags: NDArray[np.uint8]
    # LENGTH[L]: totals of the rules of each length.
    by_length: NDArray[np.void]
    # int64[2]: number of customers of all rules, and number of used rows.
    totals: NDArray[np.int64]

    @property
    def rule_types(self) -> int:
        """Number of rules with a positive count."""
        return int(self.totals[ROWS])

    @property
    def rule_tokens(self) -> int:
        """Sum of all counts."""
        return int(self.totals[TOKENS])


@njit_inline
def _ends_search(rows, row, key):
    high, low = key
    there_high, there_low = rows[row, KEY_HIGH], rows[row, KEY_LOW]
    return (there_low == low and there_high == high) or (there_low == _ZERO and there_high == _ZERO)


@njit_inline
def find(rows, key_high, key_low):
    """Return the row of the key, or the free row where it belongs. No key is (0, 0)."""
    return np.int64(probe(key_low & table_mask(rows), table_mask(rows), _ends_search, rows, (key_high, key_low)))


@njit_inline
def key_tag(key_high):
    """Return the tag of a key: its top byte with the lowest bit set, which is never 0."""
    return np.uint8((key_high >> _TAG_SHIFT) | np.uint64(1))


@njit_inline
def _ends_tagged_search(table, row, key):
    tag, high, low = key
    row_tag = table.tags[row]
    return row_tag == _NO_TAG or (
        row_tag == tag and table.rows[row, KEY_LOW] == low and table.rows[row, KEY_HIGH] == high
    )


@njit_inline
def look_up(table, key_high, key_low):
    """Return (row of the key, count of the rule), or (free row, 0) if the rule is not in the table."""
    key = key_tag(key_high), key_high, key_low
    row = probe(key_low & table_mask(table.rows), table_mask(table.rows), _ends_tagged_search, table, key)
    count = np.int64(0) if table.tags[row] == _NO_TAG else np.int64(table.rows[row, COUNT])
    return np.int64(row), count


@njit_inline
def prefetch_row(table, row):
    """Prefetch the tag and the row where `look_up` begins its search."""
    prefetch(table.tags, row)
    prefetch(table.rows, row)


@njit_inline
def _home_row(table, row):
    return table.tags[row] != _NO_TAG, table.rows[row, KEY_LOW]


@njit_inline
def _move_row(table, row, hole):
    for column in range(4):
        table.rows[hole, column] = table.rows[row, column]
    table.tags[hole] = table.tags[row]


@njit_inline
def _vacate(table, row):
    free = close_gap(np.uint64(row), table_mask(table.rows), _home_row, _move_row, table)
    for column in range(4):
        table.rows[free, column] = _ZERO
    table.tags[free] = _NO_TAG


@njit_inline
def add_row(rows, key_high, key_low, size):
    """Return (row of the key, True if it is new). Inserts a new key with count 0. Needs a free row."""
    row = find(rows, key_high, key_low)
    is_new = rows[row, KEY_LOW] == np.uint64(0) and rows[row, KEY_HIGH] == np.uint64(0)
    if is_new:
        rows[row, KEY_HIGH], rows[row, KEY_LOW] = key_high, key_low
        rows[row, COUNT], rows[row, SIZE] = np.uint64(0), size
    return row, is_new


@njit
def add(table, model, key_high, key_low, size, change):
    """Add `change` to a rule's count. Sets a negative count to 0 and returns False. Needs a free row."""
    row, is_new = add_row(table.rows, key_high, key_low, size)
    if is_new:
        table.tags[row] = key_tag(key_high)
        table.totals[ROWS] += 1
    before = np.int64(table.rows[row, COUNT])
    sound = before + change >= 0
    # Set a negative count to 0, because the model's tables have no entries for negative counts.
    after = max(before + change, 0)
    change = after - before
    table.rows[row, COUNT] = np.uint64(after)
    length = length_of(size)
    table.totals[TOKENS] += change
    table.by_length[length]["tokens"] += change
    table.by_length[length]["tables"] += estimate_tables(model, after) - estimate_tables(model, before)
    if after == 0:
        _vacate(table, row)
        table.totals[ROWS] -= 1
    return sound


@njit
def _refill(old, new, tags):
    for i in range(old.shape[0]):
        if old[i, COUNT] != np.uint64(0):
            row = find(new, old[i, KEY_HIGH], old[i, KEY_LOW])
            for c in range(4):
                new[row, c] = old[i, c]
            tags[row] = key_tag(old[i, KEY_HIGH])


@njit
def add_all(table, model, changes):
    """Add count changes uint64[n, 4], with the columns of `CountTable.rows`. The table must have room.

    Returns -1, or the first row of `changes` after which a count would be below 0. Later rows are not added.
    """
    for row in range(len(changes)):
        if row + _PREFETCHED < len(changes):
            prefetch_row(table, np.int64(changes[row + _PREFETCHED, KEY_LOW] & table_mask(table.rows)))
        change = np.int64(changes[row, COUNT])
        if not add(table, model, changes[row, KEY_HIGH], changes[row, KEY_LOW], changes[row, SIZE], change):
            return row
    return -1


def _empty_rows(capacity: int) -> NDArray[np.uint64]:
    # Rows are read in random order, so huge pages are faster. numpy requests them for `np.empty`, not for `np.zeros`.
    words = np.empty(4 * capacity + 8, np.uint64)
    words[:] = 0
    start = -words.ctypes.data % 64 // 8
    return words[start : start + 4 * capacity].reshape(capacity, 4)


def empty_table(longest_rule: int, expected_rules: int = 0) -> CountTable:
    """Return a table without rules, with room for `expected_rules` of a length up to `longest_rule`."""
    capacity = capacity_for(expected_rules, _MIN_CAPACITY)
    return CountTable(
        _empty_rows(capacity), np.zeros(capacity, np.uint8), np.zeros(longest_rule + 1, LENGTH), np.zeros(2, np.int64)
    )


def with_room(table: CountTable, new_rules: int) -> CountTable:
    """Return the table, or a larger copy if `new_rules` more rules do not fit. Consumes `table`."""
    capacity = capacity_for(int(table.totals[ROWS]) + new_rules, len(table.rows))
    if capacity == len(table.rows):
        return table
    rows, tags = _empty_rows(capacity), np.zeros(capacity, np.uint8)
    _refill(table.rows, rows, tags)
    return CountTable(rows, tags, table.by_length, table.totals)


def fill_table(
    table: CountTable, model: Model, keys: NDArray[np.uint64], counts: NDArray[np.int64], sizes: NDArray[np.uint64]
) -> CountTable:
    """Return the table with the counts of n rules added. Consumes `table`.

    `keys` are uint64[n, 2], `counts` int64[n], and packed `sizes` uint64[n]. Raises `ValueError` if a rule is too long,
    a key is 0, or a count would fall below 0.
    """
    lengths, limit, has_key = packed_length(sizes), len(table.by_length) - 1, keys.any(axis=1)
    if (lengths > limit).any():
        row = int(np.argmax(lengths > limit))
        raise ValueError(f"the count in row {row} is damaged: rule length {lengths[row]}, the limit is {limit}")
    if not has_key.all():
        raise ValueError(f"the count in row {int(np.argmin(has_key))} is damaged: the rule key is 0")
    table = with_room(table, len(counts))
    row = int(add_all(table, model, np.column_stack((keys, counts.view(np.uint64), sizes))))
    if row >= 0:
        raise ValueError(f"the count in row {row} is damaged: the rule's count falls below zero")
    return table
