"""Deadlines of work in threads: set by whoever starts the work, checked by the work itself."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hierogram.daemon.exceptions import DeadlineError


class Deadline:
    """A number of seconds from now, which may be over earlier because nobody needs the result any longer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Make the work end at its next check."""
        self._cancelled.set()

    def restart(self) -> None:
        """Begin to count the seconds again."""
        self._until = time.monotonic() + self.seconds

    def check(self) -> None:
        """Raise `DeadlineError` if the time is over."""
        if self._cancelled.is_set():
            raise DeadlineError("the client has left: nobody needs the answer")
        if time.monotonic() > self._until:
            raise DeadlineError(f"this takes longer than {self.seconds:g} s: ask for less at once")

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the deadline to what is done within, in this thread."""
        token = _present.set(self)
        try:
            self.check()
            yield
        finally:
            _present.reset(token)


_present: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_deadline() -> None:
    """Raise `DeadlineError` if the present work has a deadline, and that is over."""
    deadline = _present.get()
    if deadline is not None:
        deadline.check()


def restart_deadline() -> None:
    """Give the present work its whole time again: what was done until now does not count."""
    deadline = _present.get()
    if deadline is not None:
        deadline.restart()
