"""Rules identified by hash equal rules identified by symbols: deltas and tables match the twin."""

from collections import Counter
from operator import attrgetter
from random import Random

import numpy as np
import pytest
from tests.reference import examples
from tests.reference.enumeration import all_trees, to_variables
from tests.reference.forest import Forest, direct_forest
from tests.reference.models import PitmanYor, RuleCounts
from tests.reference.rules import Rule, Variables, is_nonterminal, list_rules
from tests.samplers.synchronous.kernel_chain import SALT, rules_of_deltas, to_batch, to_model

from hierogram.samplers.counts.deltas import add_state, count_rules, empty_deltas
from hierogram.samplers.counts.table import COUNT, empty_table
from hierogram.samplers.counts.texts import render_rules, spellings
from hierogram.samplers.forests.derivations import State
from hierogram.samplers.grammar.keys import length_of, rule_key, source_terminals_of, target_terminals_of
from hierogram.samplers.grammar.rules import Rule as KernelRule


def random_variables(random: Random, forest: Forest) -> Variables:
    """Return random edges, and random cuts below the root."""
    split = random.random()
    return Variables(
        tuple(random.randrange(v.degree) for v in forest.nodes),
        (*(int(random.random() < split) for _ in forest.nodes[:-1]), 1),
    )


def compare(forests: list[Forest], states: list[Variables]) -> Counter[Rule]:
    """Count the rules of given derivations in several ways and check that all agree."""
    expected = Counter(r for f, variables in zip(forests, states, strict=True) for r in list_rules(f, variables))
    batch = to_batch(forests, span_limit=0)
    state = State(
        np.array([j for variables in states for j in variables.edges], np.uint16),
        np.array([c for variables in states for c in variables.cuts], np.uint8),
    )
    deltas = add_state(empty_deltas(), batch, state, (1, 0, 0, 0), np.arange(batch.size))
    assert rules_of_deltas(deltas, forests) == expected
    for entry, rule in zip(deltas.entry, rules_of_deltas(deltas, forests), strict=False):
        size = entry["size"]
        assert (length_of(size), source_terminals_of(size), target_terminals_of(size)) == (
            rule.length,
            rule.source_terminals,
            rule.target_terminals,
        )
        phrase_rule = KernelRule(*rule)
        assert (int(entry["key_high"]), int(entry["key_low"])) == rule_key(phrase_rule, SALT)
        assert KernelRule.parse(str(phrase_rule)) == phrase_rule
        assert phrase_rule.length == rule.length
        assert entry["scope"] == rule.scope
        assert entry["nonterminals"] == sum(is_nonterminal(s) for s in rule.source)
    sides = (
        sorted({word for f in forests for word in words(f)}) for words in (attrgetter("source"), attrgetter("target"))
    )
    texts = render_rules(deltas, np.arange(deltas.entries), *map(spellings, sides))
    shown = [" ||| ".join(both) for both in zip(*(side.strings() for side in texts), strict=True)]
    assert shown == [str(KernelRule(*rule)) for rule in rules_of_deltas(deltas, forests)]
    model = PitmanYor(0.5, 5.0, 2.0)
    table = count_rules(batch, state, empty_table(batch.longest_rule), to_model(model, batch.longest_rule), 1)
    counts = sorted(int(c) for c in table.rows[:, COUNT] if c)
    assert counts == sorted(expected.values())
    sums = RuleCounts(expected.elements())
    for length in range(batch.longest_rule + 1):
        assert table.by_length[length]["tokens"] == sums.tokens_of_length[length]
        assert table.by_length[length]["tables"] / 2**32 == pytest.approx(sums.tables(length, 0.5), abs=1e-6)
    return expected


@pytest.mark.parametrize("words", ["a", "ab", "abcdefg"])
def test_random_states_have_the_rules_of_the_twin(words: str) -> None:
    random = Random(41)
    forests = [direct_forest(*pair) for pair in examples.random_pairs(42, 800, 9, words)]
    rules = compare(forests, [random_variables(random, f) for f in forests])
    assert max(rules.values()) > 20
    assert len(rules) > 400


def test_every_derivation_of_small_pairs_has_the_rules_of_the_twin() -> None:
    for forest in (examples.FOUR, examples.TWICE_APART, examples.UNALIGNED, examples.TANGLED, examples.BLOCKS):
        trees = list(all_trees(forest, span_limit=0))
        compare([forest] * len(trees), [to_variables(forest, tree) for tree in trees])


def test_a_rule_is_the_same_however_it_is_composed() -> None:
    # Each of the five bracketings of a monotone pair makes the whole pair one rule.
    trees = [t for t in all_trees(examples.FOUR, span_limit=0) if sum(choice.cut for choice in t) == 1]
    assert len(trees) == 5
    rules = compare([examples.FOUR] * 5, [to_variables(examples.FOUR, tree) for tree in trees])
    assert rules == {Rule(tuple("abcd"), tuple("ABCD")): 5}


def test_target_order_of_nonterminals_is_part_of_a_rule() -> None:
    cuts = Variables((0, 0, 0), (1, 1, 1))
    assert compare([examples.COUPLE, examples.SWAPPED], [cuts, cuts]) == {
        Rule((1, 2), (1, 2)): 1,
        Rule((1, 2), (2, 1)): 1,
        Rule(("a",), ("A",)): 2,
        Rule(("b",), ("B",)): 2,
    }
