"""State of a chain of an HMM aligner, and functions that the HMM models share."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import DirectedBitext
from hierogram.samplers.alignment.counts import WordPairs
from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.streams import uniform
from hierogram.samplers.grammar.known_links import KnownLinks

FREE, EXCEPT, ONLY = 0, 1, 2
"""Kinds of constraints: all links are allowed, all but the listed ones, or only the listed ones."""


class LinkEvidence(NamedTuple):
    """Constraints on the links of emitted positions. All arrays are empty without constraints."""

    # uint8[N]: kind of constraint.
    kind: NDArray[np.uint8]
    # int64[N + 1]: emitted position g lists `positions[offset[g] : offset[g + 1]]`.
    offset: NDArray[np.int64]
    # int16[K]: listed conditioning positions.
    positions: NDArray[np.int16]


NO_EVIDENCE = LinkEvidence(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int16))


def make_evidence(
    bitext: DirectedBitext, known_links: Mapping[int, KnownLinks], emitted_is_target: bool
) -> LinkEvidence:
    """Return the constraints of human links, by pair index. Fixed links of a word replace forbidden ones."""
    if not known_links:
        return NO_EVIDENCE
    words = len(bitext.emitted)
    kinds = np.zeros(words, np.uint8)
    listed: dict[int, list[int]] = {}
    for pair, evidence in known_links.items():
        start = int(bitext.emitted_offset[pair])
        for kind, links in ((EXCEPT, evidence.forbidden), (ONLY, evidence.fixed)):
            constraints: dict[int, list[int]] = {}
            for source, target in links:
                emitted, conditioning = (target, source) if emitted_is_target else (source, target)
                constraints.setdefault(start + emitted, []).append(conditioning)
            # Fixed links come last, because they replace forbidden links.
            for word, positions in constraints.items():
                kinds[word] = kind
                listed[word] = sorted(positions)
    offset = np.zeros(words + 1, np.int64)
    for word, positions in listed.items():
        offset[word + 1] = len(positions)
    np.cumsum(offset, out=offset)
    flat = [position for word in sorted(listed) for position in listed[word]]
    return LinkEvidence(kinds, offset, np.array(flat, np.int16))


@njit_inline
def apply_evidence(evidence, g, length, weight):
    """Set the weights of excluded links to 0: `weight[0]` is for no link, `weight[i + 1]` for position i."""
    if len(evidence.kind) == 0 or evidence.kind[g] == FREE:
        return
    only = evidence.kind[g] == ONLY
    if only:
        weight[0] = 0.0
    for i in range(length):
        listed = False
        for k in range(evidence.offset[g], evidence.offset[g + 1]):
            listed |= evidence.positions[k] == i
        if listed != only:
            weight[i + 1] = 0.0


SINGLE_WIDTHS = 100
"""Largest jump width with its own event. Wider jumps share events: 101 to 200, 201 to 400, …."""


def jump_events(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the event of each jump: its width up to ±`SINGLE_WIDTHS`, beyond that a signed bin number."""
    distance = np.abs(widths)
    bins = np.log2(np.maximum(distance - 1, SINGLE_WIDTHS) // SINGLE_WIDTHS).astype(np.int64)
    events: NDArray[np.int64] = np.sign(widths) * np.minimum(distance, SINGLE_WIDTHS + 1 + bins)
    return events


def first_width(event: int) -> int:
    """Return the narrowest jump width of an event, with the sign of the event."""
    further = abs(event) - SINGLE_WIDTHS - 1
    if further < 0:
        return event
    return ((SINGLE_WIDTHS << further) + 1) * (1 if event > 0 else -1)


def furthest_event(longest: int) -> int:
    """Return the largest event for conditioning sentences of up to `longest` words."""
    if longest < SINGLE_WIDTHS:
        return max(1, longest)
    # Add 1, because the longest jump is from before the first position to the end of the sentence.
    return int(jump_events(np.array([longest + 1]))[0])


UNLINKED = -1
"""Value in `AlignmentChain.links` of a word without a link, which the empty word generates."""

MAX_FERTILITY = 7
"""Maximum fertility. Tokens with more links are counted as if they had this number of links."""

_PARAMETERS = ("lexical", "jump", "collocation", "fertility", "unlinked", "s", "r", "emitted_words")
SETTINGS = np.dtype([(name, np.float64) for name in _PARAMETERS])
"""Hyperparameters of a chain.

`lexical`, `jump`, `collocation`: β, α and γ of [SA16]. `s`, `r`: parameters of the Beta prior of collocations.
`fertility`: strength of the fertility prior. `unlinked`: prior probability of an unlinked word. `emitted_words`: size
of the emitted vocabulary.
"""

FOLLOWERS = np.dtype([("plain", np.int64), ("collocated", np.int64)])
"""Counts of the words after an emitted word: generated by links (`plain`), or by this word."""


class Tokens(NamedTuple):
    """Emitted positions of each of W emitted words, for the joint moves of bhmm."""

    # int64[W + 1]: word f is at the positions `position[offset[f] : offset[f + 1]]`.
    offset: NDArray[np.int64]
    # int32[N]: emitted positions, grouped by word. int32[N]: pair of each emitted position, not grouped.
    position: NDArray[np.int32]
    pair: NDArray[np.int32]
    # int16[N]: scratch memory for the link of each emitted position before `hmm._relink` changed it.
    saved_links: NDArray[np.int16]


def group_tokens(bitext: DirectedBitext, vocabulary: int) -> Tokens:
    """Group the emitted positions by word. `vocabulary` is the number of emitted words."""
    offset = np.zeros(vocabulary + 1, np.int64)
    np.cumsum(np.bincount(bitext.emitted, minlength=vocabulary), out=offset[1:])
    lengths = np.diff(bitext.emitted_offset)
    return Tokens(
        offset,
        np.argsort(bitext.emitted, kind="stable").astype(np.int32),
        np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        np.zeros(len(bitext.emitted), np.int16),
    )


NO_TOKENS = Tokens(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int16))


