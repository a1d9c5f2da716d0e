"""Bayesian HMM aligners of Schulz & Aziz (2016) and variants, one direction at a time.

Random streams are keyed by (chain seed, pair, sweep), so links do not depend on the assignment of work to threads.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction
from hierogram.samplers.alignment.chain import (
    BEFORE,
    MAX_FERTILITY,
    SETTINGS,
    SINGLE_WIDTHS,
    AlignmentChain,
    LinkEvidence,
    furthest_event,
    make_scratch,
    no_evidence,
    no_tokens,
)
from hierogram.samplers.alignment.counts import CONDITIONING, WordPairs, empty_pairs, larger_pairs, smaller_pairs
from hierogram.samplers.alignment.marginals import DirectionLinks, Marginals, add_marginals, empty_marginals
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, MODELS, find_model
from hierogram.samplers.alignment.options import ALL_POSITIONS, AlignerOptions, AlignmentPlan
from hierogram.samplers.alignment.orthography import favor_similar
from hierogram.samplers.alignment.prior_counts import MAX_EVENTS, PriorCounts, enter_pairs
from hierogram.samplers.alignment.steps import Runs
from hierogram.samplers.exceptions import AlignmentInputError

_FERTILITY_PRIOR = np.array([0.3, 0.5, 0.12, 0.04, 0.015, 0.012, 0.008, 0.005])
_SEED_STEP = 0xD1342543DE82EF95
_WORD = (1 << 64) - 1


class AlignmentState(NamedTuple):
    """A chain and its accumulated samples."""

    chain: AlignmentChain
    marginals: Marginals


class AlignmentInfo(NamedTuple):
    """Number of accumulated samples after a step."""

    samples: int


def chain_seed(seed: int, direction: int, chain: int) -> int:
    """Return the seed of one chain's random streams."""
    return (seed * 4 + direction + (chain + 1) * _SEED_STEP) & _WORD


class AlignmentKernel:
    """Sampler of one direction under a model; not thread-safe."""

    def __init__(
        self,
        options: AlignerOptions,
        direction: Direction,
        prior: PriorCounts | None,
        evidence: LinkEvidence | None = None,
    ) -> None:
        model = find_model(options.model)
        if prior is not None and not model.prior_counts:
            able = ", ".join(other.name for other in MODELS.values() if other.prior_counts)
            raise AlignmentInputError(f"prior counts of other pairs are supported by {able} only, got {options.model}")
        self._evidence = no_evidence() if evidence is None else evidence
        if len(self._evidence.meaning) and not (model.prior_counts and options.candidates == ALL_POSITIONS):
            raise AlignmentInputError(f"known links are supported by {DEFAULT_MODEL} with all candidate positions only")
        self.options = options
        self.direction = direction
        self._prior = prior
        self._steps = model.steps()
        self._scratch = make_scratch(direction.sides)

    def init(
        self, key: int, links: NDArray[np.int16] | None = None, marginals: Marginals | None = None
    ) -> AlignmentState:
        """Return the state before the first sweep, with `links` int16[N] or the model's own initial links.

        Samples are added to `marginals` of earlier chains if given.
        """
        chain = self.chain_of(
            self._steps.start(self.direction, self.options, np.uint64(key)) if links is None else links.copy()
        )
        return AlignmentState(chain, marginals or empty_marginals(self.direction.sides))

    def chain_of(self, links: NDArray[np.int16], collocated: NDArray[np.uint8] | None = None) -> AlignmentChain:
        """Return the chain of these links and collocations uint8[N] (or none), with their counts. Copies neither."""
        chain = self._empty_chain(links, collocated)
        sides = self.direction.sides
        return self._over_all_pairs(chain, lambda first, now: self._steps.count(first, sides, now, self._scratch))

    def step(self, key: int, state: AlignmentState, plan: AlignmentPlan) -> tuple[AlignmentState, AlignmentInfo]:
        """Sweep over all pairs; a sampled sweep adds the links' distributions to the marginals.

        Changes the state's arrays in place, except a table of counts that is resized.
        """
        sides, seed = self.direction.sides, np.uint64(key)
        self._steps.warm_up(state.chain, self.options, plan.sweep)

        def resample(first: int, now: AlignmentChain) -> int:
            return int(self._steps.sweep(first, sides, now, seed, plan, self._scratch, state.marginals))

        chain = self._over_all_pairs(state.chain, resample)
        move = self._steps.move
        if move is not None:
            words = len(self.direction.emitted.vocabulary)
            chain = self._over_all(words, chain, lambda first, now: move(first, sides, now, seed, plan))
        self._steps.finish(chain, seed, plan)
        # Random initial links have many more word pairs than later links.
        chain = chain._replace(pairs=smaller_pairs(chain.pairs))
        state.marginals.samples[0] += plan.sampled
        return AlignmentState(chain, state.marginals), AlignmentInfo(int(state.marginals.samples[0]))

    def run(self, keys: Sequence[int]) -> Marginals:
        """Run all sweeps of the chains with these keys from the model's initial links; returns the sum of samples."""
        total = empty_marginals(self.direction.sides)
        chains = self._steps.chains
        if chains is None:
            for key in keys:
                add_marginals(self.direction.sides, total, run_chain(self, key))
            return total
        sides, options = self.direction.sides, self.options
        links = np.array([self._steps.start(self.direction, options, np.uint64(key)) for key in keys])
        runs, marginals = Runs(np.array(keys, np.uint64), links, _plans(options)), empty_marginals(sides)
        blank, number = self._empty_chain(links[0]), 0
        while True:
            chain = _copy_chain(blank)
            number = chains(number, sides, runs, blank, chain, self._scratch, marginals, total)
            if number == len(keys):
                return total
            blank = self._with_room(blank)

    def _with_room(self, chain: AlignmentChain) -> AlignmentChain:
        return chain._replace(pairs=larger_pairs(chain.pairs, self.direction.sides.longest_emitted))

    def _over_all_pairs(self, chain: AlignmentChain, resample: Callable[[int, AlignmentChain], int]) -> AlignmentChain:
        """Process all pairs; if the counts lack room, enlarge them and continue at that pair."""
        return self._over_all(self.direction.sides.pairs, chain, resample)

    def _over_all(
        self, end: int, chain: AlignmentChain, resample: Callable[[int, AlignmentChain], int]
    ) -> AlignmentChain:
        position = 0
        while True:
            position = resample(position, chain)
            if position == end:
                return chain
            chain = self._with_room(chain)

    def _empty_chain(self, links: NDArray[np.int16], collocated: NDArray[np.uint8] | None = None) -> AlignmentChain:
        """Return a chain with the counts of other pairs only."""
        sides, emitted, conditioning_side = self.direction
        options, prior = self.options, self._prior
        emitted_words = len(emitted.vocabulary) if prior is None else prior.emitted_words
        settings = _settings(options)
        settings["emitted_words"] = emitted_words
        conditioning = np.zeros(len(conditioning_side.vocabulary) + 1, CONDITIONING)
        conditioning["prior"] = options.lexical * emitted_words
        pairs = empty_pairs()
        if options.similarity > 0:
            pairs = favor_similar(self.direction, options.similarity, pairs, conditioning)
        furthest = furthest_event(sides.longest_conditioning)
        if prior is not None:
            furthest = max(furthest, SINGLE_WIDTHS)
            pairs = larger_pairs(pairs, len(prior.counts))
            enter_pairs(prior.conditioning, prior.emitted, prior.counts, pairs)
            conditioning["links"] += prior.links
        chain = AlignmentChain(
            links,
            np.zeros(0, np.uint8) if collocated is None else collocated,
            pairs,
            conditioning,
            np.zeros(2 * furthest + 4),
            np.zeros((len(conditioning_side.vocabulary), MAX_FERTILITY + 1), np.int32),
            np.zeros(0, np.int32),
            np.zeros(0, np.int32),
            np.zeros(len(emitted.vocabulary) + 1, BEFORE),
            settings,
            _FERTILITY_PRIOR,
            self._evidence,
            no_tokens(),
        )
        if prior is not None:
            # Wider jumps than any sentence here allows are part of the total alone.
            chain.jumps[: 2 * furthest + 1] += prior.jumps[MAX_EVENTS - furthest : MAX_EVENTS + furthest + 1]
            chain.jumps[-1] += prior.jumps.sum()
            chain.fertility[:] += prior.fertility
        return self._steps.prepare(chain, self.direction)


