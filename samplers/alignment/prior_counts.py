"""Link counts of other sentence pairs, which a chain uses as prior counts.

Words have the same numbers as in the `Direction` that the chain aligns. The empty word has the number after the last
conditioning word, V.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import MAX_WORDS, DirectedBitext, Side
from hierogram.samplers.alignment.chain import MAX_FERTILITY, furthest_event, jump_events
from hierogram.samplers.alignment.counts import SHIFT, assign_row, find_pair, pair_key
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import AlignmentInputError

MAX_EVENT = furthest_event(MAX_WORDS)
"""Largest event (bin of jump widths) in the longest possible sentence."""
_WORDS_AT_ONCE = 1_000_000


class PriorCounts(NamedTuple):
    """Counts of links, fertilities and jumps of one direction."""

    # int32[K], int32[K], int64[K]: words of each distinct linked word pair, and its number of links.
    conditioning: NDArray[np.int32]
    emitted: NDArray[np.int32]
    counts: NDArray[np.int64]
    # int64[V + 1]: all links of each conditioning word, including links to words that occur only in other pairs.
    link_counts: NDArray[np.int64]
    # int64[V, `MAX_FERTILITY` + 1]: number of tokens of each conditioning word with 0, 1, … links. The last column also
    # counts tokens with more links.
    fertility: NDArray[np.int64]
    # int64[2 * MAX_EVENT + 1]: number of jumps of each event, from -MAX_EVENT to MAX_EVENT.
    jumps: NDArray[np.int64]
    # Number of distinct emitted words, including words that occur only in other pairs.
    emitted_words: int


PriorsByUnit = Sequence[Sequence[PriorCounts]]
"""Prior counts by unit (0: words, 1: stems), then by direction (0: forward, 1: backward)."""


@njit
def add_pair_counts(conditioning, emitted, count, pairs):
    """Add the counts of distinct word pairs to a table, which must have room for new rows."""
    for k in range(len(count)):
        key = pair_key(np.int64(conditioning[k]), np.int64(emitted[k]))
        row = find_pair(pairs.rows, pairs.registers[SHIFT], key)
        assign_row(pairs, row, key)
        pairs.rows[row]["count"] += count[k]


def count_direction_links(
    bitext: DirectedBitext, links: NDArray[np.int16], weight: NDArray[np.int64], conditioning_vocabulary: int
) -> PriorCounts:
    """Count links int16[N], each times the `weight` int64[P] of its pair, which may be 0 or negative.

    Omits word pairs of count 0. The caller sets `emitted_words`.
    """
    middle = bitext.pairs // 2
    if middle and len(links) > _WORDS_AT_ONCE:
        # Counting needs about 100 bytes per word, so count the halves one after the other to save memory.
        halves = []
        for first, last in ((0, middle), (middle, bitext.pairs)):
            emitted = bitext.emitted_offset[first : last + 1]
            conditioning = bitext.conditioning_offset[first : last + 1]
            words = slice(emitted[0], emitted[-1])
            half = DirectedBitext(
                bitext.emitted[words], emitted - emitted[0],
                bitext.conditioning[conditioning[0] : conditioning[-1]], conditioning - conditioning[0],
            )  # fmt: skip
            halves.append(count_direction_links(half, links[words], weight[first:last], conditioning_vocabulary))
        return add_counts(halves[0], halves[1])
    pair = np.repeat(np.arange(bitext.pairs), np.diff(bitext.emitted_offset))
    linked = links >= 0
    conditioning_row = bitext.conditioning_offset[pair] + links
    conditioning = np.full(len(links), conditioning_vocabulary, np.int64)
    conditioning[linked] = bitext.conditioning[conditioning_row[linked]]
    link_counts = np.zeros(conditioning_vocabulary + 1, np.int64)
    np.add.at(link_counts, conditioning, weight[pair])

    number = np.minimum(np.bincount(conditioning_row[linked], minlength=len(bitext.conditioning)), MAX_FERTILITY)
    fertility = np.zeros((conditioning_vocabulary, MAX_FERTILITY + 1), np.int64)
    np.add.at(fertility, (bitext.conditioning, number), np.repeat(weight, np.diff(bitext.conditioning_offset)))

    return PriorCounts(
        *_sum_pairs(conditioning << 32 | bitext.emitted, weight[pair]),
        link_counts,
        fertility,
        _count_jumps(bitext, links[linked].astype(np.int64), pair[linked], weight),
        0,
    )


def add_counts(first: PriorCounts, second: PriorCounts, sign: int = 1) -> PriorCounts:
    """Return `first` + `sign` * `second`, without word pairs of count 0. `emitted_words` is from `first`."""
    keys = [counts.conditioning.astype(np.int64) << 32 | counts.emitted for counts in (first, second)]
    return PriorCounts(
        *_sum_pairs(np.concatenate(keys), np.concatenate([first.counts, sign * second.counts])),
        first.link_counts + sign * second.link_counts,
        first.fertility + sign * second.fertility,
        first.jumps + sign * second.jumps,
        first.emitted_words,
    )


def _sum_pairs(
    keys: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return conditioning words, emitted words and summed counts of distinct keys with nonzero sums."""
    distinct, inverse = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, inverse, counts)
    kept = distinct[sums != 0]
    return (kept >> 32).astype(np.int32), (kept & 0xFFFFFFFF).astype(np.int32), sums[sums != 0]


def _count_jumps(
    bitext: DirectedBitext, position: NDArray[np.int64], pair: NDArray[np.int64], weight: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count jumps to each link from the previous link or the start, and from the last link to the end."""
    before = np.full(len(position), -1, np.int64)
    follows = pair[1:] == pair[:-1]
    before[1:][follows] = position[:-1][follows]
    last = np.full(bitext.pairs, -1, np.int64)
    # Assign all links of a pair: numpy keeps the last value, which is the last link.
    last[pair] = position
    with_words = np.diff(bitext.emitted_offset) > 0
    widths = np.concatenate([position - before, (np.diff(bitext.conditioning_offset) - last)[with_words]])
    jumps = np.zeros(2 * MAX_EVENT + 1, np.int64)
    weights = np.concatenate([weight[pair], weight[with_words]])
    np.add.at(jumps, jump_events(widths) + MAX_EVENT, weights)
    return jumps


def subtract_counts(counts: PriorCounts, subtracted: PriorCounts) -> PriorCounts:
    """Return `counts` - `subtracted`. Raises `AlignmentInputError` if a word pair has a negative count."""
    difference = add_counts(counts, subtracted, -1)
    if (difference.counts < 0).any():
        raise AlignmentInputError("the counts of the aligner do not match its links: run `hierogram verify`")
    return difference


def split_directions(links: LinkList, source: Side, target: Side) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return the link nearest to the diagonal of each target and each source word, int16[N], or -1."""
    pair = np.repeat(np.arange(len(links.offset) - 1), np.diff(links.offset))
    s, t = links.source.astype(np.int64), links.target.astype(np.int64)
    # Scale relative positions by both lengths, so that distances are exact integers.
    distance = np.abs((2 * s + 1) * np.diff(target.offset)[pair] - (2 * t + 1) * np.diff(source.offset)[pair])
    directions = []
    for words, partners, offset in ((t, s, target.offset), (s, t, source.offset)):
        word_rows = offset[pair] + words
        order = np.lexsort((partners, distance, word_rows))
        linked_rows, first = np.unique(word_rows[order], return_index=True)
        selected = np.full(int(offset[-1]), -1, np.int16)
        selected[linked_rows] = partners[order][first]
        directions.append(selected)
    return directions[0], directions[1]
