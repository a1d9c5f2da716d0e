"""Schedules: which levels a sweep may change [CFGŠ14 §5.3], and at which temperature it samples [CGB09 §6]."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EVERY_LEVEL = 0x7FFF
"""Stage at which every node is sampled."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """K sweeps over nodes of level 1, K over levels 1 and 2, … up to `levels`; from then on over every node.

    `thinning`: a pair's derivation is kept as a sample each time that its number of sweeps is a multiple of this.
    """

    sweeps_per_level: int = 10
    levels: int = 7
    thinning: int = 10

    @property
    def burn_in(self) -> int:
        """Sweeps after which a pair has been through every stage."""
        return self.sweeps_per_level * self.levels

    def stages(self, sweeps: NDArray[np.int64]) -> NDArray[np.int16]:
        """Highest level that each pair's sweep (numbered from 1) may change, int16."""
        if self.sweeps_per_level < 1:
            return np.full(len(sweeps), EVERY_LEVEL, np.int16)
        stage = (np.asarray(sweeps) - 1) // self.sweeps_per_level + 1
        return np.where(stage > self.levels, EVERY_LEVEL, stage).astype(np.int16)

    def reached(self, sweeps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The stage, from 1, of each pair's last sweep; the one in which every level is sampled is `levels` + 1."""
        return np.minimum(self.stages(np.maximum(sweeps, 1)), self.levels + 1).astype(np.int64)

    def samples(self, sweeps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the state after each pair's sweep is kept as a sample."""
        return np.asarray(np.asarray(sweeps) % self.thinning == 0)


@dataclass(frozen=True, slots=True)
class Annealing:
    """A tree's first `sweeps` sweeps sample from P^(1/T), T falling in even steps from `start` to 1; then T = 1.

    `thinning` is that of `Schedule`.
    """

    sweeps: int = 100
    start: float = 5.0
    thinning: int = 10

    @property
    def burn_in(self) -> int:
        """Sweeps after which a tree has been annealed."""
        return self.sweeps

    def temperatures(self, sweeps: NDArray[np.int64]) -> NDArray[np.float64]:
        """The temperature of each tree's sweep, numbered from 1, float64."""
        part = (np.asarray(sweeps, np.float64) - 1.0) / max(self.sweeps - 1, 1)
        return np.asarray(self.start + (1.0 - self.start) * np.clip(part, 0.0, 1.0))

    def reached(self, sweeps: NDArray[np.int64]) -> NDArray[np.int64]:
        """1 for trees that are being annealed, 2 for others."""
        return np.where(np.asarray(sweeps) <= self.sweeps, 1, 2).astype(np.int64)

    def samples(self, sweeps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the tree after each sweep is kept as a sample: only at T = 1."""
        return np.asarray((np.asarray(sweeps) % self.thinning == 0) & (self.temperatures(sweeps) == 1.0))
