"""Rule size packed into one uint64: length, source terminals and target terminals, 16 bits each.

The functions take numbers or arrays, also in kernels.
"""

from typing import Any

import numpy as np

BITS = 16
"""Bits of each of the three numbers."""
MOST = (1 << BITS) - 1
"""Maximum of each of the three numbers."""

_SOURCE_SHIFT = np.uint64(BITS)
_TARGET_SHIFT = np.uint64(2 * BITS)
_MASK = np.uint64(MOST)


def pack_size(length: Any, source_terminals: Any, target_terminals: Any) -> Any:
    """Return the packed size of a rule, uint64."""
    return (
        np.uint64(length)
        | (np.uint64(source_terminals) << _SOURCE_SHIFT)
        | (np.uint64(target_terminals) << _TARGET_SHIFT)
    )


def length_of(size: Any) -> Any:
    """Return the length, int64."""
    return np.int64(size & _MASK)


def source_terminals_of(size: Any) -> Any:
    """Return the number of source terminals, int64."""
    return np.int64((size >> _SOURCE_SHIFT) & _MASK)


def target_terminals_of(size: Any) -> Any:
    """Return the number of target terminals, int64."""
    return np.int64((size >> _TARGET_SHIFT) & _MASK)
