"""The daemon's condition, for those who look in: written by the loops, read from any thread."""

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
    """The lag of sampling: pairs that are not through the schedule, seconds that the oldest of them has waited
    (None: there is none), pair sweeps a second lately, and how many pairs are in which state.
    """

    pairs: int = 0
    oldest: float | None = None
    sweeps_per_second: float = 0.0
    states: Mapping[str, int] = field(default_factory=dict)

    def by(self, pairs: Mapping[str, int]) -> "Lag":
        """Return the same, with the numbers of pairs by state that the store says now."""
        states = {state: pairs.get(state, 0) for state in UNSETTLED}
        behind = sum(states.values())
        return replace(self, pairs=behind, oldest=self.oldest if behind else None, states=states)


@dataclass(frozen=True, slots=True)
class SpoolCondition:
    """State of the spool: inputs taken in and set apart since the start, waiting files, and the files that wait for
    others or cannot be moved.
    """

    done: int = 0
    failed: int = 0
    waiting: int = 0
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """The daemon's condition; `degraded` says why it cannot work as it should (store gone, disk full), else None."""

    loops: tuple[LoopHealth, ...]
    lag: Lag
    degraded: str | None = None
    log_likelihood: float | None = None
    uptime: float = 0.0
    rejuvenated: int = 0
    spool: SpoolCondition = SpoolCondition()


class HealthRegistry:
    """Where the loops note what others want to know; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._behind = LagRow(0, None)
        self._noted = time.monotonic()
        self._work: deque[tuple[float, int]] = deque()
        self.log_likelihood: float | None = None
        self.rejuvenated = 0
        self.spool = SpoolCondition()

    def note_lag(self, behind: LagRow) -> None:
        """Note what the store says is behind."""
        with self._lock:
            self._behind, self._noted = behind, time.monotonic()

    def note_sweeps(self, pair_sweeps: int) -> None:
        """Note how many pairs have been swept over since the last note."""
        now = time.monotonic()
        with self._lock:
            self._work.append((now, pair_sweeps))
            while self._work[0][0] < now - _RATE_SECONDS:
                self._work.popleft()

    def lag(self) -> Lag:
        """Return how far sampling is behind by now; an oldest pair goes on ageing while nobody notes anything."""
        now = time.monotonic()
        with self._lock:
            behind = self._behind
            oldest = None if behind.oldest is None else behind.oldest + now - self._noted
            swept = sum(done for at, done in self._work if at >= now - _RATE_SECONDS)
            return Lag(behind.pairs, oldest, swept / _RATE_SECONDS, behind.states)
