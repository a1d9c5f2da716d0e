"""Schedules: node levels that a sweep may change [CFGŠ14 §5.3], and its temperature T [CGB09 §6].

The level of a node is the number of edges in its derivations, which grows with the length of its phrase. Sweeps of a
pair are numbered from 1.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

EVERY_LEVEL = 0x7FFF
"""Level that allows a sweep to sample every node."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Schedule in stages of `sweeps_per_level` sweeps each, at T = 1.

    Stage 1 samples nodes of level 1, stage 2 nodes of levels 1 and 2, and so on up to stage `levels`. Then every node
    is sampled. If `sweeps_per_level` is 0, every node is sampled from the first sweep on.
    """

    sweeps_per_level: int = 10
    levels: int = 7
    # Draws are independent of the current values, as in the paper.
    avoid_current: ClassVar[bool] = False

    @property
    def burn_in(self) -> int:
        """Number of sweeps before the first sweep that samples every node."""
        return self.sweeps_per_level * self.levels

    def powers(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return 1/T for each sweep number, float64[P], which is always 1."""
        return np.ones(np.shape(sweeps))

    def stages(self, sweeps: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return the highest level that a sweep may change, for each sweep number, int16[P]."""
        if self.sweeps_per_level < 1:
            return np.full(len(sweeps), EVERY_LEVEL, np.int16)
        stage = (np.asarray(sweeps) - 1) // self.sweeps_per_level + 1
        return np.where(stage > self.levels, EVERY_LEVEL, stage).astype(np.int16)

    def reached(self, sweeps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the stage of each sweep number, int64[P]: 1 to `levels`, then `levels` + 1.

        Sweep 0, before the first sweep of a pair, has stage 1.
        """
        return np.minimum(self.stages(np.maximum(sweeps, 1)), self.levels + 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Annealing:
    """Annealing: sweeps sample from P^(1/T).

    T is `start` in sweep 1, changes linearly to 1 until sweep number `sweeps`, then stays at 1. A `start` below 1
    favors likely values. If `sweeps` is 0, T is always 1.
    """

    sweeps: int = 100
    start: float = 5.0
    # Number of burn-in sweeps after annealing, at T = 1. The property `burn_in` also counts the annealing.
    burn_in_sweeps: int = 0
    # True if draws avoid the current values of variables.
    avoid_current: bool = False
    # Highest level of the partial sweeps, 0 for none. Sweep k samples levels up to 2k - 1 while that is <= `levels`,
    # since one more word adds two levels to a phrase. Later sweeps sample all levels.
    levels: int = 0

    @property
    def burn_in(self) -> int:
        """Number of sweeps of a pair or tree before its samples are averaged, including annealing."""
        return self.sweeps + self.burn_in_sweeps

    def stages(self, sweeps: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return the highest level that a sweep may change, for each sweep number, int16[P]."""
        level = 2 * np.asarray(sweeps) - 1
        return np.where(level > self.levels, EVERY_LEVEL, level).astype(np.int16)

    def powers(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return 1/T for each sweep number, float64[P]."""
        return 1.0 / self.temperatures(sweeps)

    def temperatures(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the temperature T for each sweep number, float64[P]."""
        if self.sweeps < 1:
            return np.ones(np.shape(sweeps))
        progress = (np.asarray(sweeps, np.float64) - 1.0) / max(self.sweeps - 1, 1)
        return np.asarray(self.start + (1.0 - self.start) * np.clip(progress, 0.0, 1.0))

    def reached(self, sweeps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the stage of each sweep number, int64[P]: 1 during annealing, then 2."""
        return np.where(np.asarray(sweeps) <= self.sweeps, 1, 2).astype(np.int64)


_LEVELS = 13
"""Highest level of a phrase of seven words, the longest phrase without a forced cut by default."""


def quick_schedule(burn_in_sweeps: int = 10) -> Annealing:
    """Return the schedule that reaches the final likelihood of `paper` in the fewest sweeps.

    T rises from 0.85 to 1 over 16 sweeps, so that pairs agree sooner on one of several similarly probable rules. Draws
    avoid current values, which yields the same precision in fewer sweeps. See docs/performance.md.
    """
    return Annealing(16, 0.85, burn_in_sweeps, avoid_current=True)


def stratified_schedule(burn_in_sweeps: int = 10) -> Annealing:
    """Return `quick_schedule`, but with short phrases first. Each sweep adds phrases of one more word."""
    return replace(quick_schedule(burn_in_sweeps), levels=_LEVELS)
