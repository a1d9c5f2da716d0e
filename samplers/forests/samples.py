"""Retained samples: the last few trees of each pair, as bytes one after the other.

A pair's samples are one byte string: for each, oldest first, its size in two bytes, little-endian, then the tree as
`hierogram.samplers.forests.derivations` encodes it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import decode_tree, empty_state, encode_tree, most_nodes
from hierogram.samplers.forests.forest import Forests
from hierogram.samplers.grammar.columns import Blobs

_SIZE_BYTES = 2
_LARGEST_TREE = 0xFFFF


class Trees(NamedTuple):
    """Trees of pairs, m of them: tree k, of pair `pairs[k]`, is `content[starts[k] : ends[k]]`.

    `pairs`, `starts` and `ends` int64[m], pairs ascending; a pair's trees are in the order of their age.
    """

    content: NDArray[np.uint8]
    pairs: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def of_rank(self, rank: int) -> "Trees":
        """Of each pair that has so many, the tree with this rank, from 0 on."""
        first = np.searchsorted(self.pairs, self.pairs, "left")
        chosen = np.arange(len(self.pairs)) - first == rank
        return Trees(self.content, self.pairs[chosen], self.starts[chosen], self.ends[chosen])


@njit
def _next(content, position, last):
    """Where the sample at `position` begins and ends; an end of -1 where it is cut short."""
    start = position + _SIZE_BYTES
    if start > last:
        return start, -1
    end = start + np.int64(content[position]) + 256 * np.int64(content[position + 1])
    return start, end if start < end <= last else -1


@njit
def _count_samples(content, offsets):
    """How many samples there are, and the first pair whose samples are cut short, or -1."""
    count = 0
    for pair in range(len(offsets) - 1):
        position = offsets[pair]
        while position < offsets[pair + 1]:
            _, position = _next(content, position, offsets[pair + 1])
            if position < 0:
                return count, pair
            count += 1
    return count, -1


@njit
def _list_samples(content, offsets, pairs, starts, ends):
    taken = 0
    for pair in range(len(offsets) - 1):
        position = offsets[pair]
        while position < offsets[pair + 1]:
            start, position = _next(content, position, offsets[pair + 1])
            pairs[taken] = pair
            starts[taken] = start
            ends[taken] = position
            taken += 1


def samples_of(retained: Blobs) -> Trees:
    """Every retained sample of every pair; raises `DerivationError` where a pair's are cut short."""
    number, cut_short = _count_samples(retained.content, retained.offsets)
    if cut_short >= 0:
        raise DerivationError(f"the retained samples of pair number {cut_short} of the batch are cut short")
    pairs, starts, ends = (np.empty(number, np.int64) for _ in range(3))
    _list_samples(retained.content, retained.offsets, pairs, starts, ends)
    return Trees(retained.content, pairs, starts, ends)


@njit
def _keep(forests, state, due, most, old, content, offsets, stack):
    """Write each pair's samples, with the present tree of those that are due, and at most so many."""
    position = 0
    for pair in range(len(due)):
        first, last = old.offsets[pair], old.offsets[pair + 1]
        if due[pair]:
            number = 0
            k = first
            while k < last:
                number += 1
                _, k = _next(old.content, k, last)
            while number >= most:
                number -= 1
                _, first = _next(old.content, first, last)
        for k in range(first, last):
            content[position] = old.content[k]
            position += 1
        if due[pair] and most > 0:
            start = position + _SIZE_BYTES
            end = encode_tree(forests, pair, state, stack, content, start)
            if end - start > _LARGEST_TREE:
                return -1 - pair
            content[position] = (end - start) & 0xFF
            content[position + 1] = (end - start) >> 8
            position = end
        offsets[pair + 1] = position
    return position


def trees_of(blobs: Blobs, chosen: NDArray[np.bool_] | None = None) -> Trees:
    """One tree of each chosen pair (of all, if None), as `encode_trees` gives them."""
    pairs = np.arange(blobs.size) if chosen is None else np.flatnonzero(chosen)
    return Trees(blobs.content, pairs, blobs.offsets[pairs], blobs.offsets[pairs + 1])


def keep_samples(forests: Forests, retained: Blobs, state: State, due: NDArray[np.bool_], most: int) -> Blobs:
    """The retained samples with the present trees of the pairs that are due, of each pair the last `most`.

    Raises `DerivationError` where a tree takes more bytes than the format can say.
    """
    nodes = np.diff(forests.node_offset)[due]
    content = np.empty(len(retained.content) + int(nodes.sum()) * 3 + _SIZE_BYTES * len(nodes), np.uint8)
    offsets = np.zeros(len(due) + 1, np.int64)
    stack = np.empty(most_nodes(forests) + 1, np.int64)
    size = _keep(forests, state, due, most, retained, content, offsets, stack)
    if size < 0:
        raise DerivationError(f"the tree of pair number {-1 - size} of the batch takes more than {_LARGEST_TREE} bytes")
    return Blobs(content[:size].copy(), offsets)


@njit
def _decode(forests, trees, stack, state):
    """The first pair whose tree does not fit its forest, or -1."""
    for k in range(len(trees.pairs)):
        pair = trees.pairs[k]
        if not decode_tree(forests, pair, trees.content, trees.starts[k], trees.ends[k], stack, state):
            return pair
    return -1


def decode_trees(forests: Forests, trees: Trees) -> State:
    """The variables of one tree of each pair; those off the trees are 0, as are those of pairs without one.

    Raises `DerivationError` where bytes do not fit their pair's forest.
    """
    state = empty_state(forests)
    wrong = _decode(forests, trees, np.empty(most_nodes(forests) + 1, np.int64), state)
    if wrong >= 0:
        raise DerivationError(f"a tree of pair number {wrong} of the batch does not fit its forest")
    return state
