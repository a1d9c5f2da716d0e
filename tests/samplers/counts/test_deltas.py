"""Rule-count deltas: symbols, sums, nodes without target words, and refused keys."""

import numpy as np
import pytest

from hierogram.samplers.counts.deltas import CountDeltas, add_state, empty_deltas
from hierogram.samplers.counts.texts import render_rules, spellings
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.forests.derivations import Batch, State, make_batch
from hierogram.samplers.forests.forest import Bitext, Forests, Node, assemble
from hierogram.samplers.forests.fragments import cumulate_hashes
from hierogram.samplers.grammar.keys import hash_words

SOURCE = ["a", "b", "c"]
TARGET = ["x", "y"]
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


def make_small_batch(forests: Forests, source: int, target: int, key_mask: np.uint64 = ALL_BITS) -> Batch:
    none = np.zeros(0, np.int16)
    bitext = Bitext(
        np.arange(source, dtype=np.int32),
        np.array([0, source]),
        np.arange(target, dtype=np.int32),
        np.array([0, target]),
        none,
        none,
        np.array([0, 0]),
    )
    words = cumulate_hashes(hash_words(SOURCE, 0)[bitext.source], hash_words(TARGET, 0)[bitext.target], key_mask)
    return make_batch(bitext, words, forests, np.array([1]), 20)


def list_rules(deltas: CountDeltas) -> set[tuple[str, str]]:
    sides = render_rules(deltas, np.arange(deltas.entries), spellings(SOURCE), spellings(TARGET))
    return set(zip(*(side.strings() for side in sides), strict=True))


# In this chart, which resembles charts of ITGs, the first and the last source word have no target word.
NODES = [
    Node((0, 1), (0, 0), [[]]),
    Node((1, 2), (0, 2), [[]]),
    Node((2, 3), (2, 2), [[]]),
    Node((0, 3), (0, 2), [[0, 1, 2]]),
]


ONCE, FIRST = (1, 0, 0, 0), np.zeros(1, np.int64)
"""Weights of one use, and the pairs of the batch."""


def test_cut_tails_without_target_words_keep_their_nonterminals() -> None:
    batch = make_small_batch(assemble([NODES]), 3, 2)
    cut = State(np.zeros(4, np.uint16), np.ones(4, np.uint8))
    assert list_rules(add_state(empty_deltas(), batch, cut, ONCE, FIRST)) == {
        ("a", ""),
        ("b", "x y"),
        ("c", ""),
        ("[X,1] [X,2] [X,3]", "[X,1] [X,2] [X,3]"),
    }


def test_joined_tails_without_target_words_leave_no_symbol() -> None:
    batch = make_small_batch(assemble([NODES]), 3, 2)
    joined = State(np.zeros(4, np.uint16), np.array([0, 1, 0, 1], np.uint8))
    assert list_rules(add_state(empty_deltas(), batch, joined, ONCE, FIRST)) == {("b", "x y"), ("a [X,1] c", "[X,1]")}


def test_weights_of_two_added_states_add_up_in_the_counts() -> None:
    batch = make_small_batch(assemble([NODES]), 3, 2)
    cut = State(np.zeros(4, np.uint16), np.ones(4, np.uint8))
    deltas = add_state(empty_deltas(), batch, cut, (2, 0, 0, 0), FIRST)
    deltas = add_state(deltas, batch, cut, (-1, 5, 0, 0), FIRST)
    assert deltas.entry["count"][: deltas.entries].tolist() == [1] * 4
    assert deltas.entry["expected_uses"][: deltas.entries].tolist() == [5] * 4


def test_two_rules_with_one_key_are_detected() -> None:
    batch = make_small_batch(assemble([NODES]), 3, 2, key_mask=np.uint64(0))
    cut = State(np.zeros(4, np.uint16), np.ones(4, np.uint8))
    with pytest.raises(KeyCollisionError, match="same key"):
        add_state(empty_deltas(), batch, cut, ONCE, FIRST)
