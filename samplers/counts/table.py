"""The rule table: how often each rule is used in all derivations, keyed by 128 bits.

Open addressing over one array of 32-byte rows: key (two words), count, and the rule's size packed into one word; a row
never straddles a cache line. A tag of one byte for each row, in an array that stays in the processor's cache, tells
most rules that are not there without a look at any row. A rule whose count falls to 0 leaves, and the rows behind it
close up. Counts by length are kept beside the rows, in whole numbers, so they do not depend on the order of updates.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.intrinsics import prefetch
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, close_gap, mask_of, probe
from hierogram.samplers.counts.models import Model, tables_of
from hierogram.samplers.forests.fragments import length_of

KEY_HIGH, KEY_LOW, COUNT, SIZE = 0, 1, 2, 3
TOKENS, ROWS = 0, 1
_TAG_SHIFT = np.uint64(56)
_ZERO = np.uint64(0)
_NO_TAG = np.uint8(0)
_SMALLEST = 1 << 12


LENGTH = np.dtype([("tokens", np.int64), ("tables", np.int64)])
"""Of all rules of one length: customers, and estimated tables in units of 2^-32."""


class RuleTable(NamedTuple):
    """Counts of all rules.

    `rows` uint64[capacity, 4] (capacity a power of two); `tags` uint8[capacity], 0 where a row is free, else a byte of
    its key; `by_length` LENGTH[L]; `totals` int64[2] the customers of all rules and the rows taken.
    """

    rows: NDArray[np.uint64]
    tags: NDArray[np.uint8]
    by_length: NDArray[np.void]
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
def _is_row_of(rows, row, key):
    """Return whether a row is the key's or free."""
    high, low = key
    there_high, there_low = rows[row, KEY_HIGH], rows[row, KEY_LOW]
    return (there_low == low and there_high == high) or (there_low == _ZERO and there_high == _ZERO)


@njit_inline
def find(rows, key_high, key_low):
    """Row of the key, or of the free place where it would go. No key is (0, 0)."""
    return np.int64(probe(key_low & mask_of(rows), mask_of(rows), _is_row_of, rows, (key_high, key_low)))


@njit_inline
def tag_of(key_high):
    """A byte of the key that is not 0."""
    return np.uint8((key_high >> _TAG_SHIFT) | np.uint64(1))


@njit_inline
def _is_tagged_row_of(table, row, key):
    """Return whether a row is the key's or free; most rows that are another's are told by their tags alone."""
    tag, high, low = key
    known = table.tags[row]
    return known == _NO_TAG or (known == tag and table.rows[row, KEY_LOW] == low and table.rows[row, KEY_HIGH] == high)


@njit_inline
def look_up(table, key_high, key_low):
    """As `find`, and the rule's count, 0 where it is not in the table."""
    key = tag_of(key_high), key_high, key_low
    row = probe(key_low & mask_of(table.rows), mask_of(table.rows), _is_tagged_row_of, table, key)
    count = np.int64(0) if table.tags[row] == _NO_TAG else np.int64(table.rows[row, COUNT])
    return np.int64(row), count


@njit_inline
def fetch(table, row):
    """Ask for what `look_up` reads first where a search begins at the row."""
    prefetch(table.tags, row)
    prefetch(table.rows, row)


@njit_inline
def _home_in(table, row):
    """Return whether a row is taken, and the home of its key."""
    return table.tags[row] != _NO_TAG, table.rows[row, KEY_LOW]


@njit_inline
def _move_row(table, row, hole):
    for column in range(4):
        table.rows[hole, column] = table.rows[row, column]
    table.tags[hole] = table.tags[row]


@njit_inline
def _vacate(table, row):
    """Free a row, and move up those behind it that would no longer be found."""
    free = close_gap(np.uint64(row), mask_of(table.rows), _home_in, _move_row, table)
    for column in range(4):
        table.rows[free, column] = _ZERO
    table.tags[free] = _NO_TAG


@njit_inline
def add_row(rows, key_high, key_low, size):
    """Row of the key, and whether it was free and has been made the key's, with count 0."""
    row = find(rows, key_high, key_low)
    is_new = rows[row, KEY_LOW] == np.uint64(0) and rows[row, KEY_HIGH] == np.uint64(0)
    if is_new:
        rows[row, KEY_HIGH] = key_high
        rows[row, KEY_LOW] = key_low
        rows[row, COUNT] = np.uint64(0)
        rows[row, SIZE] = size
    return row, is_new


@njit
def add(table, model, key_high, key_low, size, change):
    """Add `change` to a rule's count; the caller has seen to it that a row is free. False: the count fell below 0."""
    row, is_new = add_row(table.rows, key_high, key_low, size)
    if is_new:
        table.tags[row] = tag_of(key_high)
        table.totals[ROWS] += 1
    before = np.int64(table.rows[row, COUNT])
    after = before + change
    table.rows[row, COUNT] = np.uint64(after)
    length = length_of(size)
    table.totals[TOKENS] += change
    table.by_length[length]["tokens"] += change
    table.by_length[length]["tables"] += tables_of(model, after) - tables_of(model, before)
    if after == 0:
        _vacate(table, row)
        table.totals[ROWS] -= 1
    return after >= 0


@njit
def _refill(old, new, tags):
    for i in range(old.shape[0]):
        if old[i, COUNT] != np.uint64(0):
            row = find(new, old[i, KEY_HIGH], old[i, KEY_LOW])
            for c in range(4):
                new[row, c] = old[i, c]
            tags[row] = tag_of(old[i, KEY_HIGH])


@njit
def _add_all(table, model, keys, counts, sizes):
    sound = True
    for i in range(len(counts)):
        sound &= add(table, model, keys[i, 0], keys[i, 1], sizes[i], counts[i])
    return sound


def _empty_rows(capacity: int) -> NDArray[np.uint64]:
    """Rows of zeros that begin at a cache line."""
    # Rows are read in any order: numpy asks for large pages for what it does not fill itself.
    words = np.empty(4 * capacity + 8, np.uint64)
    words[:] = 0
    start = -words.ctypes.data % 64 // 8
    return words[start : start + 4 * capacity].reshape(capacity, 4)


def empty_table(longest_rule: int, expected_rules: int = 0) -> RuleTable:
    """A table without rules, with room for `expected_rules`."""
    capacity = capacity_for(expected_rules, _SMALLEST)
    return RuleTable(
        _empty_rows(capacity),
        np.zeros(capacity, np.uint8),
        np.zeros(longest_rule + 1, LENGTH),
        np.zeros(2, np.int64),
    )


def with_room(table: RuleTable, new_rules: int) -> RuleTable:
    """The table itself where it can take `new_rules` more, else a copy that is large enough.

    Counts do not depend on where rows lie, so it does not matter when this happens.
    """
    capacity = capacity_for(int(table.totals[ROWS]) + new_rules, len(table.rows))
    if capacity == len(table.rows):
        return table
    rows, tags = _empty_rows(capacity), np.zeros(capacity, np.uint8)
    _refill(table.rows, rows, tags)
    return RuleTable(rows, tags, table.by_length, table.totals)


def fill_table(
    table: RuleTable,
    model: Model,
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    sizes: NDArray[np.uint64],
) -> RuleTable:
    """The table with these counts added; raises `ValueError` where a count falls below zero."""
    table = with_room(table, len(counts))
    if not _add_all(table, model, keys, counts, sizes):
        raise ValueError("a rule's count fell below zero: the counts do not belong to these derivations")
    return table
