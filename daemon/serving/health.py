"""State of the daemon: the loops write it, any thread may read it."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from hierogram.daemon.serving.supervision import LoopHealth
from hierogram.storage.records import UNSETTLED, LagRow

_RATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Lag:
    """Backlog of sampling.

    Pairs that have not finished the schedule, seconds that the oldest of them has waited (None: no such pair), pair
    sweeps per second over the last minute, and pair counts by state.
    """

    pairs: int = 0
    oldest_seconds: float | None = None
    sweeps_per_second: float = 0.0
    states: Mapping[str, int] = field(default_factory=dict)

    def by(self, pairs: Mapping[str, int]) -> "Lag":
        """Return this lag with the given current pair counts by state."""
        states = {state: pairs.get(state, 0) for state in UNSETTLED}
        behind = sum(states.values())
        return replace(self, pairs=behind, oldest_seconds=self.oldest_seconds if behind else None, states=states)


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """State of the spool.

    Inputs ingested and rejected since the start, number of waiting files, and files that wait for related files or
    cannot be moved.
    """

    done: int = 0
    failed: int = 0
    waiting: int = 0
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """State of the daemon; `degraded` is the reason (store unavailable, disk full) or None."""

    loops: tuple[LoopHealth, ...]
    lag: Lag
    degraded: str | None = None
    log_likelihood: float | None = None
    uptime_seconds: float = 0.0
    spool: SpoolStatus = SpoolStatus()


class HealthRegistry:
    """Registry of status values that the loops report. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._behind = LagRow(0, None)
        self._noted = time.monotonic()
        self._work: deque[tuple[float, int]] = deque()
        self.log_likelihood: float | None = None
        self.resampled_pairs = 0
        self.spool = SpoolStatus()

    def record_lag(self, behind: LagRow) -> None:
        """Record the backlog that the store reports."""
        with self._lock:
            self._behind, self._noted = behind, time.monotonic()

    def record_sweeps(self, pair_sweeps: int) -> None:
        """Record the number of pairs swept since the last call."""
        now = time.monotonic()
        with self._lock:
            self._work.append((now, pair_sweeps))
            while self._work[0][0] < now - _RATE_SECONDS:
                self._work.popleft()

    def lag(self) -> Lag:
        """Return the current lag. The age of the oldest pair keeps growing between reports."""
        now = time.monotonic()
        with self._lock:
            behind = self._behind
            oldest = None if behind.oldest_seconds is None else behind.oldest_seconds + now - self._noted
            swept = sum(done for time_done, done in self._work if time_done >= now - _RATE_SECONDS)
            return Lag(behind.pairs, oldest, swept / _RATE_SECONDS, behind.states)
