"""Work for child processes in tests: some succeeds, some fails, and some hangs."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from hierogram.storage.exceptions import HumanLinksError
from hierogram.storage.worker_process import KeepAlive


def count(_alive: KeepAlive, number: int) -> Iterator[tuple[int, int]]:
    """Yield (k, process id) for each k below `number`."""
    for k in range(number):
        yield k, os.getpid()


def large(_alive: KeepAlive, size: int) -> Iterator[str]:
    yield "x" * size


def refuse(_alive: KeepAlive) -> Iterator[int]:
    yield 1
    raise HumanLinksError("not\udcff this")


def raise_error(_alive: KeepAlive) -> Iterator[int]:
    yield 1 // int(os.environ.get("HIEROGRAM_NOTHING", "0"))


def use_memory(_alive: KeepAlive) -> Iterator[int]:
    yield len([bytes(1 << 20) for _ in range(4_000)])


def sleep(alive: KeepAlive, seconds: float, breathing: bool, pid_file: str = "") -> Iterator[int]:
    if pid_file:
        Path(pid_file).write_text(str(os.getpid()))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if breathing:
            alive()
        time.sleep(0.05)
    yield 1


def compute(_alive: KeepAlive, processor: int) -> Iterator[int]:
    """Compute for one second of processor time at low priority, without reporting progress."""
    os.sched_setaffinity(0, {processor})
    os.nice(5)
    end = time.process_time() + 1.0
    while time.process_time() < end:
        pass
    yield 1


def die(_alive: KeepAlive) -> Iterator[int]:
    yield 1
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)
