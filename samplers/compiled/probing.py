"""Open addressing with linear probing [Knuth 6.4], for hash tables of any layout.

The number of slots is a power of two. `mask` uint64 is the number of slots minus 1. Callers pass functions that access
their table and are compiled with `njit_inline`.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit_inline

_ONE = np.uint64(1)


def capacity_for(items: int, smallest: int) -> int:
    """Return the capacity for `items`: `smallest` times a power of two, at least two slots per item."""
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
    """Return the first slot from `home` where `ends_at(table, slot, key)` is true. A free slot must exist."""
    slot = home
    while not ends_at(table, slot, key):
        slot = (slot + _ONE) & mask
    return slot


@njit_inline
def _is_key_or_free(keys, slot, key):
    return (keys[slot] == key) | (keys[slot] == np.uint64(0))


@njit_inline
def find_key(keys, home, key):
    """Return the slot of a key with hash `home`, or else a free slot for it. Free slots of `keys` are 0."""
    mask = table_mask(keys)
    return np.int64(probe(home & mask, mask, _is_key_or_free, keys, key))


@njit_inline
def close_gap(hole, mask, home_of, move, table):
    """Fill the slot `hole` of a deleted entry, so that probes still find all entries after it.

    Returns the slot that the caller must then clear. `home_of(table, slot)` returns (True if the slot is used, home
    slot of its entry). `move(table, slot, to)` copies the entry of a slot.
    """
    slot = hole
    while True:
        slot = (slot + _ONE) & mask
        used, home = home_of(table, slot)
        if not used:
            return hole
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            move(table, slot, hole)
            hole = slot
