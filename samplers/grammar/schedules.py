"""Schedules: which levels a sweep may change [CFGŠ14 §5.3], and at which temperature it samples [CGB09 §6]."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

EVERY_LEVEL = 0x7FFF
"""Stage at which every node is sampled."""


NO_POWERS = np.zeros(0)
"""The powers of a sweep in which every pair is sampled at T = 1."""


def at_temperature_one(powers: NDArray[np.float64]) -> bool:
    """Return whether no pair is sampled at another temperature."""
    return bool((powers == 1.0).all())


class PairSchedule(Protocol):
    """All that sweeps over sentence pairs need of a schedule, by the number of each pair's sweep, from 1."""

    def stages(self, sweeps: NDArray[np.int64]) -> NDArray[np.int16]:
        """Highest level that each pair's sweep may change, int16."""

    def powers(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """The power 1/T to which each pair's conditionals are raised, float64; `NO_POWERS` where all are 1."""

    @property
    def leaving(self) -> bool:
        """Return whether draws leave the present values of variables [Suwa & Todo 2010]."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """K sweeps over nodes of level 1, K over levels 1 and 2, … up to `levels`; from then on over every node.

    With K = 0 every node is sampled from the first sweep.
    """

    sweeps_per_level: int = 10
    levels: int = 7

    @property
    def burn_in(self) -> int:
        """Sweeps after which a pair has been through every stage."""
        return self.sweeps_per_level * self.levels

    @property
    def leaving(self) -> bool:
        """Draws are those of the paper, whatever the present values."""
        return False

    def powers(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """T = 1 throughout."""
        return NO_POWERS

    def stages(self, sweeps: NDArray[np.int64]) -> NDArray[np.int16]:
        """Highest level that each pair's sweep (numbered from 1) may change, int16."""
        if self.sweeps_per_level < 1:
            return np.full(len(sweeps), EVERY_LEVEL, np.int16)
        stage = (np.asarray(sweeps) - 1) // self.sweeps_per_level + 1
        return np.where(stage > self.levels, EVERY_LEVEL, stage).astype(np.int16)

    def reached(self, sweeps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The stage, from 1, of each pair's last sweep; the one in which every level is sampled is `levels` + 1."""
        return np.minimum(self.stages(np.maximum(sweeps, 1)), self.levels + 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Annealing:
    """The first `sweeps` sweeps sample from P^(1/T), T falling in even steps from `start` to 1; then T = 1.

    With a `start` below 1, T rises: what is likely becomes more so. A pair has burned in `settling` sweeps
    later. Levels up to `levels` enter one after the other, two a sweep, as a phrase of one more word has two levels
    more; then all others. With 0 every level is sampled from the first sweep. `leaving`: draws leave the present values
    of variables.
    """

    sweeps: int = 100
    start: float = 5.0
    settling: int = 0
    leaving: bool = False
    levels: int = 0

    @property
    def burn_in(self) -> int:
        """Sweeps after which a pair, or a tree, has been annealed and has settled."""
        return self.sweeps + self.settling

    def stages(self, sweeps: NDArray[np.int64]) -> NDArray[np.int16]:
        """Highest level that each pair's sweep (numbered from 1) may change, int16."""
        level = 2 * np.asarray(sweeps) - 1
        return np.where(level > self.levels, EVERY_LEVEL, level).astype(np.int16)

    def powers(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """1/T of each pair's sweep, float64."""
        return 1.0 / self.temperatures(sweeps)

    def temperatures(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """The temperature of each sweep, numbered from 1, float64."""
        part = (np.asarray(sweeps, np.float64) - 1.0) / max(self.sweeps - 1, 1)
        return np.asarray(self.start + (1.0 - self.start) * np.clip(part, 0.0, 1.0))

    def reached(self, sweeps: NDArray[np.int64]) -> NDArray[np.int64]:
        """1 for what is being annealed, 2 for the rest."""
        return np.where(np.asarray(sweeps) <= self.sweeps, 1, 2).astype(np.int64)


_RISING_SWEEPS = 16
_RISING_START = 0.85
_LEVELS = 13
"""A phrase of seven words, the longest that need not be cut by default, has no higher level."""


def quick_schedule(settling: int = 10) -> Annealing:
    """The schedule that reaches the likelihood of a chain in equilibrium in the fewest sweeps; see docs/performance.md.

    T rises from 0.85 to 1 over 16 sweeps: pairs agree sooner on which of many rules of about one probability they use.
    Draws leave the present values, so that fewer sweeps tell as much.
    """
    return Annealing(_RISING_SWEEPS, _RISING_START, settling, leaving=True)


def stratified_schedule(settling: int = 10) -> Annealing:
    """As `quick_schedule`, but short phrases come first, those of one more word a sweep; all do before T is 1."""
    return replace(quick_schedule(settling), levels=_LEVELS)
