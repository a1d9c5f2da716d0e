"""Counts of other pairs, which a chain starts from, and the counts that links cause.

The numbers of words are those of the direction at hand; the number after the last conditioning word stands for no word.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.alignment.chain import MOST_FERTILITY
from hierogram.samplers.alignment.counts import SHIFT, find_pair, pair_key, take_row
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import AlignmentInputError

WIDEST_JUMP = 100


class PriorCounts(NamedTuple):
    """Counts of one direction.

    `conditioning`, `emitted` int32[K], distinct linked word pairs, `counts` int64[K] of each. `links` int64[V + 1] all
    links of each conditioning word, also to words that are not at hand; `fertility` int64[V, 8] tokens of each
    conditioning word by number of links; `jumps` int64[2 * WIDEST_JUMP + 1] by width, the widest ones clipped;
    `emitted_words` how many different words are emitted, at hand or not.
    """

    conditioning: NDArray[np.int32]
    emitted: NDArray[np.int32]
    counts: NDArray[np.int64]
    links: NDArray[np.int64]
    fertility: NDArray[np.int64]
    jumps: NDArray[np.int64]
    emitted_words: int


BothCounts = tuple[PriorCounts, PriorCounts]
"""Forward and backward."""

LearnedCounts = tuple[BothCounts, BothCounts]
"""Of words, and of stems."""


@njit
def enter_pairs(conditioning, emitted, count, pairs):
    """Add counts of word pairs, in place; the table has to have room for as many rows."""
    for k in range(len(count)):
        key = pair_key(np.int64(conditioning[k]), np.int64(emitted[k]))
        row = find_pair(pairs.rows, pairs.registers[SHIFT], key)
        take_row(pairs, row, key)
        pairs.rows[row]["count"] += count[k]


def counts_of_links(
    sides: Sides, links: NDArray[np.int16], weight: NDArray[np.int64], conditioning_words: int
) -> PriorCounts:
    """The counts that links cause, each pair's multiplied by its `weight` int64[P]; `emitted_words` is 0.

    The order of word pairs is that of (conditioning, emitted); those whose counts add up to 0 are left out.
    """
    lengths = np.diff(sides.emitted_offset)
    pair = np.repeat(np.arange(sides.pairs), lengths)
    linked = links >= 0
    place = sides.conditioning_offset[pair] + links
    conditioning = np.full(len(links), conditioning_words, np.int64)
    conditioning[linked] = sides.conditioning[place[linked]]
    keys, which = np.unique(conditioning << 32 | sides.emitted, return_inverse=True)
    count = np.zeros(len(keys), np.int64)
    np.add.at(count, which, weight[pair])
    of_word = np.zeros(conditioning_words + 1, np.int64)
    np.add.at(of_word, conditioning, weight[pair])

    number = np.minimum(np.bincount(place[linked], minlength=len(sides.conditioning)), MOST_FERTILITY)
    fertility = np.zeros((conditioning_words, MOST_FERTILITY + 1), np.int64)
    np.add.at(fertility, (sides.conditioning, number), np.repeat(weight, np.diff(sides.conditioning_offset)))

    kept = count != 0
    return PriorCounts(
        (keys[kept] >> 32).astype(np.int32),
        (keys[kept] & 0xFFFFFFFF).astype(np.int32),
        count[kept],
        of_word,
        fertility,
        _count_jumps(sides, links[linked].astype(np.int64), pair[linked], lengths, weight),
        0,
    )


def _count_jumps(
    sides: Sides,
    position: NDArray[np.int64],
    pair: NDArray[np.int64],
    lengths: NDArray[np.int64],
    weight: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Jumps to each link from the one before it, or from before the first word, and from the last one to the end."""
    before = np.full(len(position), -1, np.int64)
    follows = pair[1:] == pair[:-1]
    before[1:][follows] = position[:-1][follows]
    last = np.full(sides.pairs, -1, np.int64)
    # The last of several assignments to one place holds.
    last[pair] = position
    with_words = lengths > 0
    widths = np.concatenate([position - before, (np.diff(sides.conditioning_offset) - last)[with_words]])
    jumps = np.zeros(2 * WIDEST_JUMP + 1, np.int64)
    weights = np.concatenate([weight[pair], weight[with_words]])
    np.add.at(jumps, np.clip(widths, -WIDEST_JUMP, WIDEST_JUMP) + WIDEST_JUMP, weights)
    return jumps


def without(prior: PriorCounts, own: PriorCounts) -> PriorCounts:
    """Counts less those that pairs at hand have caused; word pairs that only these have are left out."""
    keys = prior.conditioning.astype(np.int64) << 32 | prior.emitted
    own_keys = own.conditioning.astype(np.int64) << 32 | own.emitted
    count = prior.counts.copy()
    if len(own_keys):
        order = np.argsort(keys)
        places = order[np.minimum(np.searchsorted(keys, own_keys, sorter=order), len(keys) - 1)]
        if not np.array_equal(keys[places], own_keys):
            raise AlignmentInputError("the aligner's counts lack what its links cause: run `hierogram verify`")
        count[places] -= own.counts
    kept = count > 0
    return PriorCounts(
        prior.conditioning[kept],
        prior.emitted[kept],
        count[kept],
        prior.links - own.links,
        prior.fertility - own.fertility,
        prior.jumps - own.jumps,
        prior.emitted_words,
    )


def links_of_alignment(
    words: NDArray[np.int64], partners: NDArray[np.int64], offset: NDArray[np.int64], own: NDArray[np.int64],
    other: NDArray[np.int64],
) -> NDArray[np.int16]:  # fmt: skip
    """One partner for each word, from an alignment that may have several: the one nearest to the diagonal.

    `words`, `partners` positions of all links of all pairs, `offset` int64[P + 1] where a pair's begin; `own`,
    `other` int64[P + 1] offsets of both sides. Words without a link get -1.
    """
    pair = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
    own_length, other_length = np.diff(own)[pair], np.diff(other)[pair]
    # Exact, in whole numbers: how far both positions' middles are from each other, relative to the sentences' lengths.
    distance = np.abs((2 * words + 1) * other_length - (2 * partners + 1) * own_length)
    place = own[pair] + words
    order = np.lexsort((partners, distance, place))
    places, first = np.unique(place[order], return_index=True)
    links = np.full(int(own[-1]), -1, np.int16)
    links[places] = partners[order][first]
    return links
