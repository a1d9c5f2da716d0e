"""State of the daemon. Loops report it, and any thread can read it."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from hierogram.storage.records.pairs import UNSETTLED, LagRow

_RATE_SECONDS = 60.0


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

    def with_states(self, pairs: Mapping[str, int]) -> "DaemonStatus":
        """Return a copy with the lag computed from current pair counts by state."""
        states = {state: pairs.get(state, 0) for state in UNSETTLED}
        total = sum(states.values())
        oldest = self.lag.oldest_seconds if total else None
        return replace(self, lag=replace(self.lag, pairs=total, oldest_seconds=oldest, states=states))


class HealthRegistry:
    """Values that the loops report for the state of the daemon. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
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
