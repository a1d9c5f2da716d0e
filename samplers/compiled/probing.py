"""Open addressing with linear probing [Knuth 6.4], for hash tables of any layout.

The number of slots is a power of two; `mask` is one less, uint64. The caller passes functions (`njit_inline`) that
access its table; they are inlined.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit_inline

_ONE = np.uint64(1)


def capacity_for(items: int, smallest: int) -> int:
    """Return the smallest power of two times `smallest` with at least two slots per item."""
    capacity = smallest
    while capacity < 2 * items:
        capacity *= 2
    return capacity


@njit_inline
def table_mask(slots):
    """Return the mask of a table, given an array with one item per slot."""
    return np.uint64(len(slots) - 1)


@njit_inline
def probe(home, mask, ends_at, table, key):
    """Return the key's slot, or the free slot where it belongs.

    It is the first one from `home` at which `ends_at(table, slot, key)`. The table must have a free slot.
    """
    slot = home
    while not ends_at(table, slot, key):
        slot = (slot + _ONE) & mask
    return slot


@njit_inline
def _is_key_or_free(keys, slot, key):
    return (keys[slot] == key) | (keys[slot] == np.uint64(0))


@njit_inline
def find_key(keys, home, key):
    """Return the slot of a key in a table of keys > 0, uint64, or the free slot where it belongs; `home` is hashed."""
    mask = table_mask(keys)
    return np.int64(probe(home & mask, mask, _is_key_or_free, keys, key))


@njit_inline
def close_gap(hole, mask, home_of, move, table):
    """Shift back entries after a freed slot that would no longer be found; returns the slot that is free afterwards.

    `home_of(table, slot)` returns (the slot is used, home slot of its entry); `move(table, slot, to)` copies a slot.
    """
    at = hole
    while True:
        at = (at + _ONE) & mask
        taken, home = home_of(table, at)
        if not taken:
            return hole
        if ((at - home) & mask) >= ((at - hole) & mask):
            move(table, at, hole)
            hole = at
