"""Supervision of named loops, each in its own thread.

A loop that fails is restarted after a pause, which doubles with each failure. Too many consecutive failures end the
daemon, except failures of the store or the spool (unavailable, disk full, process limit). If another process has taken
the lease on the grammar, the daemon ends at once.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from hierogram.daemon.configuration import Configuration, DaemonSection
from hierogram.daemon.exceptions import DaemonError, SpoolError
from hierogram.daemon.serving.health import HealthRegistry, LoopHealth
from hierogram.storage.exceptions import LeaseLostError, StoreHeldError, StoreUnavailableError

if TYPE_CHECKING:
    from hierogram.daemon.serving.logs import Log
    from hierogram.storage.store import Store

_JOIN_SECONDS = 0.05
_IDLE_SECONDS = 1.0
_MAX_RETRYABLE_PAUSE_SECONDS = 5.0
_RETRYABLE = (StoreUnavailableError, SpoolError)
_FATAL = (LeaseLostError, StoreHeldError)


StopFlag = threading.Event


class StoppedError(DaemonError):
    """A loop was stopped during an operation. The next run of the loop repeats the operation."""


class Heartbeat:
    """Heartbeat of a loop. Loops call `progress` after each step of work and `ok` after each round."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.last = clock()
        self.failures = 0
        self.restarts = 0
        self.last_error: str | None = None
        """Message of the last failure. It is never cleared."""
        self.problem: str | None = None
        """Message of the last failure, or None after later progress."""

    def __call__(self) -> None:
        """Record that the loop is alive."""
        self.last = self._clock()

    def progress(self) -> None:
        """Record a step of work. This clears the problem, but not the failure count."""
        self()
        self.problem = None

    def ok(self) -> None:
        """Record a complete round. This clears the problem and the failure count."""
        self.progress()
        self.failures = 0

    @property
    def age(self) -> float:
        """Seconds since the last heartbeat."""
        return self._clock() - self.last


def idle(stop: StopFlag, beat: Heartbeat) -> None:
    """Wait until `stop` is set, in a loop that has no work in the current configuration."""
    while not stop.is_set():
        beat.ok()
        stop.wait(_IDLE_SECONDS)


