"""Commands that end in good order when a signal asks for it."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hierogram.daemon.commands.common import note

_ENDING = (signal.SIGINT, signal.SIGTERM)
_ECHO_SECONDS = 0.2
"""What comes so soon after the first signal is the same one: timeout(1) and others send to a process and its group."""


class Stop:
    """Whether SIGINT or SIGTERM has asked for the end; the second one ends the process at once."""

    def __init__(self, said: str) -> None:
        self.number = 0
        self.ignoring = False
        self._said = said
        self._since = 0.0

    def __call__(self) -> bool:
        """Whether to stop."""
        return bool(self.number)

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM, as shells have it."""
        return 128 + self.number

    def ignore(self) -> None:
        """From now on to the end of the process, do not hear signals: all is done that they could interrupt.

        A process that ended by a signal would say that it was not.
        """
        self.ignoring = True
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if not self.number:
            self.number = number
            self._since = time.monotonic()
            note(self._said)
        elif time.monotonic() - self._since > _ECHO_SECONDS:
            # As if nobody had been listening: what is not committed is rolled back by the database.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


@contextmanager
def stopping(said: str) -> Iterator[Stop]:
    """Within, SIGINT and SIGTERM are only noted, and `said` is printed; after `Stop.ignore` they are not heard again.

    For the main thread.
    """
    stop = Stop(said)
    before = {number: signal.signal(number, stop._hear) for number in _ENDING}
    try:
        yield stop
    finally:
        if not stop.ignoring:
            for number, handler in before.items():
                signal.signal(number, handler)
