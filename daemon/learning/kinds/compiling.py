"""A sweep's kernel compiled by a second process, where the cache does not have it yet.

Compiling is half the kernel of a sweep and half everything before it, and one process compiles one kernel at a time.
So the kernel of a sweep is compiled next door, into the cache, while this process reads, builds forests and counts. All
that can go wrong there is that this process finds nothing in the cache, and compiles for itself as it would have.
"""

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress

from hierogram.samplers.compiled.cache import cache_folder, is_kept, make_folder, tell_compiling
from hierogram.samplers.synchronous.sweeps import GIBBS, compile_sweep, kernel_of

_SECONDS = 300.0
"""After so long a wait a kernel is compiled here."""


class SweepKernel:
    """The kernel of a sweep on its way into the cache, by a `process`; none where that would gain nothing."""

    def __init__(self, method: int = GIBBS) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        if is_kept(kernel_of(method)) or processors() < 2 or not can_keep():
            return
        command = [sys.executable, "-P", "-m", "hierogram.daemon.learning.kinds.compiling", str(method)]
        tell_compiling()
        # Without a process to spare, all goes on as it would have.
        with suppress(OSError):
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def wait(self) -> None:
        """Return when the cache has the kernel, or will not have it."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_SECONDS)
            self.close()

    def close(self) -> None:
        """End what is still being compiled."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_keep() -> bool:
    """Return whether the cache can be written: else all that another process compiled would be lost."""
    try:
        make_folder(cache_folder())
        with tempfile.TemporaryFile(dir=cache_folder()):
            return True
    except OSError:
        return False


def end_with_parent() -> None:
    """Wait for the end of standard input, which comes when the parent closes it or has ended, and end this process."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    compile_sweep(int(sys.argv[1]))
