"""Counts of other pairs that a chain starts from, and the counts of given links.

Words are numbered as in the direction; the number after the last conditioning word is the empty word.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import MAX_WORDS, Sides
from hierogram.samplers.alignment.chain import MAX_FERTILITY, furthest_event, jump_events
from hierogram.samplers.alignment.counts import SHIFT, find_pair, pair_key, take_row
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import AlignmentInputError

MAX_EVENTS = furthest_event(MAX_WORDS)
"""Largest event of a jump in any sentence."""
_WORDS_AT_ONCE = 1_000_000


class PriorCounts(NamedTuple):
    """Counts of one direction."""

    # int32[K], int32[K], int64[K]: distinct linked word pairs and their counts.
    conditioning: NDArray[np.int32]
    emitted: NDArray[np.int32]
    counts: NDArray[np.int64]
    # int64[V + 1]: all links of each conditioning word, including links to words outside the direction.
    links: NDArray[np.int64]
    # int64[V, 8]: tokens of each conditioning word by number of links.
    fertility: NDArray[np.int64]
    # int64[2 * MAX_EVENTS + 1]: jumps by event, from -MAX_EVENTS.
    jumps: NDArray[np.int64]
    # Number of distinct emitted words, including words outside the direction.
    emitted_words: int


BothCounts = tuple[PriorCounts, PriorCounts]
"""Counts of the forward and the backward direction."""

LearnedCounts = tuple[BothCounts, BothCounts]
"""Counts of words and of stems."""


@njit
def enter_pairs(conditioning, emitted, count, pairs):
    """Add counts of word pairs, in place; the table must have room for them."""
    for k in range(len(count)):
        key = pair_key(np.int64(conditioning[k]), np.int64(emitted[k]))
        row = find_pair(pairs.rows, pairs.registers[SHIFT], key)
        take_row(pairs, row, key)
        pairs.rows[row]["count"] += count[k]


def count_direction_links(
    sides: Sides, links: NDArray[np.int16], weight: NDArray[np.int64], conditioning_words: int
) -> PriorCounts:
    """Return the counts of links, weighted by each pair's `weight` int64[P]; `emitted_words` is 0.

    Word pairs are sorted by (conditioning, emitted); those with a count of 0 are omitted.
    """
    middle = sides.pairs // 2
    if middle and len(links) > _WORDS_AT_ONCE:
        # Counting takes a hundred bytes per word.
        halves = []
        for first, last in ((0, middle), (middle, sides.pairs)):
            emitted = sides.emitted_offset[first : last + 1]
            conditioning = sides.conditioning_offset[first : last + 1]
            words = slice(emitted[0], emitted[-1])
            half = Sides(
                sides.emitted[words], emitted - emitted[0],
                sides.conditioning[conditioning[0] : conditioning[-1]], conditioning - conditioning[0],
            )  # fmt: skip
            halves.append(count_direction_links(half, links[words], weight[first:last], conditioning_words))
        return _add_counts(*halves)
    lengths = np.diff(sides.emitted_offset)
    pair = np.repeat(np.arange(sides.pairs), lengths)
    linked = links >= 0
    conditioning_row = sides.conditioning_offset[pair] + links
    conditioning = np.full(len(links), conditioning_words, np.int64)
    conditioning[linked] = sides.conditioning[conditioning_row[linked]]
    keys, which = np.unique(conditioning << 32 | sides.emitted, return_inverse=True)
    count = np.zeros(len(keys), np.int64)
    np.add.at(count, which, weight[pair])
    of_word = np.zeros(conditioning_words + 1, np.int64)
    np.add.at(of_word, conditioning, weight[pair])

    number = np.minimum(np.bincount(conditioning_row[linked], minlength=len(sides.conditioning)), MAX_FERTILITY)
    fertility = np.zeros((conditioning_words, MAX_FERTILITY + 1), np.int64)
    np.add.at(fertility, (sides.conditioning, number), np.repeat(weight, np.diff(sides.conditioning_offset)))

    nonzero = count != 0
    return PriorCounts(
        (keys[nonzero] >> 32).astype(np.int32),
        (keys[nonzero] & 0xFFFFFFFF).astype(np.int32),
        count[nonzero],
        of_word,
        fertility,
        _count_jumps(sides, links[linked].astype(np.int64), pair[linked], lengths, weight),
        0,
    )


def _add_counts(one: PriorCounts, other: PriorCounts) -> PriorCounts:
    keys = [counts.conditioning.astype(np.int64) << 32 | counts.emitted for counts in (one, other)]
    distinct, which = np.unique(np.concatenate(keys), return_inverse=True)
    count = np.zeros(len(distinct), np.int64)
    np.add.at(count, which, np.concatenate([one.counts, other.counts]))
    nonzero = count != 0
    return PriorCounts(
        (distinct[nonzero] >> 32).astype(np.int32),
        (distinct[nonzero] & 0xFFFFFFFF).astype(np.int32),
        count[nonzero],
        one.links + other.links,
        one.fertility + other.fertility,
        one.jumps + other.jumps,
        0,
    )


def _count_jumps(
    sides: Sides,
    position: NDArray[np.int64],
    pair: NDArray[np.int64],
    lengths: NDArray[np.int64],
    weight: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return jumps to each link from the previous one or the start, and from the last link to the end."""
    before = np.full(len(position), -1, np.int64)
    follows = pair[1:] == pair[:-1]
    before[1:][follows] = position[:-1][follows]
    last = np.full(sides.pairs, -1, np.int64)
    # If several values are assigned to one index, the last one remains.
    last[pair] = position
    with_words = lengths > 0
    widths = np.concatenate([position - before, (np.diff(sides.conditioning_offset) - last)[with_words]])
    jumps = np.zeros(2 * MAX_EVENTS + 1, np.int64)
    weights = np.concatenate([weight[pair], weight[with_words]])
    np.add.at(jumps, jump_events(widths) + MAX_EVENTS, weights)
    return jumps


