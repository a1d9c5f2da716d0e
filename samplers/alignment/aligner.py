"""The Bayesian HMM aligner of Schulz & Aziz (2016), one direction at a time: start a chain, sweep, decode.

`align_direction` runs the chains of one direction; `start_chain` and `sweep_chain` are their steps. Randomness is
keyed by (seed, chain, pair, sweep), so links do not depend on which thread runs what.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side, Sides, make_sides, number_bigrams
from hierogram.samplers.alignment.chain import (
    BEFORE,
    MOST_FERTILITY,
    SETTINGS,
    UNLINKED,
    Chain,
    Marginals,
    Scratch,
    make_scratch,
)
from hierogram.samplers.alignment.collocations import count_collocations, sweep_collocations
from hierogram.samplers.alignment.counts import GIVEN, empty_pairs, larger_pairs
from hierogram.samplers.alignment.fertility import FERTILITIES, JUMPS, WORDS, count_fertility, sweep_fertility
from hierogram.samplers.alignment.hmm import count_hmm, sweep_hmm
from hierogram.samplers.alignment.model1 import model1_links, random_links
from hierogram.samplers.alignment.orthography import favour_likeness
from hierogram.samplers.alignment.prior_counts import WIDEST_JUMP, Experience, enter_pairs
from hierogram.samplers.alignment.strengths import sample_strengths
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import AlignmentInputError

BHMM, BHMM_Z, BHMM_F = "bhmm", "bhmm-z", "bhmm-f"
MODELS = (BHMM, BHMM_Z, BHMM_F)
ALL_POSITIONS = 0

_FERTILITY_PRIOR = np.array([0.3, 0.5, 0.12, 0.04, 0.015, 0.012, 0.008, 0.005])
_SEED_STEP = 0xD1342543DE82EF95
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class AlignerOptions:
    """Everything that a run of one direction depends on.

    `sweeps` of each of `chains` chains; a sample each `thinning` sweeps after `burn_in`; a link is drawn from
    `candidates` positions, or from all (0). `lexical`, `jump`, `collocation`, `fertility`: strengths of the Dirichlet
    priors β, α, γ and the fertilities'; `unlinked`: prior probability of an unlinked word (bhmm-f); `likeness`: what
    the prior adds for words spelled alike. `warming`: sweeps by words alone, then as many by words and jumps (bhmm-f).
    """

    model: str
    sweeps: int
    chains: int
    burn_in: int
    thinning: int
    candidates: int
    lexical: float
    likeness: float
    warming: int = 0
    jump: float = 1.0
    collocation: float = 0.0001
    fertility: float = 1.0
    unlinked: float = 0.17
    seed: int = 1

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise AlignmentInputError(f"no model is called {self.model!r}: there are {', '.join(MODELS)}")
        for name, least in (("sweeps", 1), ("chains", 1), ("thinning", 1), ("burn_in", 0), ("candidates", 0)):
            if getattr(self, name) < least:
                raise AlignmentInputError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.candidates == 1:
            raise AlignmentInputError("a link cannot be drawn from 1 candidate: give 2 or more, or 0 for all")
        if self.burn_in >= self.sweeps or not self.is_sampled(self.last_sampled):
            raise AlignmentInputError(
                f"of {self.sweeps} sweeps none would be sampled after {self.burn_in}, each {self.thinning}: ask more"
            )

    @property
    def last_sampled(self) -> int:
        """The last sweep that may be sampled."""
        return self.sweeps - self.sweeps % self.thinning

    def is_sampled(self, sweep: int) -> bool:
        """Whether a sample is taken at the sweep, numbered from 1."""
        return sweep > self.burn_in and sweep % self.thinning == 0


class Direction(NamedTuple):
    """One direction of a corpus: its arrays, and both sides' words."""

    sides: Sides
    generated: Side
    given: Side


class DirectionLinks(NamedTuple):
    """What one direction found: `links` int16[N] (given position, or -1), and their posteriors float32[N]."""

    links: NDArray[np.int16]
    posterior: NDArray[np.float32]


