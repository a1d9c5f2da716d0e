"""Parent process that watches a learning process, since Ray kills the latter if Ray's own processes die."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from hierogram.daemon.exceptions import ClusterLostError
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records import SETTLED
from hierogram.storage.store import open_store
from hierogram.storage.worker_process import exit_with_parent

_FORWARDED = {signal.SIGINT, signal.SIGTERM}
_ENDED = b"."
_ECHO_SECONDS = 0.2


@contextmanager
def run_watched(url: str) -> Iterator[None]:
    """Run the context and everything after it in a child process; this process exits as the child does.

    Call it in the main thread, before other threads run and before the store is open. Raises `ClusterLostError`, with
    the committed state of the store at the URL: in the child if the context raises it, in this process if Ray kills the
    child. A process that has already joined a cluster is not watched, since it cannot be forked.
    """
    ray: Any = sys.modules.get("ray")
    ended = -1
    if ray is None or not ray.is_initialized():
        child, ended = _fork()
        if child:
            _exit_like(child, ended, url)
    try:
        yield
    except ClusterLostError as error:
        raise ClusterLostError(f"{error}; {describe_committed(url)}") from error
    finally:
        # Ray no longer runs here, so the child reports any later error itself.
        if ended >= 0:
            os.write(ended, _ENDED)
            os.close(ended)


def _fork() -> tuple[int, int]:
    """Fork. Returns (child id, read end of a pipe) in the parent and (0, write end) in the child.

    The child writes to the pipe at the end of the watched context. Signals are blocked in the parent until `_exit_like`
    handles them.
    """
    for stream in (sys.stdout, sys.stderr):
        # Otherwise both processes would write the buffered output.
        stream.flush()
    reading, writing = os.pipe()
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    exit_with_parent(parent)
    signal.signal(signal.SIGINT, _Interrupt())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    os.close(reading)
    return 0, writing


class _Interrupt:
    """SIGINT handler: `KeyboardInterrupt`, once per Ctrl-C, which the terminal and the parent both send."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        since, self._last = time.monotonic() - self._last, time.monotonic()
        if since > _ECHO_SECONDS:
            raise KeyboardInterrupt


def _exit_like(child: int, ended: int, url: str) -> None:
    """Forward signals to the child, wait for its end and exit as it did. Raises `ClusterLostError`."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    before = {number: signal.signal(number, hand_on) for number in _FORWARDED}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for number, handler in before.items():
        signal.signal(number, handler)
    if os.read(ended, 1) == _ENDED:
        sys.exit(code)
    if code < 0 and -code != signal.SIGABRT:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise ClusterLostError(f"lost the cluster: Ray has stopped on this machine; {describe_committed(url)}")


def describe_committed(url: str) -> str:
    """Return a description of the committed state of the last learning run."""
    try:
        with open_store(url) as store:
            run, pairs = store.unfinished_run(), store.status().pairs
    except StoreError as error:
        return f"it is unknown what was committed, because the store does not respond ({error})"
    sweeps = "" if run is None else f", and {run.sweeps_done:,} of the {run.sweeps:,} sweeps after it"
    return (
        f"committed so far: burn-in of {pairs[SETTLED]:,} of {sum(pairs.values()):,} pairs{sweeps}: run `hierogram "
        "learn` again to continue"
    )
