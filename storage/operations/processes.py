"""Which process is it: this one, named so that others on the same machine can tell whether it still runs."""

import os
import socket
from pathlib import Path

_UNKNOWN = "?"


def _machine() -> str:
    """What tells machines, their boots, and containers on them apart, as far as process numbers go."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        return _UNKNOWN
    return f"{boot}/{numbers}"


def _started(pid: int) -> str | None:
    """When the process began, in the kernel's ticks, since numbers are given out again; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything, blanks and parentheses included.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def this_process() -> str:
    """This process, as `has_ended` takes it."""
    return f"{_machine()} {os.getpid()} {_started(os.getpid())}"


def host_name() -> str:
    """What people call this machine."""
    return socket.gethostname()


def has_ended(process: str) -> bool:
    """Whether the process is known to have ended; one of another machine is never known to."""
    machine, _, rest = process.partition(" ")
    pid, _, started = rest.partition(" ")
    if machine == _UNKNOWN or machine != _machine() or not pid.isdigit():
        return False
    return _started(int(pid)) != started
