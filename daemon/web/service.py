"""What the HTTP part needs of the daemon that it belongs to; a test can be one too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hierogram.storage.store import Store


@dataclass(frozen=True, slots=True)
class LoopHealth:
    """A supervised loop: seconds since its last beat, how many it may take, how often it was started again.

    `error` is what ended it last, if anything did.
    """

    name: str
    age: float
    patience: float
    restarts: int = 0
    error: str | None = None

    @property
    def turns(self) -> bool:
        """Whether its last beat is recent enough."""
        return self.age <= self.patience


@dataclass(frozen=True, slots=True)
class Lag:
    """How far sampling is behind: pairs without a derivation or on their way through the schedule, seconds that the
    oldest of them has waited (None: there is none), pair sweeps a second lately."""

    pairs: int
    oldest: float | None
    sweeps_per_second: float


@dataclass(frozen=True, slots=True)
class Condition:
    """How the daemon is; `degraded` says why it cannot work as it should (store gone, disk full), else None."""

    loops: tuple[LoopHealth, ...]
    lag: Lag
    degraded: str | None = None
    log_likelihood: float | None = None
    uptime: float = 0.0


class Service(Protocol):
    """The daemon as the HTTP part sees it; every method may be called from any thread."""

    @property
    def store(self) -> Store:
        """The store that the daemon keeps."""

    def condition(self) -> Condition:
        """How the daemon is; quick, and asks no database."""

    def stopping(self) -> bool:
        """Whether the daemon is on its way out, so that long requests should end."""

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        """Take the pairs and all that they count out of the store; returns the ids of those that were there."""
