"""The direct construction equals the definition, and trees below a node have equally many edges [CFGŠ14 Lemma 3]."""

import pytest
from tests.reference import examples
from tests.reference.forest import Forest, derivations, direct_forest, forest_by_definition, lowest_covering, terminals


@pytest.mark.slow
def test_forests_of_the_direct_construction_equal_the_definition() -> None:
    ambiguous = 0
    for source, target, links in examples.random_pairs(seed=1, count=3000, longest=6):
        forest = direct_forest(source, target, links)
        assert forest == forest_by_definition(source, target, links), links
        ambiguous += sum(1 for _ in derivations(forest)) > 1
    assert ambiguous > 600


def test_a_monotone_pair_has_every_span_and_every_split() -> None:
    n = 6
    words = tuple("abcdef")
    links = {(i, i) for i in range(n)}
    forest = forest_by_definition(words, words, links)
    assert len(forest.nodes) == n * (n + 1) // 2
    assert sum(v.degree for v in forest.nodes) == n + n * (n - 1) * (n + 1) // 6
    assert forest == direct_forest(words, words, links)
    catalan = 42
    assert sum(1 for _ in derivations(forest)) == catalan
    assert {v.level for v in forest.nodes} == {1, 3, 5, 7, 9, 11}


def test_every_derivation_below_a_node_has_as_many_edges_as_its_level() -> None:
    for source, target, links in examples.random_pairs(seed=2, count=1000, longest=6):
        forest = direct_forest(source, target, links)
        for v, node in enumerate(forest.nodes):
            assert {len(choices) for choices in derivations(forest, v)} == {node.level}


@pytest.mark.parametrize("side", [0, 1])
def test_words_belong_to_the_lowest_covering_node_of_each_derivation(side: int) -> None:
    for source, target, links in examples.random_pairs(seed=3, count=1000, longest=6):
        forest = direct_forest(source, target, links)
        words = (source, target)[side]
        for choices in derivations(forest):
            written = {w: v for v, j in choices.items() for w in terminals(forest, v, j, side)}
            assert written == {w: lowest_covering(forest, choices, w, side) for w in range(len(words))}


def test_a_word_between_two_phrases_can_belong_to_different_rules() -> None:
    # The unaligned word x is between the tails of [a x b] in one derivation, and between the tails of the root in the
    # other derivation.
    forest: Forest = examples.pair("a x b c", "A B C", "0-0 2-1 3-2")
    owners = {lowest_covering(forest, choices, 1, 0) for choices in derivations(forest)}
    assert {forest.nodes[v].source for v in owners} == {(0, 3), (0, 4)}


def test_a_pair_without_links_is_one_rule() -> None:
    forest = examples.UNLINKED
    assert [(v.source, v.target, v.edges, v.level) for v in forest.nodes] == [((0, 2), (0, 1), ((),), 1)]
    assert list(derivations(forest)) == [{0: 0}]
