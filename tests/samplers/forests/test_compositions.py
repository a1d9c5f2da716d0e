"""Compositions: the kernel makes those of the twin."""

from collections import Counter

import numpy as np
import pytest
from tests.reference.examples import TANGLED, TWICE, UNLINKED, random_pairs
from tests.reference.forest import direct_forest
from tests.reference.rules import compositions
from tests.samplers.synchronous.kernel_chain import rules_of_deltas, to_batch

from hierogram.samplers.counts.deltas import add_fragments, empty_deltas
from hierogram.samplers.forests.compositions import compositions as composed


@pytest.mark.parametrize("span_limit", [0, 3, 7])
def test_the_kernel_makes_what_the_twin_does(span_limit: int) -> None:
    forests = [UNLINKED, TWICE, TANGLED, *(direct_forest(*pair) for pair in random_pairs(33, 200, 16))]
    batch = to_batch(forests, span_limit)
    expected = Counter(rule for forest in forests for rule in compositions(forest, span_limit))
    found = composed(batch, 3)
    deltas = add_fragments(empty_deltas(), batch, found.fragments)
    assert rules_of_deltas(deltas._replace(counts=deltas.sampled), forests) == {r: 3 * n for r, n in expected.items()}
    assert len(found.keys) == expected.total() > 100
    assert {len(rule.source) for rule in expected} == set(range(1, min(span_limit or 5, 5) + 1))
    assert {sum(isinstance(symbol, int) for symbol in rule.source) for rule in expected} == {0, 1}
    rows = np.arange(len(found.keys)) % 3 == 1
    some = add_fragments(empty_deltas(), batch, found.chosen(rows))
    # Each rule's key is that by which it is counted.
    assert set(some.keys[: some.entries, 1].tolist()) == set(found.keys[rows].tolist())
    assert any(n > 1 for n in expected.values())


def test_a_batch_without_phrases_has_none() -> None:
    batch = to_batch([direct_forest(("a", "b"), ("x",), set())], 0)
    assert len(composed(batch, 1).keys) == 0
