"""The state of an aligner's chain: links, collocations, all counts; and what every model's sweep does with them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.alignment.counts import WordPairs
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.grammar.known_links import KnownLinks

FREE, EXCEPT, ONLY = 0, 1, 2
"""What a word's positions are: none (any link may be), those that it is not linked to, the only ones that it is."""


class LinkEvidence(NamedTuple):
    """Of each emitted position: `meaning` uint8[N], and its `positions` int16[K] from `offset` int64[N + 1] on.

    Arrays without an entry: nothing is known of any.
    """

    meaning: NDArray[np.uint8]
    offset: NDArray[np.int64]
    positions: NDArray[np.int16]


@lru_cache
def no_evidence() -> LinkEvidence:
    """Every link may be. Always the same arrays: to be read only."""
    return LinkEvidence(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int16))


def evidence_of(sides: Sides, known: Mapping[int, KnownLinks], emitted_is_target: bool) -> LinkEvidence:
    """The evidence of pairs, by their places in the batch, as one direction sees it.

    A word with fixed links is linked to one of these; else it may be without a link, or have any that is not forbidden.
    """
    if not known:
        return no_evidence()
    words = len(sides.emitted)
    meaning = np.zeros(words, np.uint8)
    of_word: dict[int, list[int]] = {}
    for pair, evidence in known.items():
        start = int(sides.emitted_offset[pair])
        for kind, links in ((EXCEPT, evidence.forbidden), (ONLY, evidence.fixed)):
            here: dict[int, list[int]] = {}
            for source, target in links:
                emitted, conditioning = (target, source) if emitted_is_target else (source, target)
                here.setdefault(start + emitted, []).append(conditioning)
            # Fixed links come last, and take the place of forbidden ones.
            for word, positions in here.items():
                meaning[word] = kind
                of_word[word] = sorted(positions)
    offset = np.zeros(words + 1, np.int64)
    for word, positions in of_word.items():
        offset[word + 1] = len(positions)
    np.cumsum(offset, out=offset)
    flat = [position for word in sorted(of_word) for position in of_word[word]]
    return LinkEvidence(meaning, offset, np.array(flat, np.int16))


@njit_inline
def keep_to_evidence(evidence, g, length, weight):
    """Make the weights 0 that evidence rules out: `weight[0]` is that of no link, `weight[i + 1]` of position i."""
    if len(evidence.meaning) == 0 or evidence.meaning[g] == FREE:
        return
    only = evidence.meaning[g] == ONLY
    if only:
        weight[0] = 0.0
    for i in range(length):
        listed = False
        for k in range(evidence.offset[g], evidence.offset[g + 1]):
            listed |= evidence.positions[k] == i
        if listed != only:
            weight[i + 1] = 0.0


UNLINKED = -1
"""The link of an emitted word that no conditioning word emits."""

MOST_FERTILITY = 7
"""Given words with more links count as having this many."""

SETTINGS = np.dtype(
    [
        ("lexical", np.float64),
        ("jump", np.float64),
        ("collocation", np.float64),
        ("fertility", np.float64),
        ("unlinked", np.float64),
        ("s", np.float64),
        ("r", np.float64),
        ("emitted_words", np.float64),
        ("candidates", np.int64),
    ]
)
"""Hyperparameters in the paper's words: lexical β, jump α, collocation γ, Beta(s, r); then the strength of the
fertilities' prior, the prior probability of an unlinked word, the size of the emitted vocabulary, and how many
positions a link is drawn from (0: all)."""

BEFORE = np.dtype([("plain", np.int64), ("collocated", np.int64)])
"""Of a word that stands before others: how many of these are emitted by their link, and how many by this word."""


class Tokens(NamedTuple):
    """Where each emitted word stands: word w at `position` int32[N] from `offset` int64[W + 1] on, in order; `pair`
    int32[N] of each emitted position. `aside` int16[N] is memory for links. Empty where a model has no use for it.
    """

    offset: NDArray[np.int64]
    position: NDArray[np.int32]
    pair: NDArray[np.int32]
    aside: NDArray[np.int16]


def tokens_of(sides: Sides, words: int) -> Tokens:
    """Return where each of so many emitted words stands."""
    offset = np.zeros(words + 1, np.int64)
    np.cumsum(np.bincount(sides.emitted, minlength=words), out=offset[1:])
    lengths = np.diff(sides.emitted_offset)
    return Tokens(
        offset,
        np.argsort(sides.emitted, kind="stable").astype(np.int32),
        np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        np.zeros(len(sides.emitted), np.int16),
    )


@lru_cache
def no_tokens() -> Tokens:
    """No word stands anywhere."""
    return Tokens(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int16))


