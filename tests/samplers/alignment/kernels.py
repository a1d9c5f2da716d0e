"""Conversions between the aligner's kernels and its twin: corpora, settings and states."""

from collections.abc import Iterable
from random import Random

import numpy as np
from tests.reference.alignment import BHMM_Z, Corpus, Pair, Settings, State, Word

from hierogram.samplers.alignment.bitext import DirectedBitext, Direction, make_direction, read_side
from hierogram.samplers.alignment.chain import UNLINKED, AlignmentChain, make_evidence
from hierogram.samplers.alignment.marginals import Marginals, empty_marginals, load_pair, store_sums
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, AlignmentState
from hierogram.samplers.alignment.options import AlignerOptions


def to_options(settings: Settings, similarity: float = 0.0, **more: int) -> AlignerOptions:
    """Return the kernels' options for the twin's settings. By default every sweep is sampled."""
    return AlignerOptions(
        model=settings.model,
        lexical=settings.lexical,
        jump=settings.jump,
        collocation=settings.collocation,
        unlinked=settings.unlinked,
        fertility=settings.fertility,
        similarity=similarity,
        **{"sweeps": 1, "chains": 1, "burn_in": 0, "thinning": 1, **more},
    )


def to_direction(corpus: Corpus) -> Direction:
    return make_direction(
        read_side(" ".join(pair.emitted) for pair in corpus.pairs),
        read_side(" ".join(pair.conditioning) for pair in corpus.pairs),
    )


def to_chain(corpus: Corpus, state: State, settings: Settings, similarity: float = 0.0) -> AlignmentChain:
    words = [word for pair in state for word in pair]
    links = np.array([UNLINKED if word.link is None else word.link for word in words], np.int16)
    collocated = np.array([word.collocated for word in words], np.uint8)
    direction = to_direction(corpus)
    evidence = make_evidence(direction.bitext, settings.known, emitted_is_target=True)
    kernel = AlignmentKernel(to_options(settings, similarity), direction, None, evidence)
    chain = kernel.count_links(kernel.empty_chain(links)._replace(collocated=collocated))
    chain.settings[0]["s"], chain.settings[0]["r"] = settings.s, settings.r
    return chain


def from_chain(corpus: Corpus, chain: AlignmentChain) -> State:
    state = []
    at = 0
    for pair in corpus.pairs:
        words = []
        for _ in pair.emitted:
            link = int(chain.links[at])
            words.append(Word(None if link == UNLINKED else link, bool(chain.collocated[at])))
            at += 1
        state.append(tuple(words))
    return tuple(state)


class KernelChain:
    """A chain that sweeps a corpus with the kernels and keeps s and r fixed."""

    def __init__(self, corpus: Corpus, state: State, settings: Settings, seed: int, similarity: float = 0.0) -> None:
        self.corpus = corpus
        self.settings = settings
        self.seed = np.uint64(seed)
        self.direction = to_direction(corpus)
        # The twin has no stages, so bhmm-f must begin with all factors.
        self.options = to_options(settings, similarity, sweeps=1 << 30, warming=0)
        self.kernel = AlignmentKernel(self.options, self.direction)
        marginals = empty_marginals(self.direction.bitext)
        self.state = AlignmentState(to_chain(corpus, state, settings, similarity), marginals)
        self.sweeps = 0

    @property
    def chain(self) -> AlignmentChain:
        return self.state.chain

    @property
    def marginals(self) -> Marginals:
        return self.state.marginals

    def sweep(self) -> State:
        self.sweeps += 1
        self.chain.settings[0]["s"], self.chain.settings[0]["r"] = self.settings.s, self.settings.r
        self.state, _ = self.kernel.step(self.seed, self.state, self.options.plan(self.sweeps))
        return from_chain(self.corpus, self.chain)


def to_marginals(bitext: DirectedBitext, means: Iterable[np.ndarray], samples: int = 1) -> Marginals:
    """Return marginals with the given means: for each emitted word the probability of no link, then of each link."""
    marginals = empty_marginals(bitext)
    for pair, rows in enumerate(means):
        marginals.cells[: rows.size] = (samples * rows).ravel()
        store_sums(bitext, pair, samples, marginals)
    marginals.samples[0] = samples
    return marginals


def from_marginals(bitext: DirectedBitext, marginals: Marginals) -> list[np.ndarray]:
    """Return the means of marginals (the inverse of `to_marginals`)."""
    means = []
    for pair in range(bitext.pairs):
        words, length = load_pair(bitext.emitted_offset, bitext.conditioning_offset, pair, 1.0, marginals)
        means.append(marginals.cells[: words * (length + 1)].reshape(words, length + 1).copy())
    return means


def pair_counts(chain: AlignmentChain) -> dict[int, tuple[int, float]]:
    """Return the count and the prior of each stored word pair, by key."""
    rows = chain.pairs.rows
    return {int(row["key"]): (int(row["count"]), float(row["prior"])) for row in rows[rows["key"] != 0]}


def same_counts(one: AlignmentChain, other: AlignmentChain) -> bool:
    """Check if the counts of two chains are equal, and the priors of their word pairs."""
    arrays = ("totals", "jumps", "fertility", "bigram_count", "followers")
    return pair_counts(one) == pair_counts(other) and all((getattr(one, a) == getattr(other, a)).all() for a in arrays)


def random_corpus(random: Random) -> Corpus:
    """Return four short pairs over few words."""
    pairs = [
        Pair(
            tuple(random.choice("abc") for _ in range(random.randint(1, 5))),
            tuple(random.choice("xyz") for _ in range(random.randint(1, 5))),
        )
        for _ in range(4)
    ]
    return Corpus(pairs)


def random_state(corpus: Corpus, model: str, random: Random) -> State:
    """Return a state with random links and, for bhmm-z, random collocations."""

    def word(pair: Pair) -> Word:
        if model == BHMM_Z:
            return Word(random.randrange(len(pair.conditioning)), random.random() < 0.3)
        return Word(random.choice([None, *range(len(pair.conditioning))]))

    return tuple(tuple(word(pair) for _ in pair.emitted) for pair in corpus.pairs)
