"""Minimal derivations: the kernel's rule counts equal the twin's, and depend only on the edge of the root."""

from collections import Counter

import numpy as np
import pytest
from tests.reference.examples import TANGLED, TWICE, UNLINKED, random_pairs
from tests.reference.forest import Forest, derivations, direct_forest
from tests.reference.rules import Rule, Variables, list_rules, minimal_derivation
from tests.samplers.synchronous.kernel_chain import rules_of_deltas, to_batch

from hierogram.samplers.counts.deltas import add_state, empty_deltas
from hierogram.samplers.forests.derivations import initial_state, minimal_state


def count_minimal_rules(forest: Forest) -> Counter[Rule]:
    return Counter(list_rules(forest, minimal_derivation(forest)))


@pytest.mark.parametrize("span_limit", [0, 3])
def test_minimal_rule_counts_of_the_kernel_match_the_twin(span_limit: int) -> None:
    forests = [UNLINKED, TWICE, TANGLED, *(direct_forest(*pair) for pair in random_pairs(31, 300, 14))]
    batch = to_batch(forests, span_limit)
    chosen = np.flatnonzero(np.arange(len(forests)) % 3 != 1)
    deltas = add_state(empty_deltas(), batch, initial_state(1, batch), (1, 5, 0, 0), np.arange(batch.size))
    minimal = minimal_state(batch.forests)
    deltas = add_state(deltas, batch, minimal, (0, 0, 0, 2), chosen)
    deltas = add_state(deltas, batch, minimal, (0, 0, 0, -2), chosen[:50])
    expected = sum((count_minimal_rules(forests[pair]) for pair in chosen[50:].tolist()), Counter[Rule]())
    counted = rules_of_deltas(deltas, forests, "minimal_uses")
    assert {rule: count for rule, count in counted.items() if count} == {r: 2 * count for r, count in expected.items()}
    rules = sum(len(list_rules(forest, minimal_derivation(forest))) for forest in forests)
    assert (int(deltas.entry["count"].sum()), int(deltas.entry["expected_uses"].sum())) == (rules, 5 * rules)


def test_edges_below_the_root_do_not_change_minimal_rules() -> None:
    """All fully cut derivations with the same root edge have the same rules, equally often."""
    several = differing = 0
    for pair in random_pairs(32, 400, 7):
        forest = direct_forest(*pair)
        by_root: dict[int, set[frozenset[tuple[Rule, int]]]] = {}
        for choices in derivations(forest):
            edges = tuple(choices.get(v, 0) for v in range(len(forest.nodes)))
            rules = Counter(list_rules(forest, Variables(edges, (1,) * len(edges))))
            by_root.setdefault(choices[forest.root], set()).add(frozenset(rules.items()))
        assert all(len(found) == 1 for found in by_root.values()), pair
        (expected,) = by_root[0]
        assert expected == frozenset(count_minimal_rules(forest).items())
        several += len(by_root) > 1
        differing += len(set.union(*by_root.values())) > 1
    # The root edge matters if words are outside every phrase, because they belong to the root's rule.
    assert several > differing > 20