def make_direction(generated: Side, given: Side) -> Direction:
    """The direction that generates one side from the other; raises `AlignmentInputError` where their lengths differ."""
    return Direction(make_sides(generated, given), generated, given)


def chain_seed(seed: int, direction: int, chain: int) -> np.uint64:
    """The seed of one chain's random streams."""
    return np.uint64((seed * 4 + direction + (chain + 1) * _SEED_STEP) & _WORD)


def empty_marginals(sides: Sides) -> Marginals:
    """Marginals of no sample."""
    return Marginals(
        np.zeros(int(sides.cell_offset[-1]), np.float32),
        np.zeros(len(sides.generated), np.float32),
        np.zeros(1, np.int64),
    )


def start_chain(
    direction: Direction,
    options: AlignerOptions,
    seed: np.uint64,
    experience: Experience | None = None,
    links: NDArray[np.int16] | None = None,
) -> Chain:
    """The initial state: `links`, else IBM Model 1's for the paper's models [SA16 §5], random ones for bhmm-f."""
    sides = direction.sides
    if links is not None:
        pass
    elif options.model == BHMM_F:
        links = random_links(sides, seed, options.unlinked)
    else:
        links = model1_links(sides, len(direction.given.vocabulary), with_no_word=options.model == BHMM)
    return chain_of(direction, options, links, experience=experience)


def chain_of(
    direction: Direction,
    options: AlignerOptions,
    links: NDArray[np.int16],
    collocated: NDArray[np.uint8] | None = None,
    experience: Experience | None = None,
) -> Chain:
    """The state with these links and collocations (none, unless given), and the counts that follow from them.

    Counts of other pairs, the `experience`, are added to them; raises `AlignmentInputError` where the model is not
    bhmm-f, whose counts they are.
    """
    if experience is not None and options.model != BHMM_F:
        raise AlignmentInputError(f"what has been learned before is for {BHMM_F}, not for {options.model}")
    sides, generated, given_side = direction
    settings = np.zeros(1, SETTINGS)
    for name in ("lexical", "jump", "collocation", "fertility", "unlinked", "candidates"):
        settings[0][name] = getattr(options, name)
    settings[0]["s"] = settings[0]["r"] = 1.0
    generated_words = len(generated.vocabulary) if experience is None else experience.generated_words
    settings[0]["generated_words"] = generated_words
    given = np.zeros(len(given_side.vocabulary) + 1, GIVEN)
    given["prior"] = options.lexical * generated_words
    pairs = empty_pairs()
    if options.likeness > 0:
        pairs = favour_likeness(sides, generated.vocabulary, given_side.vocabulary, options.likeness, pairs, given)
    bigram, bigrams = np.zeros(0, np.int32), 0
    if options.model == BHMM_Z:
        bigram, bigrams = number_bigrams(generated)
    widest = min(WIDEST_JUMP, max(1, sides.longest_given)) if experience is None else WIDEST_JUMP
    if experience is not None:
        pairs = larger_pairs(pairs, len(experience.counts))
        enter_pairs(experience, pairs)
        given["links"] += experience.links
    chain = Chain(
        links.copy(),
        np.zeros(len(links), np.uint8) if collocated is None else collocated.copy(),
        pairs,
        given,
        np.zeros(2 * widest + 4),
        np.zeros((len(given_side.vocabulary), MOST_FERTILITY + 1), np.int32),
        bigram,
        np.zeros(bigrams, np.int32),
        np.zeros(len(generated.vocabulary) + 1, BEFORE),
        settings,
        _FERTILITY_PRIOR,
    )
    if experience is not None:
        chain.jumps[: 2 * widest + 1] += experience.jumps
        chain.jumps[-1] += experience.jumps.sum()
        chain.fertility[:] += experience.fertility
    scratch = make_scratch(sides.longest_generated, sides.longest_given)

    def count(first: int, now: Chain) -> int:
        if options.model == BHMM:
            return int(count_hmm(first, sides, now))
        if options.model == BHMM_Z:
            return int(count_collocations(first, sides, now))
        return int(count_fertility(first, sides, now, scratch))

    return _with_growing_counts(sides, chain, count)


