"""Byte encoding of derivations: all variables of a pair's forest, or only the variables of its current tree.

The variables (edge, cut) of a node are encoded as 2·edge + cut in a LEB128 varint. A *state* lists all nodes in node
order, so that sampling can resume exactly. A *tree* lists the nodes of the derivation top-down in source order, which
suffices to count rules.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.forest import Forests, push_tails, view_pair
from hierogram.samplers.grammar.columns import Blobs

_MORE = 0x80
_MAX_BITS = 56


class Trees(NamedTuple):
    """m encoded trees: `content[starts[k] : ends[k]]` of pair `pairs[k]`, ascending; int64[m] except `content`."""

    content: NDArray[np.uint8]
    pairs: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def select_trees(blobs: Blobs, chosen: NDArray[np.bool_] | None = None) -> Trees:
    """Return one tree per chosen pair (all pairs if None) from the output of `encode_trees`."""
    pairs = np.arange(blobs.size) if chosen is None else np.flatnonzero(chosen)
    return Trees(blobs.content, pairs, blobs.offsets[pairs], blobs.offsets[pairs + 1])


@njit
def put_number(buffer, position, value):
    """Write a nonnegative number as a LEB128 varint. Returns the position after it."""
    while value >= _MORE:
        buffer[position] = (value & 0x7F) | _MORE
        value >>= 7
        position += 1
    buffer[position] = value
    return position + 1


@njit
def get_number(buffer, position, end):
    """Return the varint at `position` and the position after it; or (-1, position) if it is invalid."""
    value = 0
    shift = 0
    while position < end and shift < _MAX_BITS:
        byte = np.int64(buffer[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value if byte > 0 or shift == 0 else -1, position
        shift += 7
    return -1, position


@njit_inline
def is_variable(value, node):
    """Return whether 2·edge + cut is a value that the variables of a node can have.

    The cut is 1 where it is not free, including the root: samplers look for the head of a rule up to a cut node.
    """
    return 0 <= value < 2 * np.int64(node["degree"]) and (value & 1 == 1 or node["free"] == 1)


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
def _decode_states(forests, offsets, buffer, edge, cut, wrong):
    """Decode all variables, and mark pairs whose bytes do not match their forest in `wrong`."""
    for pair in range(len(forests.node_offset) - 1):
        position = offsets[pair]
        end = offsets[pair + 1]
        v = forests.node_offset[pair]
        last = forests.node_offset[pair + 1]
        while v < last:
            value, position = get_number(buffer, position, end)
            if not is_variable(value, forests.node[v]):
                break
            edge[v] = value >> 1
            cut[v] = value & 1
            v += 1
        wrong[pair] = v < last or position != end


@njit
def decode_tree(view, content, first, last, stack):
    """Decode a tree from bytes first..last into the pair's variables. Returns whether it matches the forest.

    `stack` must exceed the pair's number of nodes. Variables outside the tree do not change.
    """
    position = first
    stack[0] = len(view.node) - 1
    depth = 1
    while depth > 0:
        depth -= 1
        v = stack[depth]
        value, position = get_number(content, position, last)
        if not is_variable(value, view.node[v]):
            return False
        view.edge[v] = value >> 1
        view.cut[v] = value & 1
        depth = push_tails(v, view, stack, depth)
    return position == last


def encode_states(forests: Forests, state: State) -> Blobs:
    """Encode all variables of each pair as bytes."""
    offsets = np.zeros(forests.pairs + 1, np.int64)
    buffer = np.empty(3 * forests.nodes, np.uint8)
    size = _encode_states(forests, state.edge, state.cut, offsets, buffer)
    return Blobs(buffer[:size].copy(), offsets)


def encode_trees(batch: Batch, state: State) -> Blobs:
    """Encode the current derivation of each pair as bytes."""
    offsets = np.zeros(batch.size + 1, np.int64)
    buffer = np.empty(3 * batch.forests.nodes, np.uint8)
    size = _encode_trees(batch, state, np.empty(batch.most_nodes + 1, np.int64), offsets, buffer)
    return Blobs(buffer[:size].copy(), offsets)


def decode_states(forests: Forests, blobs: Blobs) -> State:
    """Decode the output of `encode_states`. Raises `DerivationError` if bytes do not match their pair's forest."""
    state = empty_state(forests)
    wrong = np.zeros(forests.pairs, np.bool_)
    _decode_states(forests, blobs.offsets, blobs.content, state.edge, state.cut, wrong)
    if wrong.any():
        raise misfit("derivation", "does not match its forest", wrong)
    return state


def misfit(part: str, reason: str, wrong: NDArray[np.bool_]) -> DerivationError:
    """Return the error for the pairs whose `part` is wrong, bool[P]. The message names the first one."""
    pairs = np.flatnonzero(wrong).tolist()
    return DerivationError(f"the {part} of pair number {pairs[0]} of the batch {reason}", pairs, f"its {part} {reason}")


def empty_state(forests: Forests) -> State:
    """Return a state with all variables 0."""
    return State(np.zeros(forests.nodes, np.uint16), np.zeros(forests.nodes, np.uint8))
