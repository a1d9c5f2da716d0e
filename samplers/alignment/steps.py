"""What a model does: the steps that the sampler calls, whatever the model."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction, Sides
from hierogram.samplers.alignment.chain import Chain, Scratch
from hierogram.samplers.alignment.marginals import DirectionLinks, Marginals
from hierogram.samplers.alignment.options import AlignerOptions, SweepPlan

SweepsInARow = Callable[
    [int, int, Sides, Chain, np.uint64, NDArray[np.int64], Scratch, Marginals],
    tuple[int, int],
]
"""See `Steps`."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A model's steps.

    `start(direction, options, seed)`: a chain's first links, int16[N]. `prepare(chain, direction)`: the chain with the
    arrays that only this model has. `count(first, sides, chain, scratch)` adds the links of the pairs from `first` on
    to the counts, `sweep(first, sides, chain, key, plan, scratch, marginals)` draws them anew; both return the pair at
    which the table of word pairs lacks room, or the number of pairs. `finish(chain, key, plan)`: what is drawn after a
    sweep. `decode(sides, marginals)`: the links that samples make likeliest.

    `sweeps(number, first, sides, chain, key, plans, scratch, marginals)`, where a model has it, does the sweeps of
    plans int64[sweeps, 3], rows of `SweepPlan`, from row `number` and pair `first` on, without a return to Python
    between them; it returns the row and the pair at which the table lacks room, or the number of rows and 0.
    """

    start: Callable[[Direction, AlignerOptions, np.uint64], NDArray[np.int16]]
    count: Callable[[int, Sides, Chain, Scratch], int]
    sweep: Callable[[int, Sides, Chain, np.uint64, SweepPlan, Scratch, Marginals], int]
    decode: Callable[[Sides, Marginals], DirectionLinks]
    prepare: Callable[[Chain, Direction], Chain] = lambda chain, direction: chain
    finish: Callable[[Chain, np.uint64, SweepPlan], None] = lambda chain, key, plan: None
    sweeps: SweepsInARow | None = None
