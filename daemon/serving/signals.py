"""Signal handlers, process exit and notifications to systemd.

This module is imported first, so that signals are handled from the start. Its own imports are few.
"""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGINT)
_ECHO_SECONDS = 0.2
"""A second signal within this time counts as the same signal: timeout(1) and others signal a process and its group."""
_LAST_SECONDS = 3.0


def exit_after(seconds: float, code: int) -> None:
    """Exit the process with `code` after `seconds`, whatever its threads do. Call it in the main thread.

    Without it, the process would wait forever for threads that hang in a library or the kernel. If a thread holds the
    GIL, so that the timer cannot run, the process exits `_LAST_SECONDS` later with code 1.
    """
    import faulthandler
    import logging
    import threading

    def end() -> None:
        logging.getLogger(__name__).error("shutdown took more than %g s: exiting now", seconds)
        exit_now(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(seconds + _LAST_SECONDS, exit=True, file=2)


def exit_now(code: int) -> NoReturn:
    """Exit the process without waiting for its threads."""
    import logging

    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stderr.flush()
    os._exit(code)


class Signals:
    """Flags set by signal handlers; until the daemon has started, SIGTERM and SIGINT raise `SystemExit`."""

    def __init__(self) -> None:
        self.end = False
        self.reload = False
        self.starting = True
        self._readable, writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(writable, False)
        for number in (*_ENDING, signal.SIGHUP):
            signal.signal(number, self._note)
        # A signal that arrives between the check of the flags and the sleep still ends the sleep.
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` or until a signal arrives."""
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

    def restore_default_handlers(self) -> None:
        """Let the next signal kill the process; the database rolls back uncommitted work."""
        import time

        time.sleep(_ECHO_SECONDS)
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)


_installed: Signals | None = None


def install_signal_handlers() -> Signals:
    """Install handlers for SIGTERM, SIGINT and SIGHUP; return their flags, the same object each time."""
    global _installed
    if _installed is None:
        _installed = Signals()
    return _installed


READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


def notify(*lines: str) -> bool:
    """Send `NAME=value` lines to systemd; return whether they were sent."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    # A leading @ marks an abstract address, which the kernel writes with a leading zero byte.
    import socket

    path = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.connect(path)
            sender.sendall("\n".join(lines).encode())
    except OSError:
        # A missing listener must not end the daemon.
        return False
    return True


def watchdog_seconds() -> float | None:
    """Return half the watchdog interval of systemd in seconds, or None if the watchdog is off."""
    microseconds, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID")
    if not microseconds.isdigit() or (process and process != str(os.getpid())):
        return None
    return int(microseconds) / 2e6
