"""Deadlines of HTTP requests. `Deadline.run` sets a thread's deadline, which its work checks."""

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from hierogram.daemon.exceptions import DeadlineError

Result = TypeVar("Result")


class Deadline:
    """Time limit of a request, from its creation or last restart. Other threads may cancel it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._canceled = threading.Event()

    def cancel(self) -> None:
        """Make all later checks raise `DeadlineError`, because the client has disconnected."""
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
        """Restart the deadline, and run work with it as the deadline of this thread. Raises `DeadlineError`."""
        self.restart()
        token = _current.set(self)
        try:
            self.check()
            return work()
        finally:
            _current.reset(token)


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_deadline() -> None:
    """Raise `DeadlineError` if the deadline of this thread, if any, has passed or was canceled."""
    if (deadline := _current.get()) is not None:
        deadline.check()


def restart_deadline() -> None:
    """Extend this thread's deadline, if any, by its whole time limit from now, after progress."""
    if (deadline := _current.get()) is not None:
        deadline.restart()
