"""Memory of the process: garbage collection, malloc settings, resident size."""

import ctypes
import gc
import os
from contextlib import suppress

_GC_THRESHOLD = 100_000
"""New objects between garbage collections. Python 3.12's default, 700, costs 10 % of startup time."""

_M_ARENA_MAX = -8


def relax_gc() -> None:
    """Collect garbage less often, because objects of modules and kernels live as long as the process."""
    gc.set_threshold(_GC_THRESHOLD, 50, 100)


def limit_malloc_arenas() -> None:
    """Make all threads share two malloc arenas, instead of one arena per thread. Only for glibc."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def trim_malloc() -> None:
    """Return unused memory of glibc to the system, up to a third of a daemon's memory after hours."""
    # With `relax_gc`, reference cycles such as closed connections would remain for minutes.
    gc.collect(1)
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes(process: int | None = None) -> int | None:
    """Return the resident memory of a process (default: this process) in bytes, or None if unknown."""
    try:
        with open(f"/proc/{process or 'self'}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
