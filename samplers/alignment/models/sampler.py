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

from hierogram.samplers.alignment.bitext import DirectedBitext, Direction
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
from hierogram.samplers.alignment.counts import TOTALS, WordPairs, empty_pairs, larger_pairs, smaller_pairs
from hierogram.samplers.alignment.marginals import DirectionLinks, Marginals, empty_marginals
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, find_model
from hierogram.samplers.alignment.options import AlignerOptions, AlignmentPlan
from hierogram.samplers.alignment.orthography import make_similarity_prior
from hierogram.samplers.alignment.prior_counts import MAX_EVENT, PriorCounts, add_pair_counts
from hierogram.samplers.exceptions import AlignmentInputError

_FERTILITY_PRIOR = np.array([0.3, 0.5, 0.12, 0.04, 0.015, 0.012, 0.008, 0.005])
"""Prior probability of 0 to `MAX_FERTILITY` links of a token."""
_SEED_STEP = 0xD1342543DE82EF95
_MASK_64 = (1 << 64) - 1


class Runs(NamedTuple):
    """Chains to run: `keys` uint64[C], initial `links` int16[C, N], and `AlignmentPlan`s int64[sweeps, 3]."""

    keys: NDArray[np.uint64]
    links: NDArray[np.int16]
    plans: NDArray[np.int64]


RunChains = Callable[
    [int, DirectedBitext, Runs, AlignmentChain, AlignmentChain, AlignmentScratch, Marginals, Marginals], int
]


@dataclass(frozen=True, slots=True)
class ModelFunctions:
    """Functions that define a model of one direction.

    - `initial_links` returns the links of a chain before its first sweep, int16[N].
    - `add_arrays` adds the arrays to an empty chain that only this model uses.
    - `count_links` counts the links of pair `first` and all later pairs.
    - `set_strengths` sets the strengths of the priors before a sweep, in place.
    - `sweep` resamples the links of pair `first` and all later pairs, and adds their posteriors to `marginals` if
      `plan.sampled`. After the last pair, the caller increments `marginals.samples`.
    - `joint_moves`, if any, proposes joint moves of the links of emitted word `first` and all later words, after a
      sweep.
    - `sample_parameters` draws the variables other than links, at the end of a sweep.
    - `decode` returns the most probable links.

    `count_links`, `sweep` and `joint_moves` return the number of pairs or words, or the pair or word at which they
    stopped because the table of word pairs is too full. The caller enlarges the table and continues there.

    - `run_chains` runs all sweeps of chain `first` and all later chains in compiled code. Each chain starts as a copy
      of `blank`, in which no links are counted. `chain` and `marginals` are memory for one chain and its marginals,
      which are added to `total`. It returns the number of chains, or the chain that must run again with a larger table.
    """

    initial_links: Callable[[Direction, AlignerOptions, np.uint64], NDArray[np.int16]]
    count_links: Callable[[int, DirectedBitext, AlignmentChain, AlignmentScratch], int]
    sweep: Callable[[int, DirectedBitext, AlignmentChain, np.uint64, AlignmentPlan, AlignmentScratch, Marginals], int]
    decode: Callable[[DirectedBitext, Marginals], DirectionLinks]
    joint_moves: (
        Callable[[int, DirectedBitext, AlignmentChain, np.uint64, AlignmentPlan, AlignmentScratch], int] | None
    ) = None
    set_strengths: Callable[[AlignmentChain, AlignerOptions, int], None] = lambda chain, options, sweep: None
    add_arrays: Callable[[AlignmentChain, Direction], AlignmentChain] = lambda chain, direction: chain
    sample_parameters: Callable[[AlignmentChain, np.uint64, AlignmentPlan], None] = lambda chain, key, plan: None
    run_chains: RunChains | None = None


class AlignmentState(NamedTuple):
    """A chain and its accumulated samples."""

    chain: AlignmentChain
    marginals: Marginals


def chain_seed(seed: int, direction: int, chain: int) -> int:
    """Return the key of a chain, numbered from 0. `direction`: 0 forward, 1 backward. Keys are 64 bits."""
    return (seed * 4 + direction + (chain + 1) * _SEED_STEP) & _MASK_64


