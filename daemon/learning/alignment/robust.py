"""Divide a corpus into counted pairs, which train the aligner, and uncounted pairs, which do not.

A pair with an empty side, or with sides of very different lengths, is rarely a translation, and its links would spoil
the counts. Only a few copies of a repeated pair are counted. Surplus copies get the links of the first copy.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side

EXTREME_RATIO = 9
"""Maximum ratio of the lengths of both sides, relative to the median ratio of the corpus."""
COUNTED_COPIES = 4
"""Number of copies that are all counted. A later copy is counted if its ordinal is a power of two."""


class Roles(NamedTuple):
    """Roles of the pairs of a corpus.

    `counted` int64[C]: indices of the pairs that are aligned together, ascending. `uncounted` int64[U]: indices of the
    pairs that are aligned given the counts of the counted pairs, ascending. `same_as` int64[P]: index of the pair whose
    links a pair gets. It is the index of the first copy for a surplus copy, and the pair's own index otherwise.
    """

    counted: NDArray[np.int64]
    uncounted: NDArray[np.int64]
    same_as: NDArray[np.int64]


def assign_roles(source: Side, target: Side) -> Roles:
    """Assign roles to all pairs. If n > 4 pairs are equal, 2 + ⌊log2 n⌋ copies are counted.

    If every pair has an empty side or very different lengths, all pairs except surplus copies are counted.
    """
    same_as = _copies(source, target)
    # Leave out surplus copies, so that frequent pairs do not determine the median ratio.
    kept = np.flatnonzero(same_as == np.arange(len(same_as)))
    lengths, target_lengths = np.diff(source.offset)[kept], np.diff(target.offset)[kept]
    filled = (lengths > 0) & (target_lengths > 0)
    scaled = lengths * (np.median(target_lengths[filled] / lengths[filled]) if filled.any() else 1.0)
    extreme = np.maximum(scaled, target_lengths) > EXTREME_RATIO * np.minimum(scaled, target_lengths)
    extreme |= ~filled
    return Roles(kept, kept[:0], same_as) if extreme.all() else Roles(kept[~extreme], kept[extreme], same_as)


def _copies(source: Side, target: Side) -> NDArray[np.int64]:
    pairs = len(source.offset) - 1
    # Hashes take a tenth of the memory of a dictionary of texts. Among ten million pairs, the probability of
    # a collision of 64-bit hashes is 3 in a million.
    hashes = np.fromiter(map(hash, zip(_sentences(source), _sentences(target), strict=True)), np.int64, pairs)
    order = np.argsort(hashes, kind="stable")
    is_first = np.ones(pairs, np.bool_)
    is_first[1:] = hashes[order[1:]] != hashes[order[:-1]]
    begin = np.maximum.accumulate(np.where(is_first, np.arange(pairs), 0))
    copies = np.arange(pairs) - begin + 1
    is_surplus = (copies > COUNTED_COPIES) & (copies & (copies - 1) != 0)
    same_as = np.arange(pairs)
    same_as[order[is_surplus]] = order[begin[is_surplus]]
    return same_as


def _sentences(side: Side) -> Iterator[bytes]:
    for start, stop in pairwise(side.offset):
        yield side.words[start:stop].tobytes()


def empty_pairs(side: Side, pairs: Sequence[int]) -> Side:
    """Return the side with empty sentences for the pairs at these indices."""
    lengths = np.diff(side.offset)
    is_kept = np.isin(np.arange(len(lengths)), pairs, invert=True)
    offset = np.concatenate([side.offset[:1], np.cumsum(lengths * is_kept)])
    return Side(side.words[np.repeat(is_kept, lengths)], offset, side.vocabulary)


def select_pairs(side: Side, pairs: NDArray[np.int64]) -> Side:
    """Return the side with only the pairs at these ascending indices. The vocabulary remains complete."""
    if len(pairs) == len(side.offset) - 1:
        return side
    lengths = np.diff(side.offset)
    is_chosen = np.zeros(len(lengths), np.bool_)
    is_chosen[pairs] = True
    return Side(side.words[np.repeat(is_chosen, lengths)], np.append(0, np.cumsum(lengths[pairs])), side.vocabulary)
