"""The kernels of scores compiled by a second process, where the cache does not have them yet.

That takes about a minute, in which a thread could not be asked to end. What the second process does is to score one
stored pair; if it fails, the first one compiles.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from hierogram.daemon.exceptions import NothingLearnedError
from hierogram.daemon.learning.kinds.compiling import can_keep, end_with_parent
from hierogram.samplers.compiled.cache import is_kept, tell_compiling
from hierogram.samplers.scores.scorer import score_pairs
from hierogram.storage.store import open_store
from hierogram.tools.scores.learned import Learned
from hierogram.tools.scores.scoring import Scorer

_NICENESS = 10


def compile_scores(url: str, wait: Callable[[], None]) -> None:
    """Compile the kernels of scores into the cache, with pairs of the store at `url`; nothing where they are there.

    `wait` is called until it is done, and should take a moment. What it raises ends the second process.
    """
    if is_kept(score_pairs) or not can_keep():
        return
    tell_compiling()
    command = [sys.executable, "-P", "-m", "hierogram.tools.scores.compiling"]
    with (
        suppress(OSError),
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            assert process.stdin is not None
            # On standard input, since anybody can see arguments, and a URL may have a password.
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
        Scorer(Learned(store, lambda *_: None))


if __name__ == "__main__":
    _compile()
