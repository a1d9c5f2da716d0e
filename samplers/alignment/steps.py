"""A model of one direction as the sampler calls it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction, Sides
from hierogram.samplers.alignment.chain import AlignmentScratch, Chain
from hierogram.samplers.alignment.marginals import DirectionLinks, Marginals
from hierogram.samplers.alignment.options import AlignerOptions, AlignmentPlan


class Runs(NamedTuple):
    """Chains that run one after another: `keys` uint64[C], their first `links` int16[C, N], and the sweeps of each,
    `plans` int64[sweeps, 3], rows of `AlignmentPlan`."""

    keys: NDArray[np.uint64]
    links: NDArray[np.int16]
    plans: NDArray[np.int64]


ChainsInARow = Callable[[int, Sides, Runs, Chain, Chain, AlignmentScratch, Marginals, Marginals], int]
"""See `Steps`."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A model's steps.

    `start(direction, options, seed)`: a chain's first links, int16[N]. `prepare(chain, direction)`: the chain with the
    arrays that only this model has. `count(first, sides, chain, scratch)` adds the links of the pairs from `first` on
    to the counts, `sweep(first, sides, chain, key, plan, scratch, marginals)` draws them anew; both return the pair at
    which the table of word pairs lacks room, or the number of pairs. `move(first, sides, chain, key, plan)`, where a
    model has it, moves the links of each emitted word from `first` on together after a sweep, and returns the word at
    which the table lacks room, or the number of words. `warm_up(chain, options, sweep)`, where a model has it, sets the
    strengths of the priors for a sweep, in place. `finish(chain, key, plan)`: what is drawn last. `decode(sides,
    marginals)`: the links that samples make likeliest.

    `chains(number, sides, runs, blank, chain, scratch, own, total)`, where a model has it, does all sweeps of the
    chains from `number` on, without a return to Python between them. Each chain begins as `blank`, which has no links
    yet; `chain` and `own` are memory for one chain and its marginals, whose samples are added to `total`. It returns
    the chain for which the table lacks room, which has to run anew, or the number of chains.
    """

    start: Callable[[Direction, AlignerOptions, np.uint64], NDArray[np.int16]]
    count: Callable[[int, Sides, Chain, AlignmentScratch], int]
    sweep: Callable[[int, Sides, Chain, np.uint64, AlignmentPlan, AlignmentScratch, Marginals], int]
    decode: Callable[[Sides, Marginals], DirectionLinks]
    move: Callable[[int, Sides, Chain, np.uint64, AlignmentPlan], int] | None = None
    warm_up: Callable[[Chain, AlignerOptions, int], None] = lambda chain, options, sweep: None
    prepare: Callable[[Chain, Direction], Chain] = lambda chain, direction: chain
    finish: Callable[[Chain, np.uint64, AlignmentPlan], None] = lambda chain, key, plan: None
    chains: ChainsInARow | None = None
