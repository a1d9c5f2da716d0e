"""ITG derivations as strings of rule codes in preorder, and the spans of their nodes.

A derivation of n source and m target words has up to 2 (n + m) - 1 rules. In preorder, a node is followed by the
subtree of its left child, then of its right child. Left and right are in source order. The code of a rule is its type,
or for a phrase pair `phrase_rule` of both lengths. Codes do not identify words, unlike the rule numbers of
`hierogram.samplers.itg.model`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.forests.derivations import mismatch_error
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.numbers import MAX_ITG_PHRASE_LENGTH
from hierogram.samplers.itg.batch import ItgBatch

STRAIGHT, INVERTED, PAIR, SOURCE_NULL, TARGET_NULL = range(5)
"""Rule types: X → [X X], ⟨X X⟩, f/e, f/ε, ε/e. Codes from `PAIR` on are emissions."""
RULE_TYPES = 5

_PHRASE_BASE = MAX_ITG_PHRASE_LENGTH
"""The rule of a phrase pair of s source and t target words has the code `_PHRASE_BASE` * s + t."""
_FIRST_PHRASE, _LAST_PHRASE = _PHRASE_BASE + 2, _PHRASE_BASE * _PHRASE_BASE + _PHRASE_BASE

NODE = np.dtype([(name, np.int16) for name in ("rule", "i", "j", "x", "y", "size", "right")])
"""Node of a derivation in preorder: rule code, source span [i, j), and target span [x, y).

`size` is the number of nodes of its subtree. `right` is the index of its right child, or 0 for an emission. The left
child is the next node.
"""


@njit_inline
def source_words(rule):
    """Return the number of source words that an emission emits."""
    if rule > TARGET_NULL:
        return (rule - 1) // _PHRASE_BASE
    return 0 if rule == TARGET_NULL else 1


@njit_inline
def target_words(rule):
    """Return the number of target words that an emission emits."""
    if rule > TARGET_NULL:
        return (rule - 1) % _PHRASE_BASE + 1
    return 0 if rule == SOURCE_NULL else 1


@njit_inline
def phrase_rule(height, width):
    """Return the code of the rule that emits `height` source and `width` target words, both at least 1."""
    return PAIR if height == 1 and width == 1 else _PHRASE_BASE * height + width


@njit_inline
def rule_type(rule):
    """Return the type of a rule. All phrase pairs have the type `PAIR`."""
    return PAIR if rule > TARGET_NULL else rule


class Derivations(NamedTuple):
    """Derivations of P pairs. Pair k has the codes `rules[offset[k] : offset[k] + length[k]]`, or none."""

    rules: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]

    def copy(self) -> "Derivations":
        """Return a copy with its own arrays."""
        return Derivations(self.rules.copy(), self.offset, self.length.copy())


def empty_derivations(batch: ItgBatch) -> Derivations:
    """Allocate derivations of a batch, in which no pair has a derivation yet."""
    words = np.diff(batch.source_offset) + np.diff(batch.target_offset)
    offset = np.zeros(batch.size + 1, np.int64)
    np.cumsum(np.maximum(2 * words - 1, 0), out=offset[1:])
    return Derivations(np.zeros(int(offset[-1]), np.uint8), offset, np.zeros(batch.size, np.int32))


def longest_derivation(derivations: Derivations) -> int:
    """Return the maximum number of rules that a derivation of these pairs can have, at least 1."""
    return int(np.diff(derivations.offset).max(initial=1))


@njit
def build_nodes(rules, length, nodes):
    """Write a derivation's nodes. Returns False if the rules are not one nonempty derivation."""
    depth = 0
    # Loop from the end, since sizes depend on children. Until the second loop, `j` and `y` are numbers of words.
    for at in range(length - 1, -1, -1):
        node = nodes[at]
        rule = rules[at]
        node["rule"] = rule
        if rule > _LAST_PHRASE or TARGET_NULL < rule < _FIRST_PHRASE:
            return False
        if rule >= PAIR:
            node["j"] = source_words(rule)
            node["y"] = target_words(rule)
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


@njit
def build_pair_nodes(batch, pair, rules, length, nodes):
    """Write a derivation's nodes. Returns False unless it derives the pair with phrases of valid length."""
    if not build_nodes(rules, length, nodes):
        return False
    if nodes[0]["j"] != batch.source_offset[pair + 1] - batch.source_offset[pair]:
        return False
    if nodes[0]["y"] != batch.target_offset[pair + 1] - batch.target_offset[pair]:
        return False
    for at in range(length):
        rule = np.int64(nodes[at]["rule"])
        if rule > TARGET_NULL and max(source_words(rule), target_words(rule)) > batch.phrases.longest:
            return False
    return True


def list_nodes(derivations: Derivations, pair: int) -> NDArray[np.void]:
    """Return the nodes of a pair's derivation in preorder, NODE[length]."""
    nodes = np.zeros(int(derivations.length[pair]), NODE)
    build_nodes(derivations.rules[derivations.offset[pair] :], len(nodes), nodes)
    return nodes


@njit_allocating
def encode(derivations: Derivations) -> Blobs:
    """Return the derivation of each pair as bytes, one per rule. Inverse of `decode`."""
    offsets = np.zeros(len(derivations.length) + 1, np.int64)
    content = np.empty(derivations.length.sum(), np.uint8)
    for pair in range(len(derivations.length)):
        for at in range(derivations.length[pair]):
            content[offsets[pair] + at] = derivations.rules[derivations.offset[pair] + at]
        offsets[pair + 1] = offsets[pair] + derivations.length[pair]
    return Blobs(content, offsets)


@njit
def _unpack(batch, offsets, content, derivations, nodes, wrong):
    for pair in range(len(derivations.length)):
        length = offsets[pair + 1] - offsets[pair]
        first = derivations.offset[pair]
        if length > derivations.offset[pair + 1] - first:
            wrong[pair] = True
            continue
        derivations.length[pair] = length
        for at in range(length):
            derivations.rules[first + at] = content[offsets[pair] + at]
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        if length == 0 and n + m == 0:
            continue
        wrong[pair] = not build_pair_nodes(batch, pair, derivations.rules[first:], length, nodes)


def decode(batch: ItgBatch, blobs: Blobs) -> Derivations:
    """Decode the output of `encode`. Raises `DerivationError` if bytes are not a derivation of their pair."""
    derivations = empty_derivations(batch)
    nodes = np.zeros(longest_derivation(derivations), NODE)
    wrong = np.zeros(batch.size, np.bool_)
    _unpack(batch, blobs.offsets, blobs.content, derivations, nodes, wrong)
    if wrong.any():
        raise mismatch_error("derivation", "does not match its words", np.flatnonzero(wrong).tolist())
    return derivations
