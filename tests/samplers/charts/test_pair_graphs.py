"""Hypergraphs of masked pairs: sums and draws compared with the enumerated derivations that agree with the mask."""

from itertools import product

import numpy as np
import pytest
from tests.reference.charts.enumeration import Pair, agreeing, classes, derivations, expectations
from tests.samplers.charts.pairs import ITG, MIXED, log_scale, random_pair, to_kernels

from hierogram.samplers.charts.hypergraph import ITEMS, TAILS, draw, inside_outside, sum_outside, total_weight
from hierogram.samplers.charts.pair_graphs import PairBuilder, PairGraph, expected_emissions
from hierogram.samplers.charts.pairs import PairTask, unmasked_task
from hierogram.samplers.exceptions import SamplerError
from hierogram.tools.lab.papers.randomized_pruning import exclude_bispans

ALL_MASKS = [
    (random_pair(ITG, (2, 2), 1), None),
    (random_pair(ITG, (2, 3), 2), None),
    (random_pair(MIXED, (2, 3), 3, empty_sides=False), None),
    (random_pair(MIXED, (3, 2), 4), None),
    (random_pair(ITG, (4, 4), 5), 60),
    (random_pair(ITG, (4, 3), 6), 60),
    (random_pair(MIXED, (4, 3), 7), 60),
    (random_pair(MIXED, (4, 4), 8, empty_sides=False), 60),
]
"""Pairs, each with the number of random masks to test (None: all masks)."""


def masks(pair: Pair, number: int | None) -> list[np.ndarray]:
    n, m = pair.pairs.shape
    if number is None:
        return [np.array(values, np.int8).reshape(n, m) for values in product((-1, 0, 1), repeat=n * m)]
    random = np.random.default_rng(number)
    found = []
    for k in range(number):
        share = (0.1, 0.2, 0.4)[k % 3]
        values = random.choice([-1, 0, 1], size=(n, m), p=[2 * share / 3, 1 - share, share / 3])
        found.append(values.astype(np.int8))
    return found


def features(pair_graph: PairGraph, expected: np.ndarray, task: PairTask) -> np.ndarray:
    found = expected_emissions(pair_graph, expected, task)
    uses = np.bincount(pair_graph.graph.rule[: pair_graph.graph.edges], expected, len(task.rules.weight))
    return np.concatenate([found.links.ravel(), found.source_nulls, found.target_nulls, uses])


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "number"), ALL_MASKS)
def test_sums_of_masked_charts_equal_the_enumeration(pair: Pair, number: int | None) -> None:
    rules, words = to_kernels(pair)
    everything = classes(pair)
    builder = PairBuilder(1 << 18)
    with_derivations = 0
    for mask in masks(pair, number):
        task = unmasked_task(rules, words, pair.empty_sides)._replace(mask=mask)
        pair_graph = builder.build(task)
        kept = agreeing(everything[pair.whole], mask, pair.whole)
        if not kept:
            assert total_weight(pair_graph.graph) == 0
            continue
        with_derivations += 1
        scores = inside_outside(pair_graph.graph)
        total = sum(one.weight for one in kept.values())
        assert scores.total == pytest.approx(total * np.exp(log_scale(words)), rel=1e-10)
        np.testing.assert_allclose(features(pair_graph, scores.expected, task), expectations(pair, kept), atol=1e-10)
        for item, (i, j, x, y) in enumerate(pair_graph.bispan.tolist()):
            inside = sum(one.weight for one in agreeing(everything[i, j, x, y], mask, (i, j, x, y)).values())
            scale = np.prod(words.source_scale[i:j]) * np.prod(words.target_scale[x:y])
            assert scores.inside[item] == pytest.approx(inside * scale, rel=1e-10, abs=1e-300)
    assert with_derivations > 5


