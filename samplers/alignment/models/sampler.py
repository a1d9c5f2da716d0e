"""Bayesian HMM aligners [SA16] and variants, one direction at a time.

Random streams are keyed by chain seed, pair or word, and sweep, so links do not depend on the assignment of work to
threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction, Sides
from hierogram.samplers.alignment.chain import (
    FOLLOWERS,
    MAX_FERTILITY,
    NO_EVIDENCE,
    NO_TOKENS,
    SETTINGS,
    SINGLE_WIDTHS,
    AlignmentChain,
    AlignmentScratch,
    LinkEvidence,
    furthest_event,
    make_scratch,
)
from hierogram.samplers.alignment.counts import CONDITIONING, WordPairs, empty_pairs, larger_pairs, smaller_pairs
from hierogram.samplers.alignment.marginals import DirectionLinks, Marginals, empty_marginals
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, find_model
from hierogram.samplers.alignment.options import AlignerOptions, AlignmentPlan
from hierogram.samplers.alignment.orthography import favor_similar
from hierogram.samplers.alignment.prior_counts import MAX_EVENT, PriorCounts, enter_pairs
from hierogram.samplers.exceptions import AlignmentInputError

_FERTILITY_PRIOR = np.array([0.3, 0.5, 0.12, 0.04, 0.015, 0.012, 0.008, 0.005])
_SEED_STEP = 0xD1342543DE82EF95
_MASK_64 = (1 << 64) - 1


class Runs(NamedTuple):
    """Chains to run: `keys` uint64[C], initial `links` int16[C, N], and sweep `plans` int64[sweeps, 3]."""

    keys: NDArray[np.uint64]
    links: NDArray[np.int16]
    plans: NDArray[np.int64]


RunChains = Callable[[int, Sides, Runs, AlignmentChain, AlignmentChain, AlignmentScratch, Marginals, Marginals], int]


@dataclass(frozen=True, slots=True)
class Steps:
    """Functions that define a model.

    - `start` returns the initial links of a chain, int16[N].
    - `prepare` adds arrays to a chain that only this model uses.
    - `count` counts the links of pair `first` and all later pairs. `sweep` resamples them. After a sampled sweep of
      all pairs, the caller increments `marginals.samples`. Both return the number of pairs, or the pair at which they
      stopped because the table of word pairs is too full.
    - `move` proposes joint moves of the links of each repeated emitted word from `first` on, after a sweep. It returns
      the word for which the table is too full, otherwise the number of words.
    - `warm_up` sets the strengths of the priors for a sweep, in place.
    - `finish` draws the remaining variables after a sweep.
    - `decode` returns the most probable links.
    - `run_chains` runs all sweeps of chain `first` and all later chains in compiled code. Each chain starts as a copy
      of `blank`, in which no links are counted. `chain` and `own` are memory for one chain and its marginals, which are
      added to `total`. It returns the number of chains, or the chain that must run again with a larger table.
    """

    start: Callable[[Direction, AlignerOptions, np.uint64], NDArray[np.int16]]
    count: Callable[[int, Sides, AlignmentChain, AlignmentScratch], int]
    sweep: Callable[[int, Sides, AlignmentChain, np.uint64, AlignmentPlan, AlignmentScratch, Marginals], int]
    decode: Callable[[Sides, Marginals], DirectionLinks]
    move: Callable[[int, Sides, AlignmentChain, np.uint64, AlignmentPlan, AlignmentScratch], int] | None = None
    warm_up: Callable[[AlignmentChain, AlignerOptions, int], None] = lambda chain, options, sweep: None
    prepare: Callable[[AlignmentChain, Direction], AlignmentChain] = lambda chain, direction: chain
    finish: Callable[[AlignmentChain, np.uint64, AlignmentPlan], None] = lambda chain, key, plan: None
    run_chains: RunChains | None = None


class AlignmentState(NamedTuple):
    """A chain and its accumulated samples."""

    chain: AlignmentChain
    marginals: Marginals


def chain_seed(seed: int, direction: int, chain: int) -> int:
    """Return the seed of one chain's random streams."""
    return (seed * 4 + direction + (chain + 1) * _SEED_STEP) & _MASK_64