def subtract_counts(prior: PriorCounts, subtracted: PriorCounts) -> PriorCounts:
    """Subtract the counts of given pairs; word pairs without remaining counts are omitted."""
    keys = prior.conditioning.astype(np.int64) << 32 | prior.emitted
    own_keys = subtracted.conditioning.astype(np.int64) << 32 | subtracted.emitted
    count = prior.counts.copy()
    if len(own_keys):
        order = np.argsort(keys)
        rows = order[np.minimum(np.searchsorted(keys, own_keys, sorter=order), len(keys) - 1)]
        if not np.array_equal(keys[rows], own_keys):
            raise AlignmentInputError("the counts of the aligner do not match its links: run `hierogram verify`")
        count[rows] -= subtracted.counts
    positive = count > 0
    return PriorCounts(
        prior.conditioning[positive],
        prior.emitted[positive],
        count[positive],
        prior.links - subtracted.links,
        prior.fertility - subtracted.fertility,
        prior.jumps - subtracted.jumps,
        prior.emitted_words,
    )


def select_links(
    words: NDArray[np.int64], partners: NDArray[np.int64], offset: NDArray[np.int64], own_offset: NDArray[np.int64],
    partner_offset: NDArray[np.int64],
) -> NDArray[np.int16]:  # fmt: skip
    """Return one partner of each word from a many-to-many alignment, the nearest to the diagonal, or -1.

    `words` and `partners` are positions of all links, with `offset` int64[P + 1]; `own_offset` and `partner_offset`
    int64[P + 1] are the sentence offsets of both sides.
    """
    pair = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
    own_length, other_length = np.diff(own_offset)[pair], np.diff(partner_offset)[pair]
    # Distance between relative positions in exact integers: both sides are scaled by the lengths.
    distance = np.abs((2 * words + 1) * other_length - (2 * partners + 1) * own_length)
    word_rows = own_offset[pair] + words
    order = np.lexsort((partners, distance, word_rows))
    linked_rows, first = np.unique(word_rows[order], return_index=True)
    links = np.full(int(own_offset[-1]), -1, np.int16)
    links[linked_rows] = partners[order][first]
    return links