def test_items_contain_or_exclude_whole_positive_pairs() -> None:
    pair = random_pair(ITG, (5, 4), 9)
    rules, words = to_kernels(pair)
    for mask in masks(pair, 12):
        positive = np.argwhere(mask > 0).tolist()
        pair_graph = PairBuilder(1 << 18).build(unmasked_task(rules, words, True)._replace(mask=mask))
        expected = {
            (i, j, x, y)
            for i, j, x, y in product(range(6), range(6), range(5), range(5))
            if i <= j and x <= y and (i, x) != (j, y) and all((i <= a < j) == (x <= b < y) for a, b in positive)
        }
        assert {tuple(place) for place in pair_graph.bispan.tolist()} == expected
        assert len(pair_graph.bispan) == len(expected)


@pytest.mark.parametrize("pair", [random_pair(ITG, (2, 2), 11), random_pair(MIXED, (3, 3), 12, empty_sides=False)])
def test_outside_sums_equal_the_enumeration(pair: Pair) -> None:
    rules, words = to_kernels(pair, scaled=False)
    task = unmasked_task(rules, words, pair.empty_sides)
    pair_graph = PairBuilder(1 << 18).build(task)
    scores = inside_outside(pair_graph.graph)
    outside = np.empty_like(scores.inside)
    sum_outside(pair_graph.graph, scores.inside, outside, scores.expected)
    whole = [(float(np.prod([use.weight for use in found])), found) for found in derivations(pair, pair.whole)]
    for item, place in enumerate(map(tuple, pair_graph.bispan.tolist())):
        with_item = sum(weight for weight, found in whole for use in found if use.head == place)
        assert outside[item] * scores.inside[item] == pytest.approx(with_item, rel=1e-10, abs=1e-300)


def test_a_chart_with_too_many_edges_is_not_built() -> None:
    pair = random_pair(MIXED, (3, 3), 32, empty_sides=False)
    rules, words = to_kernels(pair)
    task = unmasked_task(rules, words, False)
    edges = PairBuilder(1 << 18).build(task).graph.edges
    # A limit above the number of edges does not change the chart.
    assert PairBuilder(2 * edges).build(task).graph.edges == edges
    with pytest.raises(SamplerError, match="edges"):
        PairBuilder(edges - 1).build(task)


def test_drawn_derivations_use_each_edge_with_its_expected_frequency() -> None:
    pair = random_pair(MIXED, (3, 3), 32, empty_sides=False)
    rules, words = to_kernels(pair)
    graph = PairBuilder(1 << 18).build(unmasked_task(rules, words, False)).graph
    scores = inside_outside(graph)
    draws, random = 20_000, np.uint64(5)
    counts = np.zeros(graph.edges)
    stack, edges = np.empty((2, graph.size[ITEMS] + graph.size[TAILS] + 1), np.int64)
    for _ in range(draws):
        number, random = draw(graph, scores.inside, random, stack, edges)
        counts[edges[:number]] += 1
    error = np.sqrt(scores.expected * (1 - scores.expected) / draws) + 1e-9
    assert (np.abs(counts / draws - scores.expected) < 5 * error).all()


def test_charts_with_excluded_bispans_sum_only_derivations_without_them() -> None:
    pair = random_pair(ITG, (2, 3), 41)
    rules, words = to_kernels(pair, scaled=False)
    random = np.random.default_rng(1)
    everything = list(derivations(pair, pair.whole))
    for _ in range(20):
        kept = random.random((6, 16)) < 0.8
        kept[3, 3] = True
        pair_graph = PairBuilder(1 << 18).build(unmasked_task(rules, words, True))
        number = exclude_bispans(pair_graph, kept)
        assert (pair_graph.graph.weight[: pair_graph.graph.edges] > 0).sum() == number
        whole = 0.0
        for found in everything:
            heads = [use.head for use in found]
            if all(kept[j * (j + 1) // 2 + i, x * 4 + y] for i, j, x, y in heads):
                whole += float(np.prod([use.weight for use in found]))
        assert total_weight(pair_graph.graph) == pytest.approx(whole, rel=1e-10, abs=0)
