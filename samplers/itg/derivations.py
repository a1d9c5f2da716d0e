"""ITG derivations as preorder strings of rule types, and the spans that follow from them.

A derivation of n source and m target words is a string of at most 2 (n + m) - 1 rule types, each internal node before
its left and then its right child. Left and right are in source order.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.itg.batch import ItgBatch

STRAIGHT, INVERTED, PAIR, SOURCE_NULL, TARGET_NULL = range(5)
"""Rule types: X → [X X], ⟨X X⟩, f/e, f/ε, ε/e."""
RULE_TYPES = 5

NODE = np.dtype(
    [
        ("rule", np.int16), ("i", np.int16), ("j", np.int16), ("x", np.int16), ("y", np.int16),
        ("size", np.int16), ("right", np.int16),
    ]
)  # fmt: skip
"""A node in preorder: its rule type, its half-open spans [i, j) and [x, y), the nodes of its subtree, and the place of
its right child (the left one follows at once)."""


class Derivations(NamedTuple):
    """A derivation for each pair: `rules` uint8[N] from `offset` int64[P + 1] on, `length` int32[P] of them in use."""

    rules: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]

    def copy(self) -> "Derivations":
        """The same derivations in arrays of their own."""
        return Derivations(self.rules.copy(), self.offset, self.length.copy())


def empty_derivations(batch: ItgBatch) -> Derivations:
    """Room for a derivation of each pair."""
    words = np.diff(batch.source_offset) + np.diff(batch.target_offset)
    offset = np.zeros(batch.size + 1, np.int64)
    np.cumsum(np.maximum(2 * words - 1, 0), out=offset[1:])
    return Derivations(np.zeros(int(offset[-1]), np.uint8), offset, np.zeros(batch.size, np.int32))


def longest_derivation(derivations: Derivations) -> int:
    """Nodes of the largest derivation that there is room for, 1 at least."""
    return int(np.diff(derivations.offset).max(initial=1))


@njit
def lay_out(rules, length, nodes):
    """Write the nodes NODE[length] of a derivation; whether the string is one derivation of at least one word."""
    depth = 0
    # From the end on: sizes. Until its parent is met, x and y of a node hold its numbers of words.
    for at in range(length - 1, -1, -1):
        node = nodes[at]
        rule = rules[at]
        node["rule"] = rule
        if rule > TARGET_NULL:
            return False
        if rule >= PAIR:
            node["j"] = 0 if rule == TARGET_NULL else 1
            node["y"] = 0 if rule == SOURCE_NULL else 1
            node["size"] = 1
            node["right"] = 0
            depth += 1
        else:
            if depth < 2:
                return False
            depth -= 1
            left = nodes[at + 1]
            right = at + 1 + left["size"]
            node["size"] = 1 + left["size"] + nodes[right]["size"]
            node["right"] = right
            node["j"] = left["j"] + nodes[right]["j"]
            node["y"] = left["y"] + nodes[right]["y"]
    if depth != 1:
        return False
    nodes[0]["i"] = 0
    nodes[0]["x"] = 0
    for at in range(length):
        node = nodes[at]
        if node["rule"] < PAIR:
            left, right = nodes[at + 1], nodes[node["right"]]
            left["i"] = node["i"]
            right["i"] = node["i"] + left["j"]
            if node["rule"] == STRAIGHT:
                left["x"] = node["x"]
                right["x"] = node["x"] + left["y"]
            else:
                right["x"] = node["x"]
                left["x"] = node["x"] + right["y"]
        node["j"] += node["i"]
        node["y"] += node["x"]
    return True


def nodes_of(derivations: Derivations, pair: int) -> NDArray[np.void]:
    """The nodes NODE[length] of one pair's derivation, in preorder."""
    nodes = np.zeros(int(derivations.length[pair]), NODE)
    lay_out(derivations.rules[derivations.offset[pair] :], len(nodes), nodes)
    return nodes


def encode(derivations: Derivations) -> Blobs:
    """Each pair's derivation as bytes, a rule type each."""
    offsets = np.zeros(len(derivations.length) + 1, np.int64)
    np.cumsum(derivations.length, out=offsets[1:])
    content = np.zeros(int(offsets[-1]), np.uint8)
    _pack(derivations, offsets, content)
    return Blobs(content, offsets)


@njit
def _pack(derivations, offsets, content):
    for pair in range(len(derivations.length)):
        for at in range(derivations.length[pair]):
            content[offsets[pair] + at] = derivations.rules[derivations.offset[pair] + at]


@njit
def _unpack(batch, offsets, content, derivations, nodes):
    """The first pair whose bytes are no derivation of its words, or -1."""
    for pair in range(len(derivations.length)):
        length = offsets[pair + 1] - offsets[pair]
        first = derivations.offset[pair]
        if length > derivations.offset[pair + 1] - first:
            return pair
        derivations.length[pair] = length
        for at in range(length):
            derivations.rules[first + at] = content[offsets[pair] + at]
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        if length == 0 and n + m == 0:
            continue
        if not lay_out(derivations.rules[first:], length, nodes) or nodes[0]["j"] != n or nodes[0]["y"] != m:
            return pair
    return -1


def decode(batch: ItgBatch, blobs: Blobs) -> Derivations:
    """Inverse of `encode`; raises `DerivationError` where bytes are no derivation of their pair."""
    derivations = empty_derivations(batch)
    nodes = np.zeros(longest_derivation(derivations), NODE)
    wrong = _unpack(batch, blobs.offsets, blobs.content, derivations, nodes)
    if wrong >= 0:
        raise DerivationError(f"the derivation of pair number {wrong} of the batch does not fit its words")
    return derivations
