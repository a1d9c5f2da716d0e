"""Signal handlers and systemd notifications. Imported first, so it must not import slow modules."""

import os
import signal
import sys
from functools import cache
from types import FrameType
from typing import NoReturn

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
DUPLICATE_SECONDS = 0.2
"""Seconds after a signal in which further signals are duplicates, because timeout(1) sends two."""
_FALLBACK_EXIT_SECONDS = 3.0
"""Seconds after the timer until the fault handler exits the process."""


def exit_after(seconds: float, code: int) -> None:
    """Exit the process with `code` after `seconds`, even if threads hang in a library or the kernel."""
    import faulthandler
    import logging
    import threading

    def end() -> None:
        logging.getLogger(__name__).error("shutdown took more than %g s: exiting now", seconds)
        exit_now(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    # If a thread holds the GIL, the timer cannot run, but the fault handler can still exit, with code 1.
    faulthandler.dump_traceback_later(seconds + _FALLBACK_EXIT_SECONDS, exit=True, file=2)


def exit_now(code: int) -> NoReturn:
    """Exit the process without waiting for its threads."""
    import logging

    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stderr.flush()
    os._exit(code)


class Signals:
    """Flags set by signal handlers. Until the daemon has started, SIGTERM and SIGINT raise `SystemExit`."""

    def __init__(self) -> None:
        self.end = self.reload = False
        self.starting = True
        self._readable, writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(writable, False)
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            signal.signal(number, self._record)
        # Write signals to a pipe, so that a signal between the check of the flags and the sleep also ends the sleep.
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` or until a signal arrives."""
        import select

        if select.select([self._readable], [], [], seconds)[0]:
            os.read(self._readable, 4096)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.reload = True
            return
        self.end = True
        if self.starting:
            self.starting = False
            raise SystemExit(0)

    def restore_default_handlers(self) -> None:
        """Let the next SIGTERM or SIGINT kill the process. The database then rolls back uncommitted work."""
        import time

        time.sleep(DUPLICATE_SECONDS)
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)


@cache
def install_signal_handlers() -> Signals:
    """Install the handlers on the first call, in the main thread, and return their flags."""
    return Signals()


def notify(*lines: str) -> None:
    """Send `NAME=value` lines to systemd, if it started the process and listens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    import socket
    from contextlib import suppress

    # A leading @ marks an abstract address, which the kernel writes with a leading zero byte.
    path = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.connect(path)
        sender.sendall("\n".join(lines).encode())


def watchdog_seconds() -> float | None:
    """Return half the watchdog interval of systemd in seconds, or None if the watchdog is off."""
    microseconds, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID")
    if not microseconds.isdigit() or (process and process != str(os.getpid())):
        return None
    return int(microseconds) / 2e6
