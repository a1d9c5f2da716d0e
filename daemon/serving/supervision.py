"""Supervision: named loops in threads of their own, none of which can die or stand still in silence.

A loop that ends with an error is started again after a pause that doubles from failure to failure. Failures of the
store or the spool (gone, disk full, no process to be had) are waited out for as long as they take, with short pauses;
others end the daemon when there are too many in a row.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hierogram.daemon.configuration import Configuration, DaemonSection
from hierogram.daemon.exceptions import DaemonError, SpoolError
from hierogram.storage.exceptions import LeaseLostError, StoreHeldError, StoreUnavailableError

_LOOK_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 5.0
_WAITED_OUT = (StoreUnavailableError, SpoolError)
_FATAL = (LeaseLostError, StoreHeldError)


StopFlag = threading.Event
"""Set where a loop shall end."""


class StoppedError(DaemonError):
    """The daemon was asked to end in the middle of something; it is done again when the daemon is back."""


class Heartbeat:
    """A loop's signs of life: call it often, `progress` when part of its work is done, `well` when a round is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.last = clock()
        self.failures = 0
        self.restarts = 0
        self.error: str | None = None
        self.trouble: str | None = None
        self.waits = False

    def __call__(self) -> None:
        """Note that the loop is alive."""
        self.last = self._clock()

    def progress(self) -> None:
        """Note that the loop works again: what kept it from its work is over, though failures are still counted."""
        self()
        self.trouble = None

    def well(self) -> None:
        """Note that a round is complete: failures before it do not count any longer."""
        self.progress()
        self.failures = 0
        self.waits = False

    @property
    def age(self) -> float:
        """Seconds since the last sign of life."""
        return self._clock() - self.last


class Loop(Protocol):
    """Something that the daemon does all the time: a name for people, and sections of the configuration upon whose
    change it has to be started again.
    """

    name: str
    sections: frozenset[str]

    def prepare(self, configuration: Configuration) -> None:
        """Take what the next run needs from outside; raises `DaemonError` where it cannot be had, and keeps what is."""
        return

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Run until `stop` is set, beating; each run begins again from what is stored. Raises what goes wrong."""


@dataclass(frozen=True, slots=True)
class LoopHealth:
    """State of a loop: seconds since its last beat and the number allowed, whether it turns (its last beat is recent
    enough), restarts after failures, and the last failure.
    """

    name: str
    age: float
    patience: float
    turns: bool = True
    restarts: int = 0
    error: str | None = None


class _Kept:
    """A loop with its thread, its stop flag and its heart."""

    def __init__(self, loop: Loop, patience: DaemonSection, listener: "Listener", clock: Callable[[], float]) -> None:
        self.loop = loop
        self.patience = patience
        self.listener = listener
        self.stop = threading.Event()
        self.again = threading.Event()
        self.ending = threading.Event()
        self.heart = Heartbeat(clock)
        self.given_up: BaseException | None = None
        self.thread = threading.Thread(target=self._keep, name=loop.name, daemon=True)

    def _keep(self) -> None:
        while not self.ending.is_set():
            failed = False
            try:
                self.loop.run(self.stop, self.heart)
                if not self.stop.is_set():
                    raise DaemonError(f"the loop {self.loop.name} ended by itself")
            except BaseException as error:
                failed = True
                if not self._endure(error):
                    return
            # A loop that was asked to restart, with another configuration, has not failed.
            if failed and not self.ending.is_set():
                self.heart.restarts += 1
            if self.again.is_set() and not self.ending.is_set():
                self.again.clear()
                self.stop.clear()
                # The end may have come between the two lines before.
                if self.ending.is_set():
                    self.stop.set()

    def _endure(self, error: BaseException) -> bool:
        """Wait before the next attempt; return False where there shall be none."""
        heart = self.heart
        heart.error = heart.trouble = str(error) or type(error).__name__
        heart.waits = isinstance(error, _WAITED_OUT)
        heart.failures += 1
        if self.ending.is_set():
            self.listener(self.loop.name, error, None)
            return False
        too_often = not heart.waits and heart.failures >= self.patience.give_up_after
        if too_often or isinstance(error, _FATAL):
            self.given_up = error
            self.listener(self.loop.name, error, None)
            return False
        longest = self.patience.longest_pause_seconds
        if heart.waits:
            # The daemon is to be ready soon after the store is.
            longest = min(longest, _LONGEST_WAIT_SECONDS)
        pause = min(self.patience.pause_seconds * 2 ** min(heart.failures - 1, 16), longest)
        self.listener(self.loop.name, error, pause)
        self.heart()
        self.stop.wait(pause)
        self.heart()
        return True


Listener = Callable[[str, BaseException, float | None], None]
"""Hears of a loop that has failed: name, error, seconds until it is started again (None: it is not)."""


class Supervisor:
    """Runs loops in threads and looks after them; `check` has to be called now and then."""

    def __init__(
        self,
        loops: Sequence[Loop],
        patience: DaemonSection,
        listener: Listener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience = patience
        self._kept = {loop.name: _Kept(loop, patience, listener, clock) for loop in loops}

    def prepare(self, configuration: Configuration, sections: frozenset[str] | None = None) -> None:
        """Have the loops that read one of the sections (None: all) take what they need from outside.

        Raises `DaemonError` where it cannot be had.
        """
        for kept in self._kept.values():
            if sections is None or kept.loop.sections & sections:
                kept.loop.prepare(configuration)

    def start(self) -> None:
        """Start all loops."""
        for kept in self._kept.values():
            kept.heart()
            kept.thread.start()

    def check(self) -> None:
        """Raise `DaemonError` where a loop has been given up, or has given no sign of life for too long."""
        for name, kept in self._kept.items():
            if kept.given_up is not None:
                times = f" {kept.heart.failures} times in a row" if kept.heart.failures > 1 else ""
                raise DaemonError(f"the loop {name} failed{times}: {kept.heart.error}") from kept.given_up
            if not kept.thread.is_alive():
                raise DaemonError(f"the loop {name} is dead: {kept.heart.error}")
            if kept.heart.age > self._patience.stall_seconds:
                raise DaemonError(f"the loop {name} has given no sign of life for {kept.heart.age:.0f} s")

    def restart(self, sections: frozenset[str]) -> list[str]:
        """Have every loop that reads one of the sections end and start again; returns their names."""
        chosen = [kept for kept in self._kept.values() if kept.loop.sections & sections]
        for kept in chosen:
            kept.again.set()
            kept.stop.set()
        return [kept.loop.name for kept in chosen]

    def stop(self, grace: float) -> list[str]:
        """Have all loops end; returns the names of those that have not after `grace` seconds."""
        until = time.monotonic() + grace
        for kept in self._kept.values():
            kept.ending.set()
            kept.stop.set()
        for kept in self._kept.values():
            if kept.thread.is_alive():
                kept.thread.join(max(until - time.monotonic(), _LOOK_SECONDS))
        return [name for name, kept in self._kept.items() if kept.thread.is_alive()]

    def health(self) -> tuple[LoopHealth, ...]:
        """Return how the loops are."""
        patience = self._patience.stall_seconds
        ages = {name: kept.heart.age for name, kept in self._kept.items()}
        return tuple(
            LoopHealth(name, ages[name], patience, ages[name] <= patience, kept.heart.restarts, kept.heart.error)
            for name, kept in self._kept.items()
        )

    def trouble(self) -> str | None:
        """Return what keeps a loop from its work; None if nothing does."""
        for name, kept in self._kept.items():
            if kept.heart.trouble is not None:
                return f"{name}: {kept.heart.trouble}"
        return None
