"""Hypergraphs of sentences under masks of spans equal the enumeration of the derivations that agree."""

import numpy as np
import pytest
from tests.reference.charts.sentences import agrees, classes, expectations
from tests.samplers.charts.sentences import GRAMMAR, sentence_of, system_of

from hierogram.samplers.charts.hypergraph import score, total_weight
from hierogram.samplers.charts.pruning.systems import keep_spans
from hierogram.samplers.charts.sentences import SentenceBuilder


def all_spans(words: int) -> np.ndarray:
    return np.array([(i, j) for j in range(1, words + 1) for i in range(j) if j > i + 1], np.int32)


@pytest.mark.parametrize("words", [[0], [0, 1], [1, 0, 1], [0, 1, 1, 0], [0, 1, 0, 0, 1], [1, 0, 0, 1, 0, 1]])
def test_masked_sums_equal_the_enumeration(words: list[int]) -> None:
    n = len(words)
    whole = classes(GRAMMAR, 0, words, 0, n, {})
    trees = list(whole)
    system = system_of(words, all_spans(n))
    random = np.random.default_rng(n)
    seen = 0
    for k in range(80):
        selected = random.random(len(system.spans)) < (0, 0.2, 0.5, 1)[k % 4]
        tree = trees[random.integers(len(trees))]
        assigned = np.array([tuple(span) in tree for span in system.spans.tolist()], bool)
        positive = {tuple(span) for span in system.spans[selected & assigned].tolist()}
        negative = {tuple(span) for span in system.spans[selected & ~assigned].tolist()}
        kept = {spans: one for spans, one in whole.items() if agrees(spans, positive, negative)}
        scores = score(system.build(selected, assigned))
        total = sum(one.weight for one in kept.values())
        assert scores.total == pytest.approx(total * np.exp(system.log_scale), rel=1e-10)
        np.testing.assert_allclose(system.features(scores.expected), expectations(n, kept), atol=1e-10)
        seen += len(kept) < len(whole)
    assert n < 3 or seen > 20


def test_spans_without_a_word_in_common_do_not_cross() -> None:
    kept = np.zeros(15, bool)
    keep_spans(np.array([[1, 3]], np.int32), np.array([True]), np.array([True]), 5, kept)
    pruned = {(i, j) for j in range(1, 6) for i in range(j) if not kept[j * (j - 1) // 2 + i]}
    assert pruned == {(0, 2), (2, 4), (2, 5)}


def test_a_sentence_without_a_derivation_has_no_weight() -> None:
    sentence = sentence_of([0, 1])
    assert total_weight(SentenceBuilder(sentence).build(np.array([True, True, False]))[0]) == 0
