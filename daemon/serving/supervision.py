"""Supervision of named loops, each in its own thread, and the state that they report.

A loop that fails is restarted after a pause, which doubles with each failure. Too many consecutive failures end the
daemon, except failures of the store or the spool (unavailable, disk full, process limit). If another process has taken
the lease on the grammar, the daemon ends at once.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from hierogram.daemon.configuration import Configuration, DaemonSection
from hierogram.daemon.exceptions import DaemonError, SpoolError
from hierogram.storage.exceptions import LeaseLostError, StoreHeldError, StoreUnavailableError
from hierogram.storage.records.pairs import LagRow

if TYPE_CHECKING:
    from hierogram.daemon.serving.logs import Log
    from hierogram.storage.store import Store

_RATE_SECONDS = 60.0
"""Period of the rate of pair sweeps."""
_JOIN_SECONDS = 0.05
"""Minimum time to wait for each thread at shutdown, even after the grace period."""
_IDLE_SECONDS = 1.0
_MAX_RETRYABLE_PAUSE_SECONDS = 5.0
RETRYABLE = (StoreUnavailableError, SpoolError)
"""Temporary failures of the store or the spool, after which loops are always restarted."""
FATAL = (LeaseLostError, StoreHeldError)
"""Failures that end the daemon at once, because another process writes the grammar."""


@dataclass(frozen=True, slots=True)
class LoopHealth:
    """State of a loop. `age_seconds` is the age of its last heartbeat.

    `running` is True if this age is within `timeout_seconds`. `error` is the message of the last failure, or None.
    """

    name: str
    age_seconds: float
    timeout_seconds: float
    running: bool = True
    restarts: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """Sampling backlog.

    `pairs` is the number of pairs that have not finished the schedule, and `oldest_seconds` the age of the oldest (None
    without such pairs). `sweeps_per_second` is the rate of pair sweeps over the last minute. `states` counts these
    pairs by state.
    """

    pairs: int = 0
    oldest_seconds: float | None = None
    sweeps_per_second: float = 0.0
    states: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """State of the spool.

    `done` and `failed` count the inputs ingested and rejected since the start. `waiting` counts inputs that are ready,
    and files that wait for other files of their input or cannot be moved. `incomplete` has messages about such files.
    """

    done: int = 0
    failed: int = 0
    waiting: int = 0
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """State of the daemon. `degraded` is a current problem, such as a full disk, or None."""

    loops: tuple[LoopHealth, ...]
    lag: Lag
    degraded: str | None = None
    log_likelihood: float | None = None
    uptime_seconds: float = 0.0
    spool: SpoolStatus = SpoolStatus()

    def with_states(self, states: Mapping[str, int]) -> "DaemonStatus":
        """Return a copy with the current numbers of unsettled pairs, by state."""
        total = sum(states.values())
        oldest = self.lag.oldest_seconds if total else None
        return replace(self, lag=replace(self.lag, pairs=total, oldest_seconds=oldest, states=states))


class HealthRegistry:
    """Values that the loops report for the state of the daemon. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lag_row = LagRow(0, None)
        self._recorded_at = time.monotonic()
        self._settled_at = float("-inf")
        """Time of the last report without a backlog."""
        self._sweep_log: deque[tuple[float, int]] = deque()
        self.log_likelihood: float | None = None
        self.spool = SpoolStatus()

    def record_lag(self, row: LagRow) -> None:
        """Record the current backlog of the store."""
        with self._lock:
            self._lag_row, self._recorded_at = row, time.monotonic()
            if not row.pairs:
                self._settled_at = self._recorded_at

    def record_sweeps(self, pair_sweeps: int) -> None:
        """Record the number of pair sweeps since the last call."""
        now = time.monotonic()
        with self._lock:
            self._sweep_log.append((now, pair_sweeps))
            while self._sweep_log[0][0] < now - _RATE_SECONDS:
                self._sweep_log.popleft()

    def lag(self) -> Lag:
        """Return the current lag. The age of the oldest pair grows between reports."""
        now = time.monotonic()
        with self._lock:
            row, since = self._lag_row, now - _RATE_SECONDS
            oldest = row.oldest_seconds
            if oldest is not None:
                # Limit the age to the time since the backlog was last empty, because a pair that restarts after a
                # correction has not waited since its arrival.
                oldest = min(oldest + now - self._recorded_at, now - self._settled_at)
            swept = sum(pair_sweeps for recorded_at, pair_sweeps in self._sweep_log if recorded_at >= since)
            return Lag(row.pairs, oldest, swept / _RATE_SECONDS, row.states)


