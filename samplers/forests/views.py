"""One pair of a batch as the kernels see it, and the tails of its edges."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.forests.forest import NO_TAIL


class PairView(NamedTuple):
    """One pair's forest, words and variables: slices of the batch's arrays, see `Forests`, `Words` and `State`."""

    node: NDArray[np.void]
    tails: NDArray[np.uint16]
    source: NDArray[np.uint64]
    target: NDArray[np.uint64]
    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]


class ForestView(NamedTuple):
    """One pair's forest and variables: what of a `PairView` needs no words."""

    node: NDArray[np.void]
    tails: NDArray[np.uint16]
    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]


@njit_inline
def view_pair(batch, state, pair):
    """The slices of one pair."""
    forests, bitext, words = batch.forests, batch.bitext, batch.words
    a, b = forests.node_offset[pair], forests.node_offset[pair + 1]
    return PairView(
        forests.node[a:b],
        forests.tails[forests.pair_tail_offset[pair] : forests.pair_tail_offset[pair + 1]],
        words.source[bitext.source_offset[pair] : bitext.source_offset[pair + 1] + 1],
        words.target[bitext.target_offset[pair] : bitext.target_offset[pair + 1] + 1],
        state.edge[a:b],
        state.cut[a:b],
    )


@njit_inline
def view_forest(forests, edge, cut, pair):
    """The slices of one pair's forest and variables."""
    a, b = forests.node_offset[pair], forests.node_offset[pair + 1]
    return ForestView(
        forests.node[a:b],
        forests.tails[forests.pair_tail_offset[pair] : forests.pair_tail_offset[pair + 1]],
        edge[a:b],
        cut[a:b],
    )


@njit_inline
def tails_of(v, view):
    """Where the tails of v's present edge begin and end in `view.tails`; they stand there in source order."""
    arity = np.int64(view.node[v]["arity"])
    first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
    last = first + arity
    while last > first and view.tails[last - 1] == NO_TAIL:
        last -= 1
    return first, last


@njit_inline
def push_tails(v, view, stack, depth):
    """Push the tails of v's present edge, so that the first in source order is on top; the new depth."""
    first, last = tails_of(v, view)
    for i in range(last - 1, first - 1, -1):
        stack[depth] = view.tails[i]
        depth += 1
    return depth
