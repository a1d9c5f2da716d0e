"""Derivations as bytes: every variable of a pair's forest, or those of its present tree alone.

A variable pair (edge, cut) is the number 2·edge + cut, written as a LEB128 varint. A *state* lists all nodes in
node order, so that sampling goes on exactly where it stopped; a *tree* lists the nodes of the derivation
top-down in source order, which is all that a rule count needs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.forest import Forests, push_tails, view_pair
from hierogram.samplers.grammar.columns import Blobs

_MORE = 0x80
_MOST_BITS = 56


class Trees(NamedTuple):
    """Trees of pairs, m of them: tree k, of pair `pairs[k]`, is `content[starts[k] : ends[k]]`.

    `pairs`, `starts` and `ends` int64[m], pairs ascending.
    """

    content: NDArray[np.uint8]
    pairs: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def trees_of(blobs: Blobs, chosen: NDArray[np.bool_] | None = None) -> Trees:
    """One tree of each chosen pair (of all, if None), as `encode_trees` gives them."""
    pairs = np.arange(blobs.size) if chosen is None else np.flatnonzero(chosen)
    return Trees(blobs.content, pairs, blobs.offsets[pairs], blobs.offsets[pairs + 1])


@njit
def put_number(buffer, position, value):
    """Write a number from 0 on as LEB128 varint; the position after it."""
    while value >= _MORE:
        buffer[position] = (value & 0x7F) | _MORE
        value >>= 7
        position += 1
    buffer[position] = value
    return position + 1


@njit
def get_number(buffer, position, end):
    """The varint at `position` and where the next begins; (-1, position) where the bytes end too soon."""
    value = 0
    shift = 0
    while position < end and shift < _MOST_BITS:
        byte = np.int64(buffer[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, position
        shift += 7
    return -1, position


@njit
def _encode_states(forests, edge, cut, offsets, buffer):
    position = 0
    for pair in range(len(forests.node_offset) - 1):
        for v in range(forests.node_offset[pair], forests.node_offset[pair + 1]):
            position = put_number(buffer, position, 2 * np.int64(edge[v]) + np.int64(cut[v]))
        offsets[pair + 1] = position
    return position


@njit
def _encode_trees(batch, state, stack, offsets, content):
    position = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        stack[0] = len(view.node) - 1
        depth = 1
        while depth > 0:
            depth -= 1
            v = stack[depth]
            position = put_number(content, position, 2 * np.int64(view.edge[v]) + np.int64(view.cut[v]))
            depth = push_tails(v, view, stack, depth)
        offsets[pair + 1] = position
    return position


@njit
def _decode_states(forests, offsets, buffer, edge, cut):
    """The first pair whose bytes do not fit its forest, or -1."""
    for pair in range(len(forests.node_offset) - 1):
        position = offsets[pair]
        end = offsets[pair + 1]
        for v in range(forests.node_offset[pair], forests.node_offset[pair + 1]):
            value, position = get_number(buffer, position, end)
            if value < 0 or value >> 1 >= np.int64(forests.node[v]["degree"]):
                return pair
            edge[v] = value >> 1
            cut[v] = value & 1
        if position != end:
            return pair
    return -1


@njit
def decode_tree(view, content, first, last, stack):
    """Set the variables of a pair's tree that the bytes first..last hold; whether they fit its forest.

    `stack` has room for a number more than the pair has nodes. Variables off the tree stay as they are.
    """
    position = first
    stack[0] = len(view.node) - 1
    depth = 1
    while depth > 0:
        depth -= 1
        v = stack[depth]
        value, position = get_number(content, position, last)
        if value < 0 or value >> 1 >= np.int64(view.node[v]["degree"]):
            return False
        view.edge[v] = value >> 1
        view.cut[v] = value & 1
        depth = push_tails(v, view, stack, depth)
    return position == last


def encode_states(forests: Forests, state: State) -> Blobs:
    """Each pair's variables as bytes."""
    offsets = np.zeros(forests.pairs + 1, np.int64)
    buffer = np.empty(3 * forests.nodes, np.uint8)
    size = _encode_states(forests, state.edge, state.cut, offsets, buffer)
    return Blobs(buffer[:size].copy(), offsets)


def encode_trees(batch: Batch, state: State) -> Blobs:
    """Each pair's present derivation as bytes."""
    offsets = np.zeros(batch.size + 1, np.int64)
    buffer = np.empty(3 * batch.forests.nodes, np.uint8)
    size = _encode_trees(batch, state, np.empty(batch.most_nodes + 1, np.int64), offsets, buffer)
    return Blobs(buffer[:size].copy(), offsets)


def decode_states(forests: Forests, blobs: Blobs) -> State:
    """Inverse of `encode_states`; raises `DerivationError` where bytes do not fit their pair's forest."""
    state = empty_state(forests)
    wrong = _decode_states(forests, blobs.offsets, blobs.content, state.edge, state.cut)
    if wrong >= 0:
        raise DerivationError(f"the derivation of pair number {wrong} of the batch does not fit its forest")
    return state


def empty_state(forests: Forests) -> State:
    """All variables 0."""
    return State(np.zeros(forests.nodes, np.uint16), np.zeros(forests.nodes, np.uint8))
