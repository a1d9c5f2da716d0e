"""What sampling changes of pairs in memory, of whatever kind."""

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray


class State(Protocol):
    """The present derivations of pairs in memory, in the form that their kind samples."""

    def copy(self) -> Self:
        """The same derivations, kept apart."""


class Averages(Protocol):
    """What pairs in memory expect to use, averaged over sweeps, in the form that their kind adds to."""

    @property
    def sweeps(self) -> NDArray[np.int64]:
        """Sweeps that each pair has averaged over, int64[P]."""
