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
