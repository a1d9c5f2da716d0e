"""Deadlines of work in threads. The caller sets a deadline, and the work checks it regularly."""

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from hierogram.daemon.exceptions import DeadlineError

Result = TypeVar("Result")


class Deadline:
    """Time limit of `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._canceled = threading.Event()

    def cancel(self) -> None:
        """Make the next check raise `DeadlineError`."""
        self._canceled.set()

    def restart(self) -> None:
        """Extend the deadline to `seconds` from now."""
        self._until = time.monotonic() + self.seconds

    def check(self) -> None:
        """Raise `DeadlineError` if the deadline has passed or was canceled."""
        if self._canceled.is_set():
            raise DeadlineError("the client disconnected: request canceled")
        if time.monotonic() > self._until:
            raise DeadlineError(f"the request took longer than {self.seconds:g} s: send a smaller request")

    def run(self, work: Callable[[], Result]) -> Result:
        """Restart the deadline and run work, which must check it. Raises `DeadlineError`."""
        self.restart()
        token = _current.set(self)
        try:
            self.check()
            return work()
        finally:
            _current.reset(token)


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_deadline() -> None:
    """Raise `DeadlineError` if the deadline of this thread has passed or was canceled."""
    if (deadline := _current.get()) is not None:
        deadline.check()


def restart_deadline() -> None:
    """Restart the time limit of this thread's deadline."""
    if (deadline := _current.get()) is not None:
        deadline.restart()
