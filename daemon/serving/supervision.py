"""Supervision of named loops, each in its own thread: no loop can die or hang unnoticed.

A loop that raises an error is restarted after a pause that doubles with each failure.
Failures of the store or the spool (unavailable, disk full, process limit) are retried
indefinitely with short pauses. Too many other failures in a row end the daemon.
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
_MAX_WAIT_SECONDS_LENGTH = 5.0
_RETRYABLE = (StoreUnavailableError, SpoolError)
_FATAL = (LeaseLostError, StoreHeldError)


StopFlag = threading.Event
"""Flag that asks a loop to end."""


class StoppedError(DaemonError):
    """The daemon was asked to end during an operation, which is repeated after the restart."""


class Heartbeat:
    """Heartbeat of a loop: call it often, `progress` when part of its work is done, `ok` when a round is complete."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.last = clock()
        self.failures = 0
        self.restarts = 0
        self.error: str | None = None
        self.trouble: str | None = None
        self.waits = False

    def __call__(self) -> None:
        """Record that the loop is alive."""
        self.last = self._clock()

    def progress(self) -> None:
        """Record that the loop works again: clear the trouble, but keep counting failures."""
        self()
        self.trouble = None

    def ok(self) -> None:
        """Record a complete round: reset the failure count."""
        self.progress()
        self.failures = 0
        self.waits = False

    @property
    def age(self) -> float:
        """Seconds since the last heartbeat."""
        return self._clock() - self.last


class Loop(Protocol):
    """Permanent task of the daemon: a name for users, and the configuration sections whose change restarts it."""

    name: str
    sections: frozenset[str]

    def prepare(self, configuration: Configuration) -> None:
        """Acquire resources for the next run, or raise `DaemonError` and keep the current ones."""
        return

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Run until `stop` is set, beating. Each run starts from the stored state. Raises any error."""


@dataclass(frozen=True, slots=True)
class LoopHealth:
    """Seconds since a loop's last heartbeat, the limit, whether it is within, restarts, and the last error."""

    name: str
    age_seconds: float
    timeout_seconds: float
    running: bool = True
    restarts: int = 0
    error: str | None = None


class _SupervisedLoop:
    """A loop with its thread, stop flag and heartbeat."""

    def __init__(
        self, loop: Loop, timeout_seconds: DaemonSection, listener: "Listener", clock: Callable[[], float]
    ) -> None:
        self.loop = loop
        self.timeout_seconds = timeout_seconds
        self.listener = listener
        self.stop = threading.Event()
        self.again = threading.Event()
        self.ending = threading.Event()
        self.heartbeat = Heartbeat(clock)
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._keep, name=loop.name, daemon=True)

    def _keep(self) -> None:
        while not self.ending.is_set():
            failed = False
            try:
                self.loop.run(self.stop, self.heartbeat)
                if not self.stop.is_set():
                    raise DaemonError(f"the loop {self.loop.name} ended unexpectedly")
            except BaseException as error:
                failed = True
                if not self._endure(error):
                    return
            # A restart for a new configuration is not a failure.
            if failed and not self.ending.is_set():
                self.heartbeat.restarts += 1
            if self.again.is_set() and not self.ending.is_set():
                self.again.clear()
                self.stop.clear()
                # `ending` may have been set between the two lines above.
                if self.ending.is_set():
                    self.stop.set()

    def _endure(self, error: BaseException) -> bool:
        """Wait before the next attempt; return False if the loop must not be retried."""
        heart = self.heartbeat
        heart.error = heart.trouble = str(error) or type(error).__name__
        heart.waits = isinstance(error, _RETRYABLE)
        heart.failures += 1
        if self.ending.is_set():
            self.listener(self.loop.name, error, None)
            return False
        too_often = not heart.waits and heart.failures >= self.timeout_seconds.give_up_after
        if too_often or isinstance(error, _FATAL):
            self.failed = error
            self.listener(self.loop.name, error, None)
            return False
        longest = self.timeout_seconds.longest_pause_seconds
        if heart.waits:
            # The daemon should be ready soon after the store is.
            longest = min(longest, _MAX_WAIT_SECONDS_LENGTH)
        pause = min(self.timeout_seconds.pause_seconds * 2 ** min(heart.failures - 1, 16), longest)
        self.listener(self.loop.name, error, pause)
        self.heartbeat()
        self.stop.wait(pause)
        self.heartbeat()
        return True


Listener = Callable[[str, BaseException, float | None], None]
"""Callback for a failed loop: name, error, seconds until the restart (None: no restart)."""


class Supervisor:
    """Supervisor that runs loops in threads. The caller must call `check` regularly."""

    def __init__(
        self,
        loops: Sequence[Loop],
        timeout_seconds: DaemonSection,
        listener: Listener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience = timeout_seconds
        self._kept = {loop.name: _SupervisedLoop(loop, timeout_seconds, listener, clock) for loop in loops}

    def prepare(self, configuration: Configuration, sections: frozenset[str] | None = None) -> None:
        """Prepare the loops that read any of the sections (None: all loops). Raises `DaemonError`."""
        for supervised in self._kept.values():
            if sections is None or supervised.loop.sections & sections:
                supervised.loop.prepare(configuration)

    def start(self) -> None:
        """Start all loops."""
        for supervised in self._kept.values():
            supervised.heartbeat()
            supervised.thread.start()

    def check(self) -> None:
        """Raise `DaemonError` if a loop has failed for good, or has not beaten for too long."""
        for name, supervised in self._kept.items():
            if supervised.failed is not None:
                times = f" {supervised.heartbeat.failures} times in a row" if supervised.heartbeat.failures > 1 else ""
                raise DaemonError(f"the loop {name} failed{times}: {supervised.heartbeat.error}") from supervised.failed
            if not supervised.thread.is_alive():
                raise DaemonError(f"the loop {name} has stopped: {supervised.heartbeat.error}")
            if supervised.heartbeat.age > self._patience.stall_seconds:
                raise DaemonError(f"the loop {name} has not responded for {supervised.heartbeat.age:.0f} s")

    def restart(self, sections: frozenset[str]) -> list[str]:
        """Restart every loop that reads one of the sections; return their names."""
        chosen = [supervised for supervised in self._kept.values() if supervised.loop.sections & sections]
        for supervised in chosen:
            supervised.again.set()
            supervised.stop.set()
        return [supervised.loop.name for supervised in chosen]

    def stop(self, grace: float) -> list[str]:
        """Stop all loops; return the names of loops still running after `grace` seconds."""
        until = time.monotonic() + grace
        for supervised in self._kept.values():
            supervised.ending.set()
            supervised.stop.set()
        for supervised in self._kept.values():
            if supervised.thread.is_alive():
                supervised.thread.join(max(until - time.monotonic(), _LOOK_SECONDS))
        return [name for name, supervised in self._kept.items() if supervised.thread.is_alive()]

    def health(self) -> tuple[LoopHealth, ...]:
        """Return the state of all loops."""
        timeout_seconds = self._patience.stall_seconds
        ages = {name: supervised.heartbeat.age for name, supervised in self._kept.items()}
        return tuple(
            LoopHealth(
                name,
                ages[name],
                timeout_seconds,
                ages[name] <= timeout_seconds,
                supervised.heartbeat.restarts,
                supervised.heartbeat.error,
            )
            for name, supervised in self._kept.items()
        )

    def trouble(self) -> str | None:
        """Return the current trouble of a loop, or None."""
        for name, supervised in self._kept.items():
            if supervised.heartbeat.trouble is not None:
                return f"{name}: {supervised.heartbeat.trouble}"
        return None
