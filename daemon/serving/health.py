"""How the daemon is, for those who look in: written by the loops, read from any thread."""

import time
from collections import deque
from dataclasses import dataclass
from threading import Lock

from hierogram.daemon.serving.supervision import LoopHealth

_RATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Lag:
    """How far sampling is behind: pairs without a derivation or on their way through the schedule, seconds that the
    oldest of them has waited (None: there is none), pair sweeps a second lately.
    """

    pairs: int = 0
    oldest: float | None = None
    sweeps_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class SpoolCondition:
    """What the spool has done since the start, and what lies in it: files taken in, files set apart, files waiting."""

    done: int = 0
    failed: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """How the daemon is; `degraded` says why it cannot work as it should (store gone, disk full), else None."""

    loops: tuple[LoopHealth, ...]
    lag: Lag
    degraded: str | None = None
    log_likelihood: float | None = None
    uptime: float = 0.0
    rejuvenated: int = 0
    spool: SpoolCondition = SpoolCondition()


class Board:
    """Where the loops note what others want to know; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pairs = 0
        self._oldest: float | None = None
        self._noted = time.monotonic()
        self._work: deque[tuple[float, int]] = deque()
        self.log_likelihood: float | None = None
        self.rejuvenated = 0
        self.spool = SpoolCondition()

    def note_lag(self, pairs: int, oldest: float | None) -> None:
        """So many pairs are behind, the oldest for so many seconds."""
        with self._lock:
            self._pairs, self._oldest, self._noted = pairs, oldest, time.monotonic()

    def note_sweeps(self, pair_sweeps: int) -> None:
        """So many pairs have been swept over since the last note."""
        now = time.monotonic()
        with self._lock:
            self._work.append((now, pair_sweeps))
            self._forget(now)

    def _forget(self, now: float) -> None:
        while self._work and self._work[0][0] < now - _RATE_SECONDS:
            self._work.popleft()

    def lag(self) -> Lag:
        """How far sampling is behind by now; an oldest pair goes on ageing while nobody notes anything."""
        now = time.monotonic()
        with self._lock:
            self._forget(now)
            oldest = None if self._oldest is None else self._oldest + now - self._noted
            return Lag(self._pairs, oldest, sum(done for _, done in self._work) / _RATE_SECONDS)
