"""Where a measurement was made."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def describe_machine() -> dict[str, str | int | float]:
    """Processor, cores, load before the run (a loaded machine measures too slow), and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(memory / 1e9, 1),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("hierogram", "numpy", "numba", "sqlalchemy")},
    }


Ticks = tuple[int, int]
"""Ticks that all processors have counted while they had something to do, and those that the host gave to others."""


def processor_times() -> Ticks | None:
    """The ticks until now; None where the system does not tell."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return None
    user, nice, system, _, _, interrupts, soft, stolen = map(int, statistics.read_text().split()[1:9])
    return user + nice + system + interrupts + soft + stolen, stolen


def stolen_share(before: Ticks | None, after: Ticks | None) -> float | None:
    """What share of the processors' time a virtual machine did not get when it wanted it.

    None where the system does not tell.
    """
    if before is None or after is None:
        return None
    return round((after[1] - before[1]) / max(after[0] - before[0], 1), 3)