@lru_cache
def _plans(options: AlignerOptions) -> NDArray[np.int64]:
    return np.array([options.plan(sweep) for sweep in range(1, options.sweeps + 1)], np.int64)


def _settings(options: AlignerOptions) -> NDArray[np.void]:
    """Return the hyperparameters SETTINGS[1], without the number of emitted words."""
    o = options
    values = (o.lexical, o.jump, o.collocation, o.fertility, o.unlinked, 1.0, 1.0, 0.0, o.candidates)
    return np.array([values], SETTINGS)


def _copy_chain(blank: AlignmentChain) -> AlignmentChain:
    """Return a chain of the size of `blank`, with its own memory for all data that sweeps modify."""
    return blank._replace(
        links=np.empty_like(blank.links),
        pairs=WordPairs(
            np.empty_like(blank.pairs.rows), blank.pairs.registers.copy(), np.empty_like(blank.pairs.signs)
        ),
        conditioning=np.empty_like(blank.conditioning),
        jumps=np.empty_like(blank.jumps),
        fertility=np.empty_like(blank.fertility),
    )


def build(
    options: AlignerOptions,
    direction: Direction,
    prior: PriorCounts | None = None,
    evidence: LinkEvidence | None = None,
) -> AlignmentKernel:
    """Return the kernel of one direction, given counts of other pairs and link constraints.

    Raises `AlignmentInputError` for an unknown model, or one without support for counts of other pairs.
    """
    return AlignmentKernel(options, direction, prior, evidence)


def run_chain(
    kernel: AlignmentKernel,
    key: int,
    links: NDArray[np.int16] | None = None,
    report: Callable[[], None] | None = None,
    marginals: Marginals | None = None,
) -> Marginals:
    """Run all sweeps of one chain, from `links` if given; `report` is called after each sweep.

    Samples are added to `marginals` of earlier chains if given.
    """
    state = kernel.init(key, links, marginals)
    for sweep in range(1, kernel.options.sweeps + 1):
        state, _ = kernel.step(key, state, kernel.options.plan(sweep))
        if report is not None:
            report()
    return state.marginals


def decode(direction: Direction, model: str, marginals: Marginals) -> DirectionLinks:
    """Return the most probable links under a model's samples [SA16 §4.5]."""
    return find_model(model).steps().decode(direction.sides, marginals)