def sweep_chain(
    direction: Direction,
    chain: Chain,
    options: AlignerOptions,
    seed: np.uint64,
    sweep: int,
    scratch: Scratch,
    marginals: Marginals,
) -> Chain:
    """One sweep (numbered from 1) over all pairs; a sample is added to the marginals when one is due.

    Arrays are changed in place; the state that is returned holds the counts where they had to grow.
    """
    sides = direction.sides
    sampled = options.is_sampled(sweep)
    stage = WORDS if sweep <= options.warming else JUMPS if sweep <= 2 * options.warming else FERTILITIES

    def visit(first: int, now: Chain) -> int:
        if options.model == BHMM:
            return int(sweep_hmm(first, sides, now, seed, sweep, scratch, marginals, sampled))
        if options.model == BHMM_Z:
            return int(sweep_collocations(first, sides, now, seed, sweep, scratch, marginals, sampled))
        return int(sweep_fertility(first, sides, now, seed, sweep, scratch, marginals, sampled, stage))

    chain = _with_growing_counts(sides, chain, visit)
    if options.model == BHMM_Z:
        sample_strengths(chain.settings, chain.before, seed, sweep)
    marginals.samples[0] += sampled
    return chain


def _with_growing_counts(sides: Sides, chain: Chain, visit: Callable[[int, Chain], int]) -> Chain:
    """Visit all pairs; where the counts lack room, give them more and go on at that pair."""
    at = 0
    while True:
        at = visit(at, chain)
        if at == sides.pairs:
            return chain
        chain = chain._replace(pairs=larger_pairs(chain.pairs, sides.longest_generated))


def run_chain(
    direction: Direction,
    options: AlignerOptions,
    seed: np.uint64,
    report: Callable[[], None] | None = None,
    experience: Experience | None = None,
    links: NDArray[np.int16] | None = None,
) -> Marginals:
    """All sweeps of one chain, beside the counts of other pairs, from `links` on if given.

    `report` is called after each sweep.
    """
    sides = direction.sides
    marginals = empty_marginals(sides)
    scratch = make_scratch(sides.longest_generated, sides.longest_given)
    chain = start_chain(direction, options, seed, experience, links)
    for sweep in range(1, options.sweeps + 1):
        chain = sweep_chain(direction, chain, options, seed, sweep, scratch, marginals)
        if report is not None:
            report()
    return marginals


def add_marginals(total: Marginals, more: Marginals) -> None:
    """Add the samples of another chain, in place; the order of chains must be fixed, as sums of floats depend on it."""
    np.add(total.cells, more.cells, out=total.cells)
    np.add(total.unlinked, more.unlinked, out=total.unlinked)
    total.samples[0] += more.samples[0]


@njit
def _decode(sides, marginals, by_half, links, posterior):
    samples = marginals.samples[0]
    for pair in range(len(sides.generated_offset) - 1):
        start = sides.generated_offset[pair]
        length = sides.given_offset[pair + 1] - sides.given_offset[pair]
        for g in range(start, sides.generated_offset[pair + 1]):
            cell = sides.cell_offset[pair] + (g - start) * length
            best = UNLINKED
            most = np.float32(0.0)
            for i in range(length):
                if marginals.cells[cell + i] > most:
                    best = i
                    most = marginals.cells[cell + i]
            unlinked = marginals.unlinked[g]
            if best == UNLINKED or (2 * unlinked > samples if by_half else unlinked > most):
                links[g] = UNLINKED
                posterior[g] = unlinked / samples
            else:
                links[g] = best
                posterior[g] = most / samples


def decode(direction: Direction, model: str, marginals: Marginals) -> DirectionLinks:
    """Maximum marginal decoding [SA16 §4.5]: the likeliest position of each word, or none where that is likelier.

    With collocations a word is unlinked where Z = 1 in most samples.
    """
    links = np.zeros(len(direction.sides.generated), np.int16)
    posterior = np.zeros(len(links), np.float32)
    _decode(direction.sides, marginals, model == BHMM_Z, links, posterior)
    return DirectionLinks(links, posterior)
