"""Masks of tree parsing charts: sums, soft counts, and the limit of their chain."""

import numpy as np
import pytest
from tests.samplers.charts.sentences import sentence_of, system_of

from hierogram.samplers.charts.chart import fill_chart
from hierogram.samplers.charts.derivations import Forest
from hierogram.samplers.charts.hypergraph import score, total_weight
from hierogram.samplers.exceptions import GrammarError
from hierogram.tools.lab.papers.pruning.sentences import TreePruningKernel, list_edge_spans

SENTENCE = [0, 1, 0, 0, 1, 1, 0]
SPANS = np.array([(0, 2), (3, 5), (2, 5), (2, 7), (5, 7)], np.int32)


def span_counts(forest: Forest, expected: np.ndarray) -> np.ndarray:
    """Return the expected number of derivations of each span by a word or by two parts."""
    edges = np.arange(forest.edges)
    start, end = list_edge_spans(forest, edges)
    own = forest.items.edge[: forest.edges]["kind"] != 2
    cells = end * (end - 1) // 2 + start
    words = forest.graph.grammar.words
    return np.bincount(cells[own], expected[own], words * (words + 1) // 2)


def test_masked_sums_equal_those_of_the_hypergraph() -> None:
    system = system_of(SENTENCE, SPANS)
    grammar = sentence_of(SENTENCE).grammar
    random = np.random.default_rng(1)
    alive = 0
    for _ in range(60):
        selected, assigned = random.random((2, len(SPANS))) < 0.5
        graph = system.build(selected, assigned)
        total = total_weight(graph)
        chart = fill_chart(grammar, system._kept)
        if total == 0:
            assert not np.isfinite(chart.log_weight(0, 0, len(SENTENCE)))
            continue
        alive += 1
        assert chart.log_weight(0, 0, len(SENTENCE)) == pytest.approx(np.log(total) - system.log_scale, abs=1e-9)
        forest = Forest(grammar, chart, 0)
        cells = len(system._kept)
        expected = system.features(score(graph).expected)[:cells]
        np.testing.assert_allclose(span_counts(forest, forest.expected()), expected, atol=1e-5)
    assert alive > 20


@pytest.mark.slow
def test_the_chain_converges_to_the_expectations_of_the_whole_chart() -> None:
    grammar = sentence_of(SENTENCE).grammar
    whole = Forest(grammar, fill_chart(grammar), 0)
    exact = span_counts(whole, whole.expected())
    kernel = TreePruningKernel(grammar, 0, SPANS, number=3)
    state = kernel.init(5)
    rows = []
    for plan in range(1, 1201):
        before = state
        state, forest = kernel.step(5, before, plan)
        assert (state.selected | before.selected).all()
        assert (state.assigned[:, state.selected] == before.assigned[:, state.selected]).all()
        rows.append(span_counts(forest, forest.expected()))
    means = np.array(rows).reshape(30, 40, -1).mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(30)
    assert (np.abs(means.mean(axis=0) - exact) < 4 * error + 1e-4).all()
    assert error.max() > 0.001


def test_incompatible_spans_are_dropped() -> None:
    grammar = sentence_of(SENTENCE).grammar
    kernel = TreePruningKernel(grammar, 0, np.array([(0, 2), (1, 3), (4, 6)], np.int32), 1)
    [assigned] = kernel.init(1).assigned
    assert not (assigned[0] and assigned[1])


def test_a_sentence_without_a_derivation_has_no_chain() -> None:
    grammar = sentence_of([0]).grammar
    with pytest.raises(GrammarError):
        TreePruningKernel(grammar, 3, np.zeros((0, 2), np.int32), 1).init(1)
