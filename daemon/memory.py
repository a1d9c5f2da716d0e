"""Memory of the process: garbage collection, memory returned to the system, resident size."""

import ctypes
import gc
import os
from contextlib import suppress

_NEW_OBJECTS = 100_000
"""New objects before a garbage collection. Python's default of 700 costs a tenth of the time to a first sweep."""

_ARENAS = 2
_M_ARENA_MAX = -8


def relax_gc() -> None:
    """Reduce garbage collections, because nearly all objects of modules and kernels live as long as the process."""
    gc.set_threshold(_NEW_OBJECTS, 50, 100)


def limit_malloc_arenas() -> None:
    """Make all threads share two memory arenas of the C library, instead of one arena per thread. Only for glibc."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def trim_malloc() -> None:
    """Return glibc's unused memory to the system, up to a third of a daemon's memory after hours.

    This first frees cycles of new objects, such as closed connections, which `relax_gc` keeps for minutes.
    """
    gc.collect(1)
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes(process: int | None = None) -> int | None:
    """Return the resident bytes of a process, by default this one, or None if unknown."""
    try:
        with open(f"/proc/{process or 'self'}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