class AlignmentKernel:
    """Sampler of one direction under a model, with the interface of `samplers.kernel`. Not thread-safe.

    `prior` has the link counts of other pairs, `evidence` constraints on links. Raises `AlignmentInputError` for an
    unknown model, or if the model does not support prior counts or constraints.
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
        if not model.uses_prior_counts and (prior is not None or len(self._evidence.kind)):
            argument = "known links" if prior is None else "prior counts of other pairs"
            raise AlignmentInputError(f"{argument} require the model {DEFAULT_MODEL}, got {options.model}")
        self.options = options
        self.direction = direction
        self._prior = prior
        self._functions: ModelFunctions = model.load()
        self._scratch = make_scratch(direction.bitext)

    def init(
        self, key: int, links: NDArray[np.int16] | None = None, marginals: Marginals | None = None
    ) -> AlignmentState:
        """Return the initial state, from `links` int16[N] if given. Samples are added to `marginals`."""
        initial = (
            self._functions.initial_links(self.direction, self.options, np.uint64(key))
            if links is None
            else links.copy()
        )
        chain = self.count_links(self.empty_chain(initial))
        return AlignmentState(chain, marginals or empty_marginals(self.direction.bitext))

    def count_links(self, chain: AlignmentChain) -> AlignmentChain:
        """Return an `empty_chain` with its links counted. Changes its arrays in place."""
        bitext = self.direction.bitext
        return self._run_until(
            bitext.pairs, chain, lambda first, now: self._functions.count_links(first, bitext, now, self._scratch)
        )

    def step(self, key: int, state: AlignmentState, plan: AlignmentPlan) -> tuple[AlignmentState, int]:
        """Sweep over all pairs in place. Returns the state and the number of samples in its marginals."""
        bitext, seed, scratch = self.direction.bitext, np.uint64(key), self._scratch
        self._functions.set_strengths(state.chain, self.options, plan.sweep)

        def resample(first: int, now: AlignmentChain) -> int:
            return int(self._functions.sweep(first, bitext, now, seed, plan, scratch, state.marginals))

        chain = self._run_until(bitext.pairs, state.chain, resample)
        joint_moves = self._functions.joint_moves
        if joint_moves is not None:
            words = len(self.direction.emitted.vocabulary)
            chain = self._run_until(
                words, chain, lambda first, now: joint_moves(first, bitext, now, seed, plan, scratch)
            )
        self._functions.sample_parameters(chain, seed, plan)
        # Shrink the table, since random initial links have many more word pairs than later links.
        chain = chain._replace(pairs=smaller_pairs(chain.pairs))
        state.marginals.samples[0] += plan.sampled
        return AlignmentState(chain, state.marginals), int(state.marginals.samples[0])

    def run(self, keys: Sequence[int]) -> Marginals:
        """Run one chain per key in compiled code (bhmm-f only). Returns the marginals of all chains."""
        run_chains, bitext, options = self._functions.run_chains, self.direction.bitext, self.options
        assert run_chains is not None
        links = np.array([self._functions.initial_links(self.direction, options, np.uint64(key)) for key in keys])
        runs, marginals = Runs(np.array(keys, np.uint64), links, _plans(options)), empty_marginals(bitext)
        blank, total, number = self.empty_chain(links[0]), empty_marginals(bitext), 0
        while (
            number := run_chains(number, bitext, runs, blank, _copy_chain(blank), self._scratch, marginals, total)
        ) < len(keys):
            blank = blank._replace(pairs=larger_pairs(blank.pairs, bitext.longest_emitted))
        return total

    def _run_until(
        self, end: int, chain: AlignmentChain, resample: Callable[[int, AlignmentChain], int]
    ) -> AlignmentChain:
        position = 0
        while (position := resample(position, chain)) < end:
            chain = chain._replace(pairs=larger_pairs(chain.pairs, self.direction.bitext.longest_emitted))
        return chain

    def empty_chain(self, links: NDArray[np.int16]) -> AlignmentChain:
        """Return a chain with these links, not copied. Its counts contain only other pairs, not these links."""
        emitted, conditioning_side = self.direction
        options, prior = self.options, self._prior
        emitted_words = len(emitted.vocabulary) if prior is None else prior.emitted_words
        strengths = options.lexical, options.jump, options.collocation, options.fertility
        settings = np.array([(*strengths, options.unlinked, 1.0, 1.0, emitted_words)], SETTINGS)
        totals = np.zeros(len(conditioning_side.vocabulary) + 1, TOTALS)
        totals["prior"] = options.lexical * emitted_words
        similarity = options.similarity
        pairs = make_similarity_prior(self.direction, similarity, totals) if similarity > 0 else empty_pairs()
        furthest = furthest_event(self.direction.bitext.longest_conditioning)
        if prior is not None:
            furthest = max(furthest, SINGLE_WIDTHS)
            pairs = larger_pairs(pairs, len(prior.counts))
            add_pair_counts(prior.conditioning, prior.emitted, prior.counts, pairs)
            totals["links"] += prior.link_counts
        chain = AlignmentChain(
            links,
            np.zeros(0, np.uint8),
            pairs,
            totals,
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
        return self._functions.add_arrays(chain, self.direction)


@lru_cache
def _plans(options: AlignerOptions) -> NDArray[np.int64]:
    return np.array([options.plan(sweep) for sweep in range(1, options.sweeps + 1)], np.int64)


def _copy_chain(blank: AlignmentChain) -> AlignmentChain:
    """Return a chain like `blank`, with its own uninitialized memory for data that sweeps change."""
    rows, registers, filter_bytes = blank.pairs
    pairs = WordPairs(np.empty_like(rows), registers.copy(), np.empty_like(filter_bytes))
    changed = {name: np.empty_like(getattr(blank, name)) for name in ("links", "totals", "jumps", "fertility")}
    return blank._replace(pairs=pairs, **changed)


def run_chain(
    kernel: AlignmentKernel,
    key: int,
    links: NDArray[np.int16] | None = None,
    report: Callable[[], None] | None = None,
    marginals: Marginals | None = None,
) -> Marginals:
    """Run one chain, from `links` int16[N] if given. Adds its samples to `marginals` or new marginals."""
    state = kernel.init(key, links, marginals)
    for sweep in range(1, kernel.options.sweeps + 1):
        state, _ = kernel.step(key, state, kernel.options.plan(sweep))
        if report is not None:
            report()
    return state.marginals


def decode(direction: Direction, model: str, marginals: Marginals) -> DirectionLinks:
    """Return the most probable links of a direction from samples of a model [SA16 §4.5]."""
    functions: ModelFunctions = find_model(model).load()
    return functions.decode(direction.bitext, marginals)
