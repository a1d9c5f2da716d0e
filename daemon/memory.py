"""Memory of this process: how often Python looks for garbage, what the system gets back, how much is held."""

import ctypes
import gc
import os
from contextlib import suppress

_NEW_OBJECTS = 100_000
"""Objects made and not yet given back before it looks; Python's own 700 cost a tenth of the time to a first sweep."""

_ARENAS = 2
_M_ARENA_MAX = -8


def collect_seldom() -> None:
    """Look seldom: nearly all that is made while modules load and kernels are read lives as long as the process."""
    gc.set_threshold(_NEW_OBJECTS, 50, 100)


def share_arenas() -> None:
    """Have all threads take memory from two pools of the C library; each would have one, and keep what it gives back.

    Does nothing where the C library is not glibc.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Give the system what the C library holds and nobody uses: as much as a third of a daemon's memory, after hours.

    Does nothing where the C library is not glibc.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes(process: int | None = None) -> int | None:
    """Return the bytes that a process of this machine holds, this one without a number; None where not known."""
    try:
        with open(f"/proc/{process or 'self'}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
