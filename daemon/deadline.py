"""Deadlines of work in threads. The caller sets a deadline, the work checks it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hierogram.daemon.exceptions import DeadlineError


class Deadline:
    """A number of seconds from now. A caller that needs no result can cancel it earlier."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End the work at its next check."""
        self._cancelled.set()

    def restart(self) -> None:
        """Start the seconds again."""
        self._until = time.monotonic() + self.seconds

    def check(self) -> None:
        """Raise `DeadlineError` if the deadline has passed or was cancelled."""
        if self._cancelled.is_set():
            raise DeadlineError("the client disconnected: request canceled")
        if time.monotonic() > self._until:
            raise DeadlineError(f"the request took longer than {self.seconds:g} s: send a smaller request")

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the deadline to the block, in this thread."""
        token = _present.set(self)
        try:
            self.check()
            yield
        finally:
            _present.reset(token)


_present: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_deadline() -> None:
    """Raise `DeadlineError` if the deadline of this thread's work has passed."""
    deadline = _present.get()
    if deadline is not None:
        deadline.check()


def restart_deadline() -> None:
    """Start the seconds of this thread's deadline again."""
    deadline = _present.get()
    if deadline is not None:
        deadline.restart()
