"""Compositions: the kernel against the twin."""

from collections import Counter

import numpy as np
import pytest
from tests.reference.compositions import expected_occurrences as twin
from tests.reference.examples import TANGLED, TWICE, UNLINKED, random_pairs
from tests.reference.forest import Forest, direct_forest
from tests.reference.rules import compositions
from tests.samplers.synchronous.kernel_chain import SALT, rules_of_deltas, to_batch

from hierogram.samplers.counts.deltas import add_fragments, empty_deltas
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.compositions import compositions as composed
from hierogram.samplers.forests.recurrence import Ngrams, add_ngrams, expected_occurrences, no_ngrams
from hierogram.samplers.grammar.rules import SHORT, render_side

NO_NGRAMS = no_ngrams(1)


@pytest.mark.parametrize("span_limit", [0, 3, 7])
def test_the_kernel_makes_the_twin_s_compositions(span_limit: int) -> None:
    forests = [UNLINKED, TWICE, TANGLED, *(direct_forest(*pair) for pair in random_pairs(33, 200, 16))]
    batch = to_batch(forests, span_limit)
    expected = Counter(rule for forest in forests for rule in compositions(forest, span_limit))
    found = composed(batch, 3, NO_NGRAMS)
    deltas = add_fragments(empty_deltas(), batch, found.fragments)
    assert rules_of_deltas(deltas._replace(counts=deltas.sampled), forests) == {r: 3 * n for r, n in expected.items()}
    assert len(found.keys) == expected.total() > 100
    assert {len(rule.source) for rule in expected} == set(range(1, min(span_limit or 5, 5) + 1))
    assert {sum(isinstance(symbol, int) for symbol in rule.source) for rule in expected} == {0, 1}
    rows = np.arange(len(found.keys)) % 3 == 1
    some = add_fragments(empty_deltas(), batch, found.chosen(rows))
    # Each rule has the key under which it is counted.
    assert set(some.keys[: some.entries, 1].tolist()) == set(found.keys[rows].tolist())
    assert any(n > 1 for n in expected.values())


def test_a_batch_without_phrases_has_no_compositions() -> None:
    batch = to_batch([direct_forest(("a", "b"), ("x",), set())], 0)
    assert len(composed(batch, 1, NO_NGRAMS).keys) == 0


@pytest.fixture(scope="module")
def counted() -> tuple[list[Forest], Batch, Ngrams]:
    forests = [direct_forest(*pair) for pair in random_pairs(7, 150, 16)]
    batch = to_batch(forests, 7)
    parts = [to_batch(forests[:50], 7), to_batch(forests[50:], 7)]
    ngrams = no_ngrams(1 << 18)
    for part in parts:
        ngrams = add_ngrams(ngrams, part)
    return forests, batch, ngrams


@pytest.mark.slow
def test_expected_occurrences_of_compositions_match_the_twin(counted: tuple[list[Forest], Batch, Ngrams]) -> None:
    forests, batch, ngrams = counted
    sentences = [forest.source for forest in forests]
    found = composed(batch, 1, ngrams)
    rules = [rule for forest in forests for rule in compositions(forest, 7)]
    texts = expected_occurrences(ngrams, [render_side(rule.source) for rule in rules], SALT)
    twins = {side: twin(side, sentences) for side in {rule.source for rule in rules}}
    expected = np.array([twins[rule.source] for rule in rules])
    assert texts == pytest.approx(expected, rel=1e-9)
    long = np.array([len(rule.source) > SHORT for rule in rules])
    assert found.expected == pytest.approx(np.where(long, expected, 0.0), rel=1e-9)
    assert 100 < long.sum() < len(rules) - 100
    assert np.ptp(np.log(expected[long])) > 5


def test_ngrams_in_one_slot_are_counted_together(counted: tuple[list[Forest], Batch, Ngrams]) -> None:
    forests, batch, ngrams = counted
    crowded = add_ngrams(Ngrams(np.zeros((3, 1), np.uint32), 0, 0), batch)
    assert crowded.counts[:, 0].tolist() == ngrams.counts.sum(axis=1).tolist()
    assert crowded.words == ngrams.words == sum(len(forest.source) for forest in forests)


def test_expected_text_is_at_least_as_long_as_the_corpus() -> None:
    assert no_ngrams(1).text_words == 100_000
    batch = to_batch([direct_forest(("a",) * 100, ("x",), {(0, 0)})] * 1_100, 0)
    assert add_ngrams(no_ngrams(1), batch).text_words == 110_000
