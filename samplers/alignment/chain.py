"""State of an aligner's chain (links, collocations, counts), and operations shared by the sweeps of all models."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.alignment.counts import WordPairs
from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.grammar.known_links import KnownLinks

FREE, EXCEPT, ONLY = 0, 1, 2
"""Meaning of a word's listed positions: no constraint, forbidden links, the only allowed links."""


class LinkEvidence(NamedTuple):
    """Link constraints of emitted positions, or empty arrays without constraints.

    `meaning` uint8[N]; `positions` int16[K], grouped by `offset` int64[N + 1].
    """

    meaning: NDArray[np.uint8]
    offset: NDArray[np.int64]
    positions: NDArray[np.int16]


NO_EVIDENCE = LinkEvidence(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int16))


def make_evidence(sides: Sides, known_links: Mapping[int, KnownLinks], emitted_is_target: bool) -> LinkEvidence:
    """Return the link constraints of pairs, by index in the batch, for one direction.

    A word with fixed links must have one of them. Any other word may be unlinked or have any link that is not
    forbidden.
    """
    if not known_links:
        return NO_EVIDENCE
    words = len(sides.emitted)
    meaning = np.zeros(words, np.uint8)
    of_word: dict[int, list[int]] = {}
    for pair, evidence in known_links.items():
        start = int(sides.emitted_offset[pair])
        for kind, links in ((EXCEPT, evidence.forbidden), (ONLY, evidence.fixed)):
            constraints: dict[int, list[int]] = {}
            for source, target in links:
                emitted, conditioning = (target, source) if emitted_is_target else (source, target)
                constraints.setdefault(start + emitted, []).append(conditioning)
            # Process fixed links last, since they override forbidden ones.
            for word, positions in constraints.items():
                meaning[word] = kind
                of_word[word] = sorted(positions)
    offset = np.zeros(words + 1, np.int64)
    for word, positions in of_word.items():
        offset[word + 1] = len(positions)
    np.cumsum(offset, out=offset)
    flat = [position for word in sorted(of_word) for position in of_word[word]]
    return LinkEvidence(meaning, offset, np.array(flat, np.int16))


@njit_inline
def apply_evidence(evidence, g, length, weight):
    """Set weights to 0 that constraints exclude: `weight[0]` is for unlinked, `weight[i + 1]` for position i."""
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


SINGLE_WIDTHS = 100
"""Jumps of up to this width have an event each. Wider ones share events: 101 to 200, 201 to 400, and so on."""