StopFlag = threading.Event


class StoppedError(DaemonError):
    """A loop was stopped during an operation. The next run of the loop repeats the operation."""


class Heartbeat:
    """Heartbeat of a loop. Loops call `progress` after each step of work and `ok` after each round."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self.failures = 0
        self.restarts = 0
        self.last_error: str | None = None
        """Message of the last failure. It is never cleared."""
        self.problem: str | None = None
        """Message of the last failure, or None after later progress."""

    def __call__(self) -> None:
        """Record that the loop is alive."""
        self.last = time.monotonic()

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
        return time.monotonic() - self.last


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
        """Run from the stored state until `stop` is set, calling `beat` often. May raise any error.

        A loop that uses the store calls `beat.progress` once the store answers, so that the daemon is ready soon
        after an outage.
        """


class StoreLoop(Loop):
    """Base of loops over a store. `configuration` returns the current configuration."""

    def __init__(
        self, store: "Store", configuration: Callable[[], Configuration], health: HealthRegistry, log: "Log"
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._health = health
        self._log = log.bind(loop=self.name)


class _SupervisedLoop:
    """Loop with its thread. `failed` is the error that ended it permanently, or None."""

    def __init__(self, loop: Loop, section: DaemonSection, on_failure: "FailureCallback") -> None:
        self.loop = loop
        self.section = section
        self.on_failure = on_failure
        self.stop = threading.Event()
        """Ends the current run, which is then restarted unless `ending` is set."""
        self.ending = threading.Event()
        self.heartbeat = Heartbeat()
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
            self.stop.clear()
            # `Supervisor.stop` may have set both flags before this thread cleared `stop`.
            if self.ending.is_set():
                self.stop.set()

    def _wait_for_retry(self, error: BaseException) -> bool:
        """Wait for the pause after a failure. Returns False if the loop must not restart."""
        heartbeat = self.heartbeat
        heartbeat.last_error = heartbeat.problem = str(error) or type(error).__name__
        heartbeat.failures += 1
        retryable = isinstance(error, RETRYABLE)
        too_often = not retryable and heartbeat.failures >= self.section.max_failures
        if too_often or isinstance(error, FATAL) or self.ending.is_set():
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

    def __init__(self, loops: Sequence[Loop], section: DaemonSection, on_failure: FailureCallback) -> None:
        self._section = section
        self._supervised = {loop.name: _SupervisedLoop(loop, section, on_failure) for loop in loops}

    def prepare(self, configuration: Configuration, sections: frozenset[str] | None = None) -> None:
        """Prepare the loops that read any of the sections, or all loops by default. Raises `DaemonError`."""
        for supervised in self._supervised.values():
            if sections is None or supervised.loop.sections & sections:
                supervised.loop.prepare(configuration)

    def start(self) -> None:
        """Start all loops, once. Call `prepare` first."""
        for supervised in self._supervised.values():
            supervised.heartbeat()
            supervised.thread.start()

    def check(self) -> None:
        """Raise `DaemonError` if a loop has failed permanently or its last heartbeat is too old."""
        for name, supervised in self._supervised.items():
            beat = supervised.heartbeat
            if supervised.failed is not None:
                times = f" {beat.failures} times in a row" if beat.failures > 1 else ""
                raise DaemonError(f"the loop {name} failed{times}: {beat.last_error}") from supervised.failed
            if not supervised.thread.is_alive():
                raise DaemonError(f"the loop {name} has stopped: {beat.last_error}")
            if beat.age > self._section.stall_seconds:
                raise DaemonError(f"the loop {name} has not responded for {beat.age:.0f} s")

    def restart(self, sections: frozenset[str]) -> list[str]:
        """Ask the loops that read any of the sections to restart, and return their names."""
        affected = [supervised for supervised in self._supervised.values() if supervised.loop.sections & sections]
        for supervised in affected:
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
        timeout, states = self._section.stall_seconds, []
        for name, supervised in self._supervised.items():
            beat, age = supervised.heartbeat, supervised.heartbeat.age
            states.append(LoopHealth(name, age, timeout, age <= timeout, beat.restarts, beat.last_error))
        return tuple(states)

    def problem(self) -> str | None:
        """Return the first current problem of a loop, or None."""
        for name, supervised in self._supervised.items():
            if supervised.heartbeat.problem is not None:
                return f"{name}: {supervised.heartbeat.problem}"
        return None
