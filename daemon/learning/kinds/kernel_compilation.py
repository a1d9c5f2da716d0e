"""Compile the sweep kernel in a second process, if the cache does not contain it.

The sweep kernel takes half of the compile time. A second process compiles it into the cache while this process
compiles and runs the kernels that load pairs. If the second process fails, this process compiles the sweep kernel.
"""

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress

from hierogram.samplers.compiled.jit import cache_folder, is_cached, make_folder, notify_listeners
from hierogram.samplers.synchronous.sweeps import compile_sweep, sweep_pairs

_TIMEOUT = 300.0
"""Seconds after which the kernel is compiled in this process instead."""


class BackgroundCompilation:
    """Compilation of the sweep kernel in a second process. `process` is None if no compilation is running."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        if is_cached(sweep_pairs) or count_processors() < 2 or not is_cache_writable():
            return
        command = [sys.executable, "-P", "-m", "hierogram.daemon.learning.kinds.kernel_compilation"]
        notify_listeners()
        # Ignore the error if no process can be started, because this process then compiles the kernel itself.
        with suppress(OSError):
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def wait(self) -> None:
        """Wait for the end of the compilation. End the compilation after `_TIMEOUT` seconds."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_TIMEOUT)
            self.close()

    def close(self) -> None:
        """End a running compilation."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


def count_processors() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_cache_writable() -> bool:
    """Check if this process can write to the cache of compiled kernels."""
    try:
        make_folder(cache_folder())
        with tempfile.TemporaryFile(dir=cache_folder()):
            return True
    except OSError:
        return False


def end_with_parent() -> None:
    """Exit this process when the parent closes standard input or ends."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    compile_sweep()
