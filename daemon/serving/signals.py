"""Signals that only set flags: the daemon's main thread sleeps until one comes and looks."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """What the daemon has been told by signals since it last looked."""

    def __init__(self) -> None:
        self.end = False
        self.reload = False

    def _on_end(self, number: int, _frame: FrameType | None) -> None:
        if self.end:
            # Asked twice: whoever did does not want to wait. What is not committed is rolled back by the database.
            os._exit(128 + number)
        self.end = True

    def _on_reload(self, _number: int, _frame: FrameType | None) -> None:
        self.reload = True


class Sleeper:
    """Sleeps until a signal comes or the time is over."""

    def __init__(self, readable: int) -> None:
        self._readable = readable

    def sleep(self, seconds: float) -> None:
        """Returns after so many seconds, or when a signal has come."""
        if select.select([self._readable], [], [], seconds)[0]:
            os.read(self._readable, 4096)


@contextmanager
def heeding_signals() -> Iterator[tuple[Signals, Sleeper]]:
    """Within, SIGTERM, SIGINT and SIGHUP set flags, and a second SIGTERM or SIGINT ends the process at once."""
    signals = Signals()
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    before = {number: signal.signal(number, signals._on_end) for number in _ENDING}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signals._on_reload)
    # A signal that comes between a look at the flags and the sleep still ends the sleep.
    earlier = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield signals, Sleeper(readable)
    finally:
        signal.set_wakeup_fd(earlier)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(readable)
        os.close(writable)
