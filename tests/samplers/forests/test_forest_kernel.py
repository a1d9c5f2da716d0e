"""The forest kernel builds the forests of the definition and of the direct construction."""

from collections import Counter

import numpy as np
import pytest
from tests.reference import examples
from tests.reference.examples import RandomPair
from tests.reference.forest import Forest, derivations, direct_forest, forest_by_definition, lowest_covering
from tests.samplers.synchronous.kernel_chain import from_arrays, rules_of_deltas, to_arrays, to_batch, to_bitext

from hierogram.samplers.counts.deltas import add_state, empty_deltas
from hierogram.samplers.forests.derivations import State
from hierogram.samplers.forests.forest import build_forests


@pytest.mark.slow
def test_forests_equal_the_definition() -> None:
    pairs = examples.random_pairs(seed=11, count=2000, longest=6)
    built = from_arrays(build_forests(to_bitext(pairs)), pairs)
    for pair, forest in zip(pairs, built, strict=True):
        assert forest == forest_by_definition(*pair), pair


def test_forests_of_long_pairs_equal_the_direct_construction() -> None:
    pairs = examples.random_pairs(seed=12, count=300, longest=18)
    built = from_arrays(build_forests(to_bitext(pairs)), pairs)
    for pair, forest in zip(pairs, built, strict=True):
        assert forest == direct_forest(*pair), pair
    assert max(len(forest.nodes) for forest in built) > 100


def test_dense_discontinuous_and_unlinked_pairs_have_the_forests_of_the_reference() -> None:
    words, links_of = tuple("abcd"), examples.parse_links
    everything = {(s, t) for s in range(4) for t in range(4)}
    cases: list[RandomPair] = [
        (words, words, everything),
        (words, words, set()),
        (words, words, links_of("0-0 3-0")),
        (words, words, links_of("1-2")),
        (words, words, links_of("0-1 1-3 2-0 3-2")),
        (words, words, links_of("0-0 2-0 1-1 3-1")),
        (words, words, links_of("0-3 1-2 2-1 3-0")),
        (("a",), ("A",), set()),
        (("a",), ("A",), {(0, 0)}),
        (words, ("A",), {(0, 0), (3, 0)}),
    ]
    built = from_arrays(build_forests(to_bitext(cases)), cases)
    assert built == [forest_by_definition(*case) for case in cases]


@pytest.mark.parametrize("span_limit", [0, 1, 3, 7])
def test_forest_arrays_and_free_cuts_equal_the_direct_construction(span_limit: int) -> None:
    pairs = examples.random_pairs(seed=13, count=200, longest=10)
    built = build_forests(to_bitext(pairs), span_limit)
    written = to_arrays([direct_forest(*pair) for pair in pairs], span_limit)
    for column, expected in zip(built, written, strict=True):
        np.testing.assert_array_equal(column, expected)


def test_forest_arrays_grow_in_the_middle_of_a_pair() -> None:
    """Long monotone pairs have far more nodes and tails per link than initially allocated."""
    pairs = examples.random_pairs(seed=14, count=9, longest=8)
    words = tuple("abcdefghij" * 4)
    for place in (2, 6, 9):
        pairs.insert(place, (words, words, {(i, i) for i in range(len(words))}))
    built = build_forests(to_bitext(pairs))
    for column, expected in zip(built, to_arrays([direct_forest(*pair) for pair in pairs], 0), strict=True):
        np.testing.assert_array_equal(column, expected)


def test_words_belong_to_the_lowest_covering_node_of_each_derivation() -> None:
    """If every edge is a rule, a rule has the words whose lowest covering node, by direct search, is its head."""
    forests: list[Forest] = []
    edges: list[int] = []
    expected: Counter[tuple[frozenset[str], frozenset[str]]] = Counter()
    for drawn_source, drawn_target, links in examples.random_pairs(seed=15, count=250, longest=6):
        source = tuple(f"{word}{i}" for i, word in enumerate(drawn_source))
        target = tuple(f"{word}{i}" for i, word in enumerate(drawn_target))
        forest = direct_forest(source, target, links)
        for choices in derivations(forest):
            forests.append(forest)
            edges += [choices.get(v, 0) for v in range(len(forest.nodes))]
            owners: dict[int, tuple[set[str], set[str]]] = {v: (set(), set()) for v in choices}
            for side, words in enumerate((forest.source, forest.target)):
                for position, word in enumerate(words):
                    owners[lowest_covering(forest, choices, position, side)][side].add(word)
            expected.update((frozenset(f), frozenset(e)) for f, e in owners.values())
    assert len(forests) > 500
    batch = to_batch(forests, span_limit=0)
    state = State(np.array(edges, np.uint16), np.ones(len(edges), np.uint8))
    counted: Counter[tuple[frozenset[str], frozenset[str]]] = Counter()
    deltas = add_state(empty_deltas(), batch, state, (1, 0, 0, 0), np.arange(batch.size))
    for rule, count in rules_of_deltas(deltas, forests).items():
        words_of = [frozenset(s for s in side if isinstance(s, str)) for side in rule]
        counted[words_of[0], words_of[1]] += count
    assert counted == expected
