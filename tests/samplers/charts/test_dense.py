"""Sums of charts without edges equal the enumeration of all derivations, and the sums of charts with edges."""

from typing import NamedTuple

import numpy as np
import pytest
from tests.reference.charts.enumeration import Pair, classes, expectations
from tests.samplers.charts.pairs import ANY, X1, X2, X3, log_scale, random_pair, to_kernels

from hierogram.samplers.charts.dense import (
    NEEDED,
    BaseWeights,
    ChosenRules,
    PairPiece,
    RuleSides,
    add_joins,
    make_dense_scratch,
    matrices_size,
    sum_piece,
)
from hierogram.samplers.charts.hypergraph import inside_outside
from hierogram.samplers.charts.pair_graphs import PairBuilder, expected_emissions
from hierogram.samplers.charts.pairs import PairWords, unmasked_task

BASE = BaseWeights(0.5, 0.06, 0.25, 0.05)
OF_THE_BASE = [
    ([ANY], [ANY], 0.5),
    ([ANY, X1], [X1], 0.06),
    ([X1, ANY], [X1], 0.06),
    ([X1], [ANY, X1], 0.06),
    ([X1], [X1, ANY], 0.06),
    ([X1, X2], [X1, X2], 0.25),
    ([X1, X2], [X2, X1], 0.05),
]
EMITTED = np.array([2, 1, 1, 1, 1, 0, 0])
FRAMES = [
    ([X1], [0, X1], 0.3),
    ([X1], [X1, 1, 2], 0.4),
    ([X1], [2, X1, 0], 0.35),
    ([X1, X2], [X1, 0, X2], 0.3),
    ([X1, X2], [X2, 1, 0, X1], 0.7),
    ([X1, X2], [X1, X2, 1], 0.25),
    ([X1, X2], [X2, 2, X1, 0], 0.6),
    ([X1, X2], [0, X1, X2], 0.2),
    ([X1, X2], [1, X1, 2, X2], 0.45),
    ([X1, X2], [2, X2, X1], 0.35),
    ([X1, X2], [0, X2, 1, X1], 0.55),
    ([X1, X2], [0, X1, X2, 1], 0.8),
]
"""Rules without source words. The last one has words on both ends, so it is not a frame."""
OTHERS = [
    ([X1, X2], [X1, X2], 0.15),
    ([X1, X2], [X2, X1], 0.1),
    ([0], [1], 0.6),
    ([1, 2], [0], 0.4),
    ([X1, 1], [X1], 0.2),
    ([0, X1, 2], [1, X1], 0.7),
    ([X1, 1, X2], [X2, 2, X1], 0.6),
    ([X1, 0, X2], [X1, 0, X2], 0.5),
    ([X1, X2, 2], [X1, 0, X2], 0.3),
    ([X1, X2, X3], [X3, X1, X2], 0.2),
    ([X1, 1, X2, X3], [X2, X1, 0, X3], 0.35),
    ([0, X1], [X1, 1], 0.45),
    ([1, X1, X2], [X2, X1, 2], 0.3),
]


def to_rule_sides(rules: list) -> RuleSides:
    columns = []
    for side in (0, 1):
        symbols = [symbol for rule in rules for symbol in rule[side]]
        first = np.cumsum([0, *(len(rule[side]) for rule in rules)])
        columns += [np.array(symbols, np.int32), first.astype(np.int64)]
    return RuleSides(*columns)


class PairSums(NamedTuple):
    """Sums over all derivations of a pair."""

    # Natural log of the total.
    log_total: float
    # float64[n, m]: expected number of times that one rule emits each word pair.
    together: np.ndarray
    # Expected number of words that the base emits.
    emitted: float


def sum_pair(sides: RuleSides, weights: np.ndarray, words: PairWords, base: BaseWeights) -> PairSums:
    """Return the sums over all derivations of a pair by the given rules and the base."""
    n, m = words.pairs.shape
    longest = int(max(np.diff(sides.source_first).max(initial=1), np.diff(sides.target_first).max(initial=1)))
    chosen = ChosenRules(np.arange(len(weights)), np.asarray(weights, np.float64))
    together, null = np.zeros((n, m)), np.zeros(m)
    joined_base = add_joins(chosen, len(weights), sides, base)
    matches = 1 << 10
    while True:
        room = make_dense_scratch((n, m), matrices_size(n, m), len(weights), longest, matches)
        total, emitted = sum_piece(
            chosen, len(weights), sides, words, PairPiece(0, n, 0, m), joined_base, null, together, room
        )  # fmt: skip
        if total >= 0:
            return PairSums(float(np.log(total)) - log_scale(words), together, emitted)
        matches = int(room.sizes[NEEDED]) * 2


@pytest.mark.parametrize("rules", [[], OTHERS, FRAMES, OTHERS + FRAMES], ids=["base", "others", "frames", "all"])
@pytest.mark.parametrize("size", [(1, 1), (1, 4), (4, 1), (2, 3), (3, 4), (4, 3)])
def test_sums_of_charts_without_edges_equal_the_enumeration(rules: list, size: tuple[int, int]) -> None:
    for seed in range(3):
        pair = random_pair(OF_THE_BASE + rules, size, seed, empty_sides=False)
        _, words = to_kernels(pair)
        found = sum_pair(to_rule_sides(rules), np.array([rule[2] for rule in rules]), words, BASE)
        everything = classes(pair)[pair.whole]
        n, m = size
        expected = expectations(pair, everything)
        assert np.exp(found.log_total) == pytest.approx(sum(one.weight for one in everything.values()), rel=1e-10)
        np.testing.assert_allclose(found.together.ravel(), expected[: n * m], atol=1e-9)
        uses = expected[n * m + n + m :][: len(EMITTED)]
        assert found.emitted == pytest.approx(float((EMITTED * uses).sum()), abs=1e-9)


def test_sums_without_edges_equal_sums_of_charts_with_edges() -> None:
    """The pairs are too large to enumerate. Their charts have several blocks of columns, and the second chart has
    negligible bispans.
    """
    rules = OTHERS + FRAMES
    for size, sharp in (((9, 11), 0.0), ((8, 17), 6.0)):
        pair: Pair = random_pair(OF_THE_BASE + rules, size, 7, empty_sides=False)
        n, m = size
        near = np.abs(np.arange(n)[:, None] / n - np.arange(m) / m)
        pair.pairs[:] *= np.exp(-sharp * 9 * near)
        table, words = to_kernels(pair, scaled=False)
        task = unmasked_task(table, words, False)
        pair_graph = PairBuilder(1 << 24).build(task)
        scores = inside_outside(pair_graph.graph)
        found = sum_pair(to_rule_sides(rules), np.array([rule[2] for rule in rules]), words, BASE)
        assert found.log_total == pytest.approx(np.log(scores.total), abs=1e-9)
        # The expectations exclude negligible bispans.
        links = expected_emissions(pair_graph, scores.expected, task).links
        np.testing.assert_allclose(found.together, links, atol=1e-7)
        uses = np.bincount(pair_graph.graph.rule[: pair_graph.graph.edges], scores.expected, len(table.weight))
        assert found.emitted == pytest.approx(float((EMITTED * uses[: len(EMITTED)]).sum()), abs=1e-7)
