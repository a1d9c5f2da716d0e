"""What a model does: the steps that the sampler calls, whatever the model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction, Sides
from hierogram.samplers.alignment.chain import Chain, Scratch
from hierogram.samplers.alignment.marginals import DirectionLinks, Marginals
from hierogram.samplers.alignment.options import AlignerOptions


class Turn(NamedTuple):
    """One sweep of a chain: the chain's `seed`, the sweep's number from 1, its stage of warming up, 1 to 3 (3: none),
    and whether it is sampled.
    """

    seed: np.uint64
    sweep: int
    stage: int
    sampled: bool


@dataclass(frozen=True, slots=True)
class Steps:
    """A model's steps.

    `start(direction, options, seed)`: a chain's first links, int16[N]. `prepare(chain, direction)`: the chain with the
    arrays that only this model has. `count(first, sides, chain, scratch)` adds the links of the pairs from `first` on
    to the counts, `sweep(first, sides, chain, turn, scratch, marginals)` draws them anew; both return the pair at which
    the table of word pairs lacks room, or the number of pairs. `finish(chain, turn)`: what is drawn after a sweep.
    `decode(sides, marginals)`: the links that samples make likeliest.
    """

    start: Callable[[Direction, AlignerOptions, np.uint64], NDArray[np.int16]]
    count: Callable[[int, Sides, Chain, Scratch], int]
    sweep: Callable[[int, Sides, Chain, Turn, Scratch, Marginals], int]
    decode: Callable[[Sides, Marginals], DirectionLinks]
    prepare: Callable[[Chain, Direction], Chain] = lambda chain, direction: chain
    finish: Callable[[Chain, Turn], None] = lambda chain, turn: None
