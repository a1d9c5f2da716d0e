"""The rules of each pair, against the twin."""

from collections import Counter

from tests.reference import examples
from tests.reference.models import PitmanYor
from tests.reference.rules import rules_of
from tests.samplers.synchronous.kernel_chain import SALT, KernelChain

from hierogram.samplers.counts.occurrences import rule_occurrences
from hierogram.samplers.grammar.keys import rule_key
from hierogram.samplers.grammar.rules import Rule


def test_each_rule_of_each_pair_with_its_uses() -> None:
    pairs = examples.random_pairs(seed=51, how_many=40, longest=9, words="ab")
    chain = KernelChain([examples.direct_forest(*pair) for pair in pairs], PitmanYor(0.5, 5.0, 2.0), seed=4)
    for _ in range(3):
        chain.sweep()
    found = rule_occurrences(chain.batch, chain.state)
    expected = {
        (place, rule_key(Rule(rule.source, rule.target), SALT)): uses
        for place, (forest, variables) in enumerate(zip(chain.forests, chain.variables(), strict=True))
        for rule, uses in Counter(rules_of(forest, variables)).items()
    }
    assert max(expected.values()) > 1
    assert {
        (int(place), (int(high), int(low))): int(uses)
        for place, (high, low), uses in zip(found.pairs, found.keys, found.uses, strict=True)
    } == expected
