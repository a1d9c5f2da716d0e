"""Interface between a model of one direction and the sampler."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction, Sides
from hierogram.samplers.alignment.chain import AlignmentChain, AlignmentScratch
from hierogram.samplers.alignment.marginals import DirectionLinks, Marginals
from hierogram.samplers.alignment.options import AlignerOptions, AlignmentPlan


class Runs(NamedTuple):
    """Chains to run: `keys` uint64[C], initial `links` int16[C, N], `plans` int64[sweeps, 3] like `AlignmentPlan`."""

    keys: NDArray[np.uint64]
    links: NDArray[np.int16]
    plans: NDArray[np.int64]


ChainsInARow = Callable[[int, Sides, Runs, AlignmentChain, AlignmentChain, AlignmentScratch, Marginals, Marginals], int]
"""Signature of `Steps.chains`."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Functions of a model.

    Attributes
    ----------
    start
        `(direction, options, seed)`: initial links of a chain, int16[N].
    prepare
        `(chain, direction)`: the chain with arrays that only this model uses.
    count
        `(first, sides, chain, scratch)`: adds the links of the pairs from `first` to the counts.
    sweep
        `(first, sides, chain, key, plan, scratch, marginals)`: resamples them. Both return the pair where the table
        of word pairs lacks room, or the number of pairs.
    move
        `(first, sides, chain, key, plan)`, optional: moves the links of each emitted word from `first` jointly after a
        sweep; returns the word where the table lacks room, or the number of words.
    warm_up
        `(chain, options, sweep)`, optional: sets the strengths of the priors for a sweep, in place.
    finish
        `(chain, key, plan)`: draws the remaining variables.
    decode
        `(sides, marginals)`: the most probable links.
    chains
        `(number, sides, runs, blank, chain, scratch, own, total)`, optional: runs all sweeps of the chains from
        `number` in compiled code. Each chain starts as `blank`, which has no links; `chain` and `own` are memory for
        one chain and its marginals, which are added to `total`. Returns the chain that lacked room and must run again,
        or the number of chains.
    """

    start: Callable[[Direction, AlignerOptions, np.uint64], NDArray[np.int16]]
    count: Callable[[int, Sides, AlignmentChain, AlignmentScratch], int]
    sweep: Callable[[int, Sides, AlignmentChain, np.uint64, AlignmentPlan, AlignmentScratch, Marginals], int]
    decode: Callable[[Sides, Marginals], DirectionLinks]
    move: Callable[[int, Sides, AlignmentChain, np.uint64, AlignmentPlan], int] | None = None
    warm_up: Callable[[AlignmentChain, AlignerOptions, int], None] = lambda chain, options, sweep: None
    prepare: Callable[[AlignmentChain, Direction], AlignmentChain] = lambda chain, direction: chain
    finish: Callable[[AlignmentChain, np.uint64, AlignmentPlan], None] = lambda chain, key, plan: None
    chains: ChainsInARow | None = None
