"""The stratified schedule [CFGŠ14 §5.3]: which levels a sweep may change."""

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
    def settling(self) -> int:
        """Sweeps after which a pair has been through every stage."""
        return self.sweeps_per_level * self.levels

    def stages(self, sweeps: NDArray[np.int64]) -> NDArray[np.int16]:
        """Highest level that each pair's sweep (numbered from 1) may change, int16."""
        if self.sweeps_per_level < 1:
            return np.full(len(sweeps), EVERY_LEVEL, np.int16)
        stage = (np.asarray(sweeps) - 1) // self.sweeps_per_level + 1
        return np.where(stage > self.levels, EVERY_LEVEL, stage).astype(np.int16)
