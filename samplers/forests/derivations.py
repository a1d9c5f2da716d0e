"""Derivations as bytes: every variable of a pair's forest, or those of its present tree alone.

A variable pair (edge, cut) is the number 2·edge + cut, written as a LEB128 varint. A *state* lists all nodes in
node order, so that sampling goes on exactly where it stopped; a *tree* lists the nodes of the derivation
top-down in source order, which is all that a rule count needs.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.forest import Forests
from hierogram.samplers.forests.views import push_tails, view_forest

_MORE = 0x80


@njit
def _put(buffer, position, value):
    while value >= _MORE:
        buffer[position] = (value & 0x7F) | _MORE
        value >>= 7
        position += 1
    buffer[position] = value
    return position + 1


@njit
def _get(buffer, position, end):
    """The varint at `position` and where the next begins; (-1, position) where the bytes end too soon."""
    value = 0
    shift = 0
    while position < end and shift < 28:
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
            position = _put(buffer, position, 2 * np.int64(edge[v]) + np.int64(cut[v]))
        offsets[pair + 1] = position
    return position


@njit
def _encode_trees(forests, edge, cut, stack, offsets, buffer):
    position = 0
    for pair in range(len(forests.node_offset) - 1):
        view = view_forest(forests, edge, cut, pair)
        stack[0] = len(view.node) - 1
        depth = 1
        while depth > 0:
            depth -= 1
            v = stack[depth]
            position = _put(buffer, position, 2 * np.int64(view.edge[v]) + np.int64(view.cut[v]))
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
            value, position = _get(buffer, position, end)
            if value < 0 or value >> 1 >= np.int64(forests.node[v]["degree"]):
                return pair
            edge[v] = value >> 1
            cut[v] = value & 1
        if position != end:
            return pair
    return -1


@njit
def _decode_trees(forests, offsets, buffer, stack, edge, cut):
    for pair in range(len(forests.node_offset) - 1):
        position = offsets[pair]
        end = offsets[pair + 1]
        if position == end:
            continue
        view = view_forest(forests, edge, cut, pair)
        stack[0] = len(view.node) - 1
        depth = 1
        while depth > 0:
            depth -= 1
            v = stack[depth]
            value, position = _get(buffer, position, end)
            if value < 0 or value >> 1 >= np.int64(view.node[v]["degree"]):
                return pair
            view.edge[v] = value >> 1
            view.cut[v] = value & 1
            depth = push_tails(v, view, stack, depth)
        if position != end:
            return pair
    return -1


def _slices(buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> list[bytes]:
    joined = buffer.tobytes()
    bounds = offsets.tolist()
    return [joined[a:b] for a, b in pairwise(bounds)]


def _most_nodes(forests: Forests) -> int:
    return int(np.diff(forests.node_offset).max(initial=1))


def encode_states(forests: Forests, state: State) -> list[bytes]:
    """Each pair's variables as bytes."""
    offsets = np.zeros(forests.pairs + 1, np.int64)
    buffer = np.empty(3 * forests.nodes, np.uint8)
    size = _encode_states(forests, state.edge, state.cut, offsets, buffer)
    return _slices(buffer[:size], offsets)


def encode_trees(forests: Forests, state: State) -> list[bytes]:
    """Each pair's present derivation as bytes."""
    offsets = np.zeros(forests.pairs + 1, np.int64)
    buffer = np.empty(3 * forests.nodes, np.uint8)
    stack = np.empty(_most_nodes(forests) + 1, np.int64)
    size = _encode_trees(forests, state.edge, state.cut, stack, offsets, buffer)
    return _slices(buffer[:size], offsets)


def _join(blobs: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    offsets = np.cumsum([0, *[len(blob) for blob in blobs]], dtype=np.int64)
    return np.frombuffer(b"".join(blobs), np.uint8), offsets


def decode_states(forests: Forests, blobs: list[bytes]) -> State:
    """Inverse of `encode_states`; raises `DerivationError` where bytes do not fit their pair's forest."""
    buffer, offsets = _join(blobs)
    state = State(np.zeros(forests.nodes, np.uint16), np.zeros(forests.nodes, np.uint8))
    wrong = _decode_states(forests, offsets, buffer, state.edge, state.cut)
    if wrong >= 0:
        raise DerivationError(f"the derivation of pair number {wrong} of the batch does not fit its forest")
    return state


def decode_trees(forests: Forests, blobs: list[bytes]) -> State:
    """Inverse of `encode_trees`; nodes off the tree are 0, and a pair with no bytes has none on it.

    Raises `DerivationError` where bytes do not fit their pair's forest.
    """
    buffer, offsets = _join(blobs)
    state = State(np.zeros(forests.nodes, np.uint16), np.zeros(forests.nodes, np.uint8))
    stack = np.empty(_most_nodes(forests) + 1, np.int64)
    wrong = _decode_trees(forests, offsets, buffer, stack, state.edge, state.cut)
    if wrong >= 0:
        raise DerivationError(f"the derivation of pair number {wrong} of the batch does not fit its forest")
    return state


def pack_ring(samples: list[bytes]) -> bytes:
    """Sampled trees, oldest first, as one blob: for each its size in two bytes, little-endian, then its bytes."""
    return b"".join(len(sample).to_bytes(2, "little") + sample for sample in samples)


def unpack_ring(blob: bytes) -> list[bytes]:
    """Inverse of `pack_ring`; raises `DerivationError` where the blob is cut short."""
    samples = []
    position = 0
    while position < len(blob):
        size = int.from_bytes(blob[position : position + 2], "little")
        sample = blob[position + 2 : position + 2 + size]
        if len(sample) != size or size == 0:
            raise DerivationError("a ring of samples is cut short")
        samples.append(sample)
        position += 2 + size
    return samples