class AlignmentKernel:
    """Sampler of one direction under a model. Not thread-safe.

    `prior` has counts of other pairs. `evidence` has constraints on links. Raises `AlignmentInputError` for an unknown
    model, or for an argument that the model does not support.
    """

    def __init__(
        self,
        options: AlignerOptions,
        direction: Direction,
        prior: PriorCounts | None = None,
        evidence: LinkEvidence | None = None,
    ) -> None:
        model = find_model(options.model)
        self._evidence = NO_EVIDENCE if evidence is None else evidence
        if not model.prior_counts and (prior is not None or len(self._evidence.kind)):
            argument = "known links" if prior is None else "prior counts of other pairs"
            raise AlignmentInputError(f"{argument} require the model {DEFAULT_MODEL}, got {options.model}")
        self.options = options
        self.direction = direction
        self._prior = prior
        self._steps: Steps = model.load()
        self._scratch = make_scratch(direction.sides)

    def init(
        self, key: int, links: NDArray[np.int16] | None = None, marginals: Marginals | None = None
    ) -> AlignmentState:
        """Return the initial state, with `links` int16[N] if given. `marginals` receive the samples."""
        initial = self._steps.start(self.direction, self.options, np.uint64(key)) if links is None else links.copy()
        chain = self.count_links(self.empty_chain(initial))
        return AlignmentState(chain, marginals or empty_marginals(self.direction.sides))

    def count_links(self, chain: AlignmentChain) -> AlignmentChain:
        """Count the links of an `empty_chain`, which is consumed."""
        sides = self.direction.sides
        return self._repeat_until(
            sides.pairs, chain, lambda first, now: self._steps.count(first, sides, now, self._scratch)
        )

    def step(self, key: int, state: AlignmentState, plan: AlignmentPlan) -> tuple[AlignmentState, int]:
        """Sweep over all pairs in place, and add samples if `plan.sampled`. Returns (state, sample count)."""
        sides, seed, scratch = self.direction.sides, np.uint64(key), self._scratch
        self._steps.warm_up(state.chain, self.options, plan.sweep)

        def resample(first: int, now: AlignmentChain) -> int:
            return int(self._steps.sweep(first, sides, now, seed, plan, scratch, state.marginals))

        chain = self._repeat_until(sides.pairs, state.chain, resample)
        move = self._steps.move
        if move is not None:
            words = len(self.direction.emitted.vocabulary)
            chain = self._repeat_until(words, chain, lambda first, now: move(first, sides, now, seed, plan, scratch))
        self._steps.finish(chain, seed, plan)
        # Shrink the table, since random initial links have many more word pairs than later links.
        chain = chain._replace(pairs=smaller_pairs(chain.pairs))
        state.marginals.samples[0] += plan.sampled
        return AlignmentState(chain, state.marginals), int(state.marginals.samples[0])

    def run(self, keys: Sequence[int]) -> Marginals:
        """Run one chain per key by `Steps.run_chains`. Returns the marginals of all chains together."""
        run_chains, sides, options = self._steps.run_chains, self.direction.sides, self.options
        assert run_chains is not None
        links = np.array([self._steps.start(self.direction, options, np.uint64(key)) for key in keys])
        runs, marginals = Runs(np.array(keys, np.uint64), links, _plans(options)), empty_marginals(sides)
        blank, total, number = self.empty_chain(links[0]), empty_marginals(sides), 0
        while (
            number := run_chains(number, sides, runs, blank, _copy_chain(blank), self._scratch, marginals, total)
        ) < len(keys):
            blank = blank._replace(pairs=larger_pairs(blank.pairs, sides.longest_emitted))
        return total

    def _repeat_until(
        self, end: int, chain: AlignmentChain, resample: Callable[[int, AlignmentChain], int]
    ) -> AlignmentChain:
        position = 0
        while (position := resample(position, chain)) < end:
            chain = chain._replace(pairs=larger_pairs(chain.pairs, self.direction.sides.longest_emitted))
        return chain

    def empty_chain(self, links: NDArray[np.int16]) -> AlignmentChain:
        """Return a chain with these links, neither copied nor counted. Its counts are prior counts, or 0."""
        sides, emitted, conditioning_side = self.direction
        options, prior = self.options, self._prior
        emitted_words = len(emitted.vocabulary) if prior is None else prior.emitted_words
        strengths = options.lexical, options.jump, options.collocation, options.fertility
        settings = np.array([(*strengths, options.unlinked, 1.0, 1.0, emitted_words)], SETTINGS)
        conditioning = np.zeros(len(conditioning_side.vocabulary) + 1, CONDITIONING)
        conditioning["prior"] = options.lexical * emitted_words
        similarity = options.similarity
        pairs = favor_similar(self.direction, similarity, conditioning) if similarity > 0 else empty_pairs()
        furthest = furthest_event(sides.longest_conditioning)
        if prior is not None:
            furthest = max(furthest, SINGLE_WIDTHS)
            pairs = larger_pairs(pairs, len(prior.counts))
            enter_pairs(prior.conditioning, prior.emitted, prior.counts, pairs)
            conditioning["links"] += prior.link_counts
        chain = AlignmentChain(
            links,
            np.zeros(0, np.uint8),
            pairs,
            conditioning,
            np.zeros(2 * furthest + 4),
            np.zeros((len(conditioning_side.vocabulary), MAX_FERTILITY + 1), np.int32),
            np.zeros(0, np.int32),
            np.zeros(0, np.int32),
            np.zeros(len(emitted.vocabulary) + 1, FOLLOWERS),
            settings,
            _FERTILITY_PRIOR,
            self._evidence,
            NO_TOKENS,
        )
        if prior is not None:
            # Count jumps that are too wide for these sentences in the total only, since they have no event here.
            chain.jumps[: 2 * furthest + 1] += prior.jumps[MAX_EVENT - furthest : MAX_EVENT + furthest + 1]
            chain.jumps[-1] += prior.jumps.sum()
            chain.fertility[:] += prior.fertility
        return self._steps.prepare(chain, self.direction)