def jump_events(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the event of each jump width: the width itself up to `SINGLE_WIDTHS`, then bin numbers."""
    distance = np.abs(widths)
    bins = np.log2(np.maximum(distance - 1, SINGLE_WIDTHS) // SINGLE_WIDTHS).astype(np.int64)
    events: NDArray[np.int64] = np.sign(widths) * np.minimum(distance, SINGLE_WIDTHS + 1 + bins)
    return events


def first_width(event: int) -> int:
    """Return the jump width of an event that is nearest to 0."""
    further = abs(event) - SINGLE_WIDTHS - 1
    if further < 0:
        return event
    return ((SINGLE_WIDTHS << further) + 1) * (1 if event > 0 else -1)


def furthest_event(longest: int) -> int:
    """Return the largest event of jumps over conditioning sentences of up to `longest` words."""
    if longest < SINGLE_WIDTHS:
        return max(1, longest)
    # The longest jump leads from before the first position to the end of the sentence.
    return int(jump_events(np.array([longest + 1]))[0])


UNLINKED = -1
"""Link of an emitted word without a conditioning word."""

MAX_FERTILITY = 7
"""Fertilities above this are counted as this."""

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
"""Hyperparameters as named in the paper: lexical β, jump α, collocation γ, Beta(s, r).

Then the strength of the fertility prior, the prior probability of an unlinked word, the size of the emitted vocabulary,
and the number of candidate positions per draw (0: all).
"""

BEFORE = np.dtype([("plain", np.int64), ("collocated", np.int64)])
"""Counts of the words that follow an emitted word: those emitted by their link, and those emitted by this word."""


class Tokens(NamedTuple):
    """Occurrences of each emitted word: `position` int32[N] sorted, grouped by word from `offset` int64[W + 1]."""

    offset: NDArray[np.int64]
    position: NDArray[np.int32]
    # int32[N]: pair of each emitted position.
    pair: NDArray[np.int32]
    # int16[N] stores links temporarily. Empty for other models.
    aside: NDArray[np.int16]


def group_tokens(sides: Sides, words: int) -> Tokens:
    """Return the occurrences of each emitted word."""
    offset = np.zeros(words + 1, np.int64)
    np.cumsum(np.bincount(sides.emitted, minlength=words), out=offset[1:])
    lengths = np.diff(sides.emitted_offset)
    return Tokens(
        offset,
        np.argsort(sides.emitted, kind="stable").astype(np.int32),
        np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        np.zeros(len(sides.emitted), np.int16),
    )


NO_TOKENS = Tokens(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int16))


class AlignmentChain(NamedTuple):
    """State of one chain."""

    # int16[N]: conditioning position, or UNLINKED.
    links: NDArray[np.int16]
    # uint8[N]: Z of [SA16 §3] (bhmm-z).
    collocated: NDArray[np.uint8]
    # Counts of linked word pairs.
    pairs: WordPairs
    # CONDITIONING[V + 1]; the last row is the empty word.
    conditioning: NDArray[np.void]
    # float64[2L + 4], integral: events -L to L (`jump_events`), jumps to and from the empty word, total.
    jumps: NDArray[np.float64]
    # int32[V, MAX_FERTILITY + 1]: tokens of each conditioning word by number of links.
    fertility: NDArray[np.int32]
    # int32[N], int32[B]: bigram of each position, and collocations per bigram.
    bigram: NDArray[np.int32]
    bigram_count: NDArray[np.int32]
    # BEFORE[W + 1].
    before: NDArray[np.void]
    # SETTINGS[1].
    settings: NDArray[np.void]
    # float64[MAX_FERTILITY + 1].
    fertility_prior: NDArray[np.float64]
    # Link constraints (bhmm-f).
    evidence: LinkEvidence
    # Occurrences of each emitted word (bhmm).
    tokens: Tokens


class AlignmentScratch(NamedTuple):
    """Scratch memory of one worker."""

    # Indexed by candidate.
    candidate: NDArray[np.int16]
    weight: NDArray[np.float64]
    # Indexed by conditioning position.
    fertility: NDArray[np.int32]
    # Indexed by emitted position.
    after: NDArray[np.int16]
    # Indexed by conditioning position.
    factor: NDArray[np.float64]
    hashed: NDArray[np.uint64]
    # Indexed by candidate.
    seen: NDArray[np.int16]
    # Indexed by conditioning position: next position with the same conditioning word in the sentence, cyclically.
    alike: NDArray[np.int16]


@njit_inline
def link_equal_words(words, start, length, scratch):
    """Fill `alike` for the conditioning sentence of `length` words from `start`, given the hashes of its words."""
    alike = scratch.alike
    # Most words do not occur twice, which a filter of 64 bits shows.
    met = np.uint64(0)
    for i in range(length):
        bit = np.uint64(1) << (scratch.hashed[i] >> np.uint64(58))
        before = i - 1 if met & bit else -1
        met |= bit
        while before >= 0 and words[start + before] != words[start + i]:
            before -= 1
        # The last position points to the first.
        alike[i] = i if before < 0 else alike[before]
        if before >= 0:
            alike[before] = i


def make_scratch(sides: Sides) -> AlignmentScratch:
    """Allocate scratch memory for the pairs of a direction."""
    longest = sides.longest_conditioning
    return AlignmentScratch(
        np.zeros(longest + 1, np.int16),
        np.zeros(longest + 1, np.float64),
        np.zeros(longest + 1, np.int32),
        np.zeros(sides.longest_emitted + 1, np.int16),
        np.zeros(longest + 1, np.float64),
        np.zeros(longest + 1, np.uint64),
        np.zeros(longest + 1, np.int16),
        np.zeros(longest + 1, np.int16),
    )


@njit_inline
def jump_event(jumps, start, stop):
    """Return the index of a jump between two positions (-1: before the first), at most the widest in the table."""
    middle = (len(jumps) - 4) // 2
    width = stop - start
    distance = abs(width)
    if distance > SINGLE_WIDTHS:
        bins = (distance - 1) // SINGLE_WIDTHS
        distance = SINGLE_WIDTHS + 1
        while bins > 1:
            bins >>= 1
            distance += 1
    distance = min(distance, middle)
    return middle + distance if width > 0 else middle - distance


@njit_inline
def jump_share(jumps, event):
    """Return the share of an event's probability that each of its widths has; widths of a bin are equally likely."""
    middle = (len(jumps) - 4) // 2
    further = abs(event - middle) - SINGLE_WIDTHS
    # The events after the widths are jumps to and from the empty word.
    if further <= 0 or event > 2 * middle:
        return 1.0
    return 1.0 / (SINGLE_WIDTHS << (further - 1))


@njit_inline
def choose_candidates(first, present, stop, candidates, state, scratch):
    """Fill `candidate` with positions from `first` to `stop` - 1; returns their number and the stream state.

    All positions in order, or, if there are more than `candidates`, the current one and others drawn uniformly without
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
            candidate = first + np.int64(uniform(state) * number)
            fresh = True
            for earlier in range(k):
                fresh &= scratch.candidate[earlier] != candidate
            if fresh:
                scratch.candidate[k] = candidate
                break
    return candidates, state


@njit_inline
def pick(scratch, number, state):
    """Draw a candidate by cumulative weights (linear); returns its index and the stream state."""
    threshold = uniform(state) * scratch.weight[number - 1]
    for k in range(number - 1):
        if scratch.weight[k] > threshold:
            return k
    return number - 1
