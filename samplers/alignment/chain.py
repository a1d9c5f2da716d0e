"""State of an HMM aligner's chain, and functions that its models share."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.alignment.counts import WordPairs
from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.streams import uniform
from hierogram.samplers.grammar.known_links import KnownLinks

FREE, EXCEPT, ONLY = 0, 1, 2
"""Kinds of constraints: all links are allowed, all but the listed links, or only the listed links."""


class LinkEvidence(NamedTuple):
    """Constraints on the links of emitted positions. All arrays are empty without constraints."""

    # uint8[N]: kind of constraint.
    kind: NDArray[np.uint8]
    # int64[N + 1]: emitted position g lists `positions[offset[g] : offset[g + 1]]`.
    offset: NDArray[np.int64]
    # int16[K]: listed conditioning positions.
    positions: NDArray[np.int16]


NO_EVIDENCE = LinkEvidence(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int16))


def make_evidence(sides: Sides, known_links: Mapping[int, KnownLinks], emitted_is_target: bool) -> LinkEvidence:
    """Return the link constraints of one direction. The keys of `known_links` are indices of pairs."""
    if not known_links:
        return NO_EVIDENCE
    words = len(sides.emitted)
    kinds = np.zeros(words, np.uint8)
    listed: dict[int, list[int]] = {}
    for pair, evidence in known_links.items():
        start = int(sides.emitted_offset[pair])
        for kind, links in ((EXCEPT, evidence.forbidden), (ONLY, evidence.fixed)):
            constraints: dict[int, list[int]] = {}
            for source, target in links:
                emitted, conditioning = (target, source) if emitted_is_target else (source, target)
                constraints.setdefault(start + emitted, []).append(conditioning)
            # Fixed links come last, since they override forbidden links: the word must have one of its fixed links.
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
"""Largest jump width that is an event of its own. Wider jumps share events: 101 to 200, 201 to 400, …."""


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
"""Value in `AlignmentChain.links` of a word without a link."""

MAX_FERTILITY = 7
"""Maximum fertility. Conditioning words with more links are counted as if they had this number."""

_PARAMETERS = ("lexical", "jump", "collocation", "fertility", "unlinked", "s", "r", "emitted_words")
SETTINGS = np.dtype([(name, np.float64) for name in _PARAMETERS])
"""Hyperparameters of a model.

`lexical`, `jump`, `collocation`: β, α and γ of [SA16]. `s`, `r`: parameters of the Beta distribution of [SA16].
`fertility`: strength of the fertility prior. `unlinked`: prior probability of an unlinked word. `emitted_words`: size
of the emitted vocabulary.
"""

FOLLOWERS = np.dtype([("plain", np.int64), ("collocated", np.int64)])
"""Numbers of words after an emitted word that a link (`plain`) or this word (`collocated`) generates."""


class Tokens(NamedTuple):
    """Positions of each of W emitted words. Only bhmm uses them."""

    # int64[W + 1]: word f is at the positions `position[offset[f] : offset[f + 1]]`.
    offset: NDArray[np.int64]
    # int32[N]: emitted positions, grouped by word. int32[N]: pair of each emitted position, not grouped.
    position: NDArray[np.int32]
    pair: NDArray[np.int32]
    # int16[N]: link of each emitted position before the position was last relinked (`hmm._relink`).
    saved_links: NDArray[np.int16]


def group_tokens(sides: Sides, vocabulary: int) -> Tokens:
    """Return the occurrences of each of `vocabulary` emitted words."""
    offset = np.zeros(vocabulary + 1, np.int64)
    np.cumsum(np.bincount(sides.emitted, minlength=vocabulary), out=offset[1:])
    lengths = np.diff(sides.emitted_offset)
    return Tokens(
        offset,
        np.argsort(sides.emitted, kind="stable").astype(np.int32),
        np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        np.zeros(len(sides.emitted), np.int16),
    )


NO_TOKENS = Tokens(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int16))


class AlignmentChain(NamedTuple):
    """State of one chain: links and collocations, their counts, and settings."""

    # int16[N]: conditioning position of each emitted position, or UNLINKED.
    links: NDArray[np.int16]
    # uint8[N]: 1 for a collocation, Z of [SA16 §3] (only bhmm-z).
    collocated: NDArray[np.uint8]
    pairs: WordPairs
    # CONDITIONING[V + 1]: counts by conditioning word, the empty word last.
    conditioning: NDArray[np.void]
    # float64[2L + 4]: counts of the jump events -L to L (`jump_events`), of jumps to the empty word, of jumps from the
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
    # Only bhmm-f uses evidence, and only bhmm uses tokens.
    evidence: LinkEvidence
    tokens: Tokens


class AlignmentScratch(NamedTuple):
    """Scratch memory of a worker for sentences of up to L conditioning words and M emitted words."""

    # float64[L + 1]: cumulative weight of each candidate, linear.
    weight: NDArray[np.float64]
    # int32[L + 1]: number of links of each conditioning position.
    fertility: NDArray[np.int32]
    # int16[M + 1]: conditioning position of the next link after each emitted position.
    after: NDArray[np.int16]
    # float64[L + 1]: factor of link weights that depends only on the conditioning position, linear.
    factor: NDArray[np.float64]
    # uint64[L + 1], int16[2, L + 1]: hash of each conditioning word, and positions that pass `may_have_row` with an
    # emitted word at an even or an odd position.
    hashed: NDArray[np.uint64]
    seen: NDArray[np.int16]
    # int16[L + 1]: next position of the same conditioning word. After the last position comes the first one.
    next_equal: NDArray[np.int16]


@njit_inline
def link_equal_words(words, start, length, scratch):
    """Fill `next_equal` for the conditioning sentence of `length` words at `start`. Reads `hashed`."""
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


def make_scratch(sides: Sides) -> AlignmentScratch:
    """Allocate scratch memory for the pairs of a direction."""
    size = sides.longest_conditioning + 1
    weight, factor = np.zeros((2, size))
    after, seen, next_equal = (np.zeros(s, np.int16) for s in (sides.longest_emitted + 1, (2, size), size))
    fertility, hashed = np.zeros(size, np.int32), np.zeros(size, np.uint64)
    return AlignmentScratch(weight, fertility, after, factor, hashed, seen, next_equal)


@njit_inline
def conditioning_word(sides, e_start, i, conditioning):
    """Return word i of the conditioning sentence at `e_start`, or the empty word if i is UNLINKED."""
    return len(conditioning) - 1 if i == UNLINKED else np.int64(sides.conditioning[e_start + i])


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
    """Return the probability of a jump width given its event: all widths of an event are equally likely."""
    middle = (len(jumps) - 4) // 2
    further = abs(event - middle) - SINGLE_WIDTHS
    # Exclude jumps to and from the empty word, which follow the widths.
    if further <= 0 or event > 2 * middle:
        return 1.0
    return 1.0 / (SINGLE_WIDTHS << (further - 1))


@njit_inline
def pick(weight, number, state):
    """Draw one of `number` candidates from the cumulative weights `weight`. Returns its index."""
    threshold = uniform(state) * weight[number - 1]
    for k in range(number - 1):
        if weight[k] > threshold:
            return k
    return number - 1
