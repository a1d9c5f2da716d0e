"""The process and the system: signals that only set flags, an end that is kept, and messages to systemd."""

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGINT)
_ECHO_SECONDS = 0.2
"""What comes so soon after the first signal is the same one: timeout(1) and others send to a process and its group."""


_LAST_SECONDS = 3.0
"""Seconds by which later the kernel ends a process that holds Python's own lock and lets no thread end it."""


def end_within(seconds: float, code: int) -> None:
    """End the process after `seconds` with the exit code, whatever its threads do by then; for the main thread.

    Threads that hang, in a library or the kernel, would be waited for at the exit without end.
    """

    def end() -> None:
        logging.getLogger(__name__).error("the end took over %g s: the process ends now", seconds)
        for handler in logging.getLogger().handlers:
            handler.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + _LAST_SECONDS)


class Signals:
    """Flags that signals set; the main thread sleeps until one comes, and looks."""

    def __init__(self, readable: int) -> None:
        self.end = False
        self.reload = False
        self._readable = readable

    def sleep(self, seconds: float) -> None:
        """Return after the seconds, or when a signal has come."""
        if select.select([self._readable], [], [], seconds)[0]:
            os.read(self._readable, 4096)

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Set the flag of a signal."""
        if number == signal.SIGHUP:
            self.reload = True
        else:
            self.end = True

    def let_the_next_kill(self) -> None:
        """Have SIGTERM and SIGINT end the process at once from now on, whatever it is at; to be called after the first.

        Whoever asks twice does not want to wait. What is not committed is rolled back by the database. Python's own
        handlers would have to wait for the main thread, which may be waiting for a lock of the database.
        """
        time.sleep(_ECHO_SECONDS)
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def heeding_signals() -> Iterator[Signals]:
    """Have SIGTERM, SIGINT and SIGHUP set flags, within."""
    readable, writable = os.pipe()
    signals = Signals(readable)
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    before = {number: signal.signal(number, signals.note) for number in (*_ENDING, signal.SIGHUP)}
    # A signal that comes between a look at the flags and the sleep still ends the sleep.
    earlier = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield signals
    finally:
        signal.set_wakeup_fd(earlier)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(readable)
        os.close(writable)


READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


def notify(*lines: str) -> bool:
    """Send `NAME=value` lines to systemd; returns whether they were sent."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    # An address that begins with @ is abstract, which the kernel writes with a zero byte.
    path = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.connect(path)
            sender.sendall("\n".join(lines).encode())
    except OSError:
        # A daemon does not end because nobody listens.
        return False
    return True


def watchdog_seconds() -> float | None:
    """Return how often systemd wants a sign of life, halved to be safe; None where it wants none."""
    microseconds, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID")
    if not microseconds.isdigit() or (process and process != str(os.getpid())):
        return None
    return int(microseconds) / 2e6
