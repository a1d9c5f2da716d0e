"""Signals and the end of the process, and messages to systemd.

This is imported before everything else, so that signals have a meaning from the start; it imports little itself.
"""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGINT)
_ECHO_SECONDS = 0.2
"""A second signal that comes so soon is the same one: timeout(1) and others send to a process and to its group."""
_LAST_SECONDS = 3.0


def end_within(seconds: float, code: int) -> None:
    """End the process after `seconds` with the exit code, whatever its threads do; for the main thread.

    Threads that hang, in a library or the kernel, would otherwise be waited for without end. If one of them holds
    Python's lock, so that no other thread runs, the process ends `_LAST_SECONDS` later, with exit code 1.
    """
    import faulthandler
    import logging
    import threading

    def end() -> None:
        logging.getLogger(__name__).error("the end took over %g s: the process ends now", seconds)
        end_now(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(seconds + _LAST_SECONDS, exit=True, file=2)


def end_now(code: int) -> NoReturn:
    """End the process without waiting for its threads."""
    import logging

    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stderr.flush()
    os._exit(code)


class Signals:
    """Flags that signals set; the main thread sleeps until one comes, and looks.

    Until the daemon has started, SIGTERM and SIGINT raise `SystemExit`: nothing is under way that has to be finished.
    """

    def __init__(self) -> None:
        self.end = False
        self.reload = False
        self.starting = True
        self._readable, writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(writable, False)
        for number in (*_ENDING, signal.SIGHUP):
            signal.signal(number, self._note)
        # A signal that comes between a look at the flags and the sleep still ends the sleep.
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def sleep(self, seconds: float) -> None:
        """Return after the seconds, or when a signal has come."""
        import select

        if select.select([self._readable], [], [], seconds)[0]:
            os.read(self._readable, 4096)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.reload = True
            return
        self.end = True
        if self.starting:
            self.starting = False
            raise SystemExit(0)

    def let_the_next_kill(self) -> None:
        """Have SIGTERM and SIGINT end the process at once from now on; to be called after the first.

        Whoever sends two does not want to wait. What is not committed is rolled back by the database. Python's own
        handlers would have to wait for the main thread, which may be waiting for a lock of the database.
        """
        import time

        time.sleep(_ECHO_SECONDS)
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)


_heeded: Signals | None = None


def heed_signals() -> Signals:
    """Handle SIGTERM, SIGINT and SIGHUP from now on; return their flags, the same ones each time."""
    global _heeded
    if _heeded is None:
        _heeded = Signals()
    return _heeded


READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


def notify(*lines: str) -> bool:
    """Send `NAME=value` lines to systemd; returns whether they were sent."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    # An address that begins with @ is abstract, which the kernel writes with a zero byte.
    import socket

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