class Chain(NamedTuple):
    """State of one chain.

    `links` int16[N] (conditioning position, or UNLINKED), `collocated` uint8[N] (Z of [SA16 §3]); `pairs` counts of
    linked word pairs, `conditioning` CONDITIONING[V + 1] (the last row: no word); `jumps` float64[2L + 4], whole
    numbers: widths -L to L, to no word, from no word, all; `fertility` int32[V, MOST_FERTILITY + 1] tokens of a
    conditioning word by number of links; `bigram` int32[N], `bigram_count` int32[B] collocations by (word before,
    word); `before` BEFORE[W + 1]; `settings` SETTINGS[1]; `fertility_prior` float64[MOST_FERTILITY + 1];
    `evidence` what is known of links (bhmm-f); `tokens` where each emitted word stands (bhmm).
    """

    links: NDArray[np.int16]
    collocated: NDArray[np.uint8]
    pairs: WordPairs
    conditioning: NDArray[np.void]
    jumps: NDArray[np.float64]
    fertility: NDArray[np.int32]
    bigram: NDArray[np.int32]
    bigram_count: NDArray[np.int32]
    before: NDArray[np.void]
    settings: NDArray[np.void]
    fertility_prior: NDArray[np.float64]
    evidence: LinkEvidence
    tokens: Tokens


class AlignmentScratch(NamedTuple):
    """Scratch of one worker: `candidate`, `seen`, `weight` by candidate; `fertility`, `factor`, `hashed` by position of
    the conditioning sentence; `after` by emitted position. `alike` int16[M] is filled: of each conditioning word the
    next position in its sentence with the same word, from the last one on the first."""

    candidate: NDArray[np.int16]
    weight: NDArray[np.float64]
    fertility: NDArray[np.int32]
    after: NDArray[np.int16]
    factor: NDArray[np.float64]
    hashed: NDArray[np.uint64]
    seen: NDArray[np.int16]
    alike: NDArray[np.int16]


@njit
def _link_alike(sides, first, last, alike):
    """Fill in `alike`; `first`, `last` int64 by conditioning word are memory, 0 at first."""
    for pair in range(len(sides.conditioning_offset) - 1):
        start, stop = sides.conditioning_offset[pair], sides.conditioning_offset[pair + 1]
        for k in range(start, stop):
            word = sides.conditioning[k]
            # Places count from 1 there.
            if first[word] <= start:
                first[word] = k + 1
            else:
                alike[last[word] - 1] = k - start
            last[word] = k + 1
            alike[k] = first[word] - 1 - start


def make_scratch(sides: Sides) -> AlignmentScratch:
    """Scratch memory for the pairs of a direction."""
    longest = sides.longest_conditioning
    alike = np.zeros(len(sides.conditioning), np.int16)
    words = int(sides.conditioning.max(initial=-1)) + 1
    _link_alike(sides, np.zeros(words, np.int64), np.zeros(words, np.int64), alike)
    return AlignmentScratch(
        np.zeros(longest + 1, np.int16),
        np.zeros(longest + 1, np.float64),
        np.zeros(longest + 1, np.int32),
        np.zeros(sides.longest_emitted + 1, np.int16),
        np.zeros(longest + 1, np.float64),
        np.zeros(longest + 1, np.uint64),
        np.zeros(longest + 1, np.int16),
        alike,
    )


@njit_inline
def jump_event(jumps, start, stop):
    """Index of a jump between two positions, clipped to the widest that is told apart; -1 stands before the first."""
    widest = (len(jumps) - 4) // 2
    return min(max(stop - start, -widest), widest) + widest


@njit_inline
def all_jumps(jumps):
    """Index of the number of all jumps."""
    return len(jumps) - 1


@njit_inline
def choose_candidates(first, present, stop, candidates, state, scratch):
    """Fill `candidate` with the positions that a link is drawn from, among `first` to `stop` - 1; their number, stream.

    All in order, or (with fewer `candidates` than positions) the present one and others drawn uniformly without
    replacement: the auxiliary variable K of [SA16 §4.3].
    """
    number = stop - first
    if candidates == 0 or candidates >= number:
        for k in range(number):
            scratch.candidate[k] = first + k
        return number, state
    scratch.candidate[0] = present
    for k in range(1, candidates):
        while True:
            state = advance(state)
            drawn = first + np.int64(uniform(state) * number)
            fresh = True
            for other in range(k):
                fresh &= scratch.candidate[other] != drawn
            if fresh:
                scratch.candidate[k] = drawn
                break
    return candidates, state


@njit_inline
def pick(scratch, number, state):
    """The number of a candidate, drawn by the cumulated weights (linear)."""
    threshold = uniform(state) * scratch.weight[number - 1]
    for k in range(number - 1):
        if scratch.weight[k] > threshold:
            return k
    return number - 1
