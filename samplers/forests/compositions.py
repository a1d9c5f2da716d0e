"""Compositions: short rules of every granularity, from one tree of each pair's forest.

Each phrase of the tree is a rule as it is, whole, and once for each phrase below it, that one left open. So rules that
a derivation has joined, or divided, are there as well: new text needs phrases of all granularities
[Neubig et al. 2011]. The tree is the one in which every node has its first edge, so compositions follow from a pair's
links alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.averages import encode_fragment
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.derivations import empty_state
from hierogram.samplers.forests.forest import push_tails, view_pair
from hierogram.samplers.forests.fragments import key_of
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.forests.walk import make_summary, walk_space
from hierogram.samplers.grammar.rules import HIERO_MAX_SOURCE_SYMBOLS

LONGEST = 10
"""Words of a phrase on either side, at most [Chiang 2007]."""
_BYTES_A_NODE = 3


@njit_inline
def _words(node, side):
    """Return the words of a node on a side."""
    if side == 0:
        return np.int64(node["source_end"]) - np.int64(node["source_start"])
    return np.int64(node["target_end"]) - np.int64(node["target_start"])


@njit_inline
def _is_short(v, view):
    node = view.node[v]
    return node["free"] and _words(node, 0) <= LONGEST and _words(node, 1) <= LONGEST


@njit
def _below(v, view, stack, below):
    """Write the nodes below v in its tree to `below`; how many there are."""
    depth = push_tails(v, view, stack, 0)
    found = 0
    while depth > 0:
        depth -= 1
        x = np.int64(stack[depth])
        below[found] = x
        found += 1
        depth = push_tails(x, view, stack, depth)
    return found


@njit
def _room_of(batch, state, work):
    """Return how many compositions the pairs have at most, and bytes of these."""
    compositions = 0
    size = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        for k in range(_below(len(view.node) - 1, view, work.stack, work.scratch[0])):
            v = work.scratch[0, k]
            if _is_short(v, view):
                most = 1 + _below(v, view, work.stack, work.scratch[1])
                compositions += most
                size += _BYTES_A_NODE * most * most
    return compositions, size


@njit
def _write(pair, v, view, batch, work, found, taken, position):
    """Write the fragment at v, and the low word of its rule's key; where the next one begins."""
    work.registers[0]["epoch"] += 1
    make_summary(v, view, work)
    _, found.keys[taken] = key_of(work.summary, v, batch.words.key_mask)
    found.fragments.pairs[taken] = pair
    found.fragments.roots[taken] = v
    found.fragments.starts[taken] = position
    position = encode_fragment(v, view, work.pending, found.fragments.content, position)
    found.fragments.ends[taken] = position
    return position


@njit
def _compose(batch, state, nodes, below, work, found):
    """Write the compositions of all pairs; how many there are."""
    taken = 0
    position = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        for k in range(_below(len(view.node) - 1, view, work.stack, nodes)):
            v = nodes[k]
            if not _is_short(v, view):
                continue
            if _words(view.node[v], 0) <= HIERO_MAX_SOURCE_SYMBOLS:
                position = _write(pair, v, view, batch, work, found, taken, position)
                taken += 1
            for j in range(_below(v, view, work.stack, below)):
                x = below[j]
                # Both phrases end in linked words, so that the rule has words of its own on both sides.
                if _words(view.node[v], 0) - _words(view.node[x], 0) < HIERO_MAX_SOURCE_SYMBOLS:
                    view.cut[x] = 1
                    position = _write(pair, v, view, batch, work, found, taken, position)
                    view.cut[x] = 0
                    taken += 1
    return taken


class Compositions(NamedTuple):
    """Compositions as fragments, and the low word of each rule's key, uint64[m]."""

    fragments: Fragments
    keys: NDArray[np.uint64]

    def chosen(self, rows: NDArray[np.bool_]) -> Fragments:
        """Return some of the fragments."""
        content, *columns = self.fragments
        return Fragments(content, *(column[rows] for column in columns))


def compositions(batch: Batch, weight: int) -> Compositions:
    """Return the compositions of a batch's pairs, each of which counts for `weight`.

    They are those of phrases of at most `LONGEST` words whose cut is free. A rule has at most
    `HIERO_MAX_SOURCE_SYMBOLS` source symbols.
    """
    state, work = empty_state(batch.forests), walk_space(batch)
    number, size = _room_of(batch, state, work)
    columns = [np.zeros(number, np.int64) for _ in range(6)]
    found = Compositions(Fragments(np.zeros(size, np.uint8), *columns), np.zeros(number, np.uint64))
    nodes, below = np.zeros((2, batch.most_nodes + 1), np.int64)
    taken = _compose(batch, state, nodes, below, work, found)
    found.fragments.weights[:] = weight
    return Compositions(found.chosen(np.arange(number) < taken), found.keys[:taken])