class Loop(Protocol):
    """Permanent task of the daemon. Changes in its configuration `sections` restart it."""

    name: str
    sections: frozenset[str]

    def prepare(self, configuration: Configuration) -> None:
        """Acquire resources for the next run, or raise `DaemonError` and keep the current ones."""
        return

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Run from the stored state until `stop` is set, calling `beat` often. May raise any error."""


class StoreLoop(Loop):
    """Loop that works on the store with the current configuration, and reports to `health` and `log`."""

    def __init__(
        self, store: "Store", configuration: Callable[[], Configuration], health: HealthRegistry, log: "Log"
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._health = health
        self._log = log.bind(loop=self.name)


class _SupervisedLoop:
    def __init__(
        self, loop: Loop, section: DaemonSection, on_failure: "FailureCallback", clock: Callable[[], float]
    ) -> None:
        self.loop = loop
        self.section = section
        self.on_failure = on_failure
        self.stop = threading.Event()
        """Ends the current run."""
        self.restarting = threading.Event()
        """The ended run is to be restarted."""
        self.ending = threading.Event()
        """The thread is to end."""
        self.heartbeat = Heartbeat(clock)
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=loop.name, daemon=True)

    def _run(self) -> None:
        while not self.ending.is_set():
            try:
                self.loop.run(self.stop, self.heartbeat)
                if not self.stop.is_set():
                    raise DaemonError(f"the loop {self.loop.name} ended unexpectedly")
            except BaseException as error:
                if not self._wait_for_retry(error):
                    return
            if self.restarting.is_set() and not self.ending.is_set():
                self.restarting.clear()
                self.stop.clear()
                # `Supervisor.stop` may have set both flags before this thread cleared `stop`.
                if self.ending.is_set():
                    self.stop.set()

    def _wait_for_retry(self, error: BaseException) -> bool:
        """Report a failure and wait before the next attempt. Returns False if the loop must not be retried."""
        heartbeat = self.heartbeat
        heartbeat.last_error = heartbeat.problem = str(error) or type(error).__name__
        heartbeat.failures += 1
        retryable = isinstance(error, _RETRYABLE)
        too_often = not retryable and heartbeat.failures >= self.section.max_failures
        if too_often or isinstance(error, _FATAL) or self.ending.is_set():
            self.failed = error
            self.on_failure(self.loop.name, error, None)
            return False
        max_pause = self.section.max_pause_seconds
        if retryable:
            # Pause less, so that the daemon is ready soon after the store is available again.
            max_pause = min(max_pause, _MAX_RETRYABLE_PAUSE_SECONDS)
        pause = min(self.section.pause_seconds * 2 ** min(heartbeat.failures - 1, 16), max_pause)
        self.on_failure(self.loop.name, error, pause)
        self.heartbeat()
        self.stop.wait(pause)
        self.heartbeat()
        if not self.ending.is_set():
            heartbeat.restarts += 1
        return True


FailureCallback = Callable[[str, BaseException, float | None], None]
"""Callback for a failed loop: `(name, error, seconds until the restart, or None without a restart)`."""


class Supervisor:
    """Runner of loops in threads. The caller must call `check` regularly."""

    def __init__(
        self,
        loops: Sequence[Loop],
        section: DaemonSection,
        on_failure: FailureCallback,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._section = section
        self._supervised = {loop.name: _SupervisedLoop(loop, section, on_failure, clock) for loop in loops}

    def prepare(self, configuration: Configuration, sections: frozenset[str] | None = None) -> None:
        """Prepare the loops that read any of the sections, or all loops by default. Raises `DaemonError`."""
        for supervised in self._supervised.values():
            if sections is None or supervised.loop.sections & sections:
                supervised.loop.prepare(configuration)

    def start(self) -> None:
        """Start all loops."""
        for supervised in self._supervised.values():
            supervised.heartbeat()
            supervised.thread.start()

    def check(self) -> None:
        """Raise `DaemonError` if a loop has failed permanently or its last heartbeat is too old."""
        for name, supervised in self._supervised.items():
            if supervised.failed is not None:
                times = f" {supervised.heartbeat.failures} times in a row" if supervised.heartbeat.failures > 1 else ""
                raise DaemonError(
                    f"the loop {name} failed{times}: {supervised.heartbeat.last_error}"
                ) from supervised.failed
            if not supervised.thread.is_alive():
                raise DaemonError(f"the loop {name} has stopped: {supervised.heartbeat.last_error}")
            if supervised.heartbeat.age > self._section.stall_seconds:
                raise DaemonError(f"the loop {name} has not responded for {supervised.heartbeat.age:.0f} s")

    def restart(self, sections: frozenset[str]) -> list[str]:
        """Restart the loops that read any of the sections, and return their names."""
        affected = [supervised for supervised in self._supervised.values() if supervised.loop.sections & sections]
        for supervised in affected:
            supervised.restarting.set()
            supervised.stop.set()
        return [supervised.loop.name for supervised in affected]

    def stop(self, grace: float) -> list[str]:
        """Stop all loops, and return the names of loops that still run after `grace` seconds."""
        deadline = time.monotonic() + grace
        for supervised in self._supervised.values():
            supervised.ending.set()
            supervised.stop.set()
        for supervised in self._supervised.values():
            if supervised.thread.is_alive():
                supervised.thread.join(max(deadline - time.monotonic(), _JOIN_SECONDS))
        return [name for name, supervised in self._supervised.items() if supervised.thread.is_alive()]

    def health(self) -> tuple[LoopHealth, ...]:
        """Return the state of all loops."""
        timeout_seconds = self._section.stall_seconds
        states = []
        for name, supervised in self._supervised.items():
            beat, age = supervised.heartbeat, supervised.heartbeat.age
            states.append(
                LoopHealth(name, age, timeout_seconds, age <= timeout_seconds, beat.restarts, beat.last_error)
            )
        return tuple(states)

    def problem(self) -> str | None:
        """Return the first current problem of a loop, or None."""
        for name, supervised in self._supervised.items():
            if supervised.heartbeat.problem is not None:
                return f"{name}: {supervised.heartbeat.problem}"
        return None
