"""Compilation of the scoring kernels in a child process.

Compilation takes about a minute, and a thread that compiles cannot be stopped. If the child fails, the kernels are
compiled in this process when they are called.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from hierogram.daemon.exceptions import NothingLearnedError
from hierogram.daemon.learning.kinds.kernel_compilation import end_with_parent, is_cache_writable
from hierogram.samplers.compiled.jit import is_cached, notify_listeners
from hierogram.samplers.scores.scorer import score_pairs
from hierogram.storage.store import open_store
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.scoring import Scorer

_NICENESS = 10


def compile_scores(url: str, wait: Callable[[], None]) -> None:
    """Compile missing kernels in a child that opens the store at `url`. `wait` is called until the child ends.

    If `wait` raises, the child is stopped.
    """
    if is_cached(score_pairs) or not is_cache_writable():
        return
    notify_listeners()
    command = [sys.executable, "-P", "-m", "hierogram.tools.scores.compiling"]
    with (
        suppress(OSError),
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            assert process.stdin is not None
            # Pass the URL on standard input, because it may contain a password and other users can see arguments.
            process.stdin.write(url.encode() + b"\n")
            process.stdin.flush()
            while process.poll() is None:
                wait()
        finally:
            process.kill()


def _compile() -> None:
    url = sys.stdin.buffer.readline().decode().rstrip("\n")
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.nice(_NICENESS)
    with open_store(url) as store, suppress(NothingLearnedError):
        Scorer(LearnedCounts(store, lambda *_: None))


if __name__ == "__main__":
    _compile()
