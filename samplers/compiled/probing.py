"""Open addressing with linear probing [Knuth 6.4], for hash tables of any layout.

A table has a power of two of slots; its `mask` is one less, uint64. What a slot holds is the caller's: it hands over
steps (`njit_inline`) that look at its table, and they are inlined as if they stood here.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit_inline

_ONE = np.uint64(1)


def capacity_for(items: int, smallest: int) -> int:
    """The least power of two times `smallest` with at least two slots an item."""
    capacity = smallest
    while capacity < 2 * items:
        capacity *= 2
    return capacity


@njit_inline
def mask_of(slots):
    """The mask of a table, from an array with an item a slot."""
    return np.uint64(len(slots) - 1)


@njit_inline
def probe(home, mask, ends_at, table, key):
    """The first slot from `home` on at which a search for the key ends: `ends_at(table, slot, key)`.

    That is the key's slot, or the free one where it would go; the table must have a free slot.
    """
    slot = home
    while not ends_at(table, slot, key):
        slot = (slot + _ONE) & mask
    return slot


@njit_inline
def close_gap(hole, mask, home_of, move, table):
    """Move up what stands behind a slot that falls free and would no longer be found; the slot that is free then.

    `home_of(table, slot)` is a pair: whether the slot holds something, and where the search for that begins;
    `move(table, slot, to)` copies a slot to another.
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