@lru_cache
def _plans(options: AlignerOptions) -> NDArray[np.int64]:
    return np.array([options.plan(sweep) for sweep in range(1, options.sweeps + 1)], np.int64)


def _copy_chain(blank: AlignmentChain) -> AlignmentChain:
    """Return a chain like `blank`, with its own uninitialized memory for data that sweeps change."""
    rows, registers, filter_bytes = blank.pairs
    pairs = WordPairs(np.empty_like(rows), registers.copy(), np.empty_like(filter_bytes))
    changed = {name: np.empty_like(getattr(blank, name)) for name in ("links", "conditioning", "jumps", "fertility")}
    return blank._replace(pairs=pairs, **changed)


def run_chain(
    kernel: AlignmentKernel,
    key: int,
    links: NDArray[np.int16] | None = None,
    report: Callable[[], None] | None = None,
    marginals: Marginals | None = None,
) -> Marginals:
    """Run one chain, from `links` if given. Returns `marginals` or new marginals with its samples."""
    state = kernel.init(key, links, marginals)
    for sweep in range(1, kernel.options.sweeps + 1):
        state, _ = kernel.step(key, state, kernel.options.plan(sweep))
        if report is not None:
            report()
    return state.marginals


def decode(direction: Direction, model: str, marginals: Marginals) -> DirectionLinks:
    """Return the most probable links of a direction from samples of a model [SA16 §4.5]."""
    steps: Steps = find_model(model).load()
    return steps.decode(direction.sides, marginals)