class AlignmentChain(NamedTuple):
    """State of one chain: links, collocations, settings, and counts, which include `PriorCounts`."""

    # int16[N]: link of each emitted position: a conditioning position, or UNLINKED.
    links: NDArray[np.int16]
    # uint8[N]: 1 for a collocation, Z of [SA16 §3] (only bhmm-z).
    collocated: NDArray[np.uint8]
    pairs: WordPairs
    # TOTALS[V + 1]: totals by conditioning word, the empty word last.
    totals: NDArray[np.void]
    # float64[2E + 4]: counts of the jump events -E to E (`jump_events`), of jumps to the empty word, of jumps from the
    # empty word (both only bhmm), and of all jumps (only bhmm-f).
    jumps: NDArray[np.float64]
    # int32[V, MAX_FERTILITY + 1]: number of tokens of each conditioning word with 0, 1, … links (bhmm-f).
    fertility: NDArray[np.int32]
    # int32[N], int32[B]: bigram number of each emitted position, and number of collocations of each bigram (bhmm-z).
    bigram: NDArray[np.int32]
    bigram_count: NDArray[np.int32]
    # FOLLOWERS[W + 1]: counts by emitted word, the start of a sentence last (bhmm-z).
    followers: NDArray[np.void]
    # SETTINGS[1], float64[MAX_FERTILITY + 1]: hyperparameters, and prior probability of each fertility.
    settings: NDArray[np.void]
    fertility_prior: NDArray[np.float64]
    # Constraints on links (only bhmm-f), and positions of words (only bhmm).
    evidence: LinkEvidence
    tokens: Tokens


class AlignmentScratch(NamedTuple):
    """Scratch memory of a kernel for sentences of up to L conditioning words and M emitted words."""

    # float64[L + 1]: linear weight of no link, then of a link to each conditioning position. Weights are cumulative
    # when a link is drawn. In bhmm-z, the array has only the cumulative weights of the candidates.
    weight: NDArray[np.float64]
    # int32[L + 1]: number of links of each conditioning position.
    fertility: NDArray[np.int32]
    # int16[M + 1]: link of the next linked word after each emitted word, or the length of the conditioning sentence.
    after: NDArray[np.int16]
    # float64[L + 1]: factor of the weight of a link to each conditioning position (`fertility._conditioning_factor`).
    factor: NDArray[np.float64]
    # uint64[L + 1]: `pair_key` of each conditioning word with emitted word 0, times `GOLDEN`.
    hashed: NDArray[np.uint64]
    # int16[2, L + 1]: conditioning positions that pass `may_have_row` with the current and the next emitted word. Row 0
    # is for words at even positions, row 1 at odd positions.
    filtered: NDArray[np.int16]
    # int16[L + 1]: next position of the same conditioning word. After the last position comes the first one.
    next_equal: NDArray[np.int16]


@njit_inline
def find_repetitions(words, start, length, scratch):
    """Fill `next_equal` for the conditioning sentence of `length` words at `start`, from its `hashed`."""
    next_equal = scratch.next_equal
    # A filter of 64 bits saves the search for most words, which occur only once.
    seen_bits = np.uint64(0)
    for i in range(length):
        bit = np.uint64(1) << (scratch.hashed[i] >> np.uint64(58))
        before = i - 1 if seen_bits & bit else -1
        seen_bits |= bit
        while before >= 0 and words[start + before] != words[start + i]:
            before -= 1
        next_equal[i] = i if before < 0 else next_equal[before]
        if before >= 0:
            next_equal[before] = i


def make_scratch(bitext: DirectedBitext) -> AlignmentScratch:
    """Allocate scratch memory for the pairs of a direction."""
    size = bitext.longest_conditioning + 1
    weight, factor = np.zeros((2, size))
    after, filtered, next_equal = (np.zeros(s, np.int16) for s in (bitext.longest_emitted + 1, (2, size), size))
    fertility, hashed = np.zeros(size, np.int32), np.zeros(size, np.uint64)
    return AlignmentScratch(weight, fertility, after, factor, hashed, filtered, next_equal)


@njit_inline
def conditioning_word(bitext, e_start, i, empty_word):
    """Return word i of the conditioning sentence at `e_start`, or `empty_word` if i is UNLINKED."""
    return empty_word if i == UNLINKED else np.int64(bitext.conditioning[e_start + i])


@njit_inline
def jump_event(jumps, start, stop):
    """Return the index in `jumps` of a jump's event. Jumps that are too wide share the largest event."""
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
    """Return the probability of each jump width given its event, which is an index in `jumps`."""
    middle = (len(jumps) - 4) // 2
    further = abs(event - middle) - SINGLE_WIDTHS
    # Exclude jumps to and from the empty word, which follow the widths.
    if further <= 0 or event > 2 * middle:
        return 1.0
    return 1.0 / (SINGLE_WIDTHS << (further - 1))


@njit_inline
def draw_index(weight, number, state):
    """Return the index of one of `number` candidates, drawn by their cumulative linear weights `weight`."""
    threshold = uniform(state) * weight[number - 1]
    for k in range(number - 1):
        if weight[k] > threshold:
            return k
    return number - 1
