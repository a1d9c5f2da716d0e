"""Rule uses of each pair compared with the twin, and uses of a rule with the same links, which are merged."""

from collections import Counter
from random import Random

import numpy as np
from tests.reference import examples
from tests.reference.models import PitmanYor
from tests.reference.rules import list_rules
from tests.samplers.synchronous.kernel_chain import SALT, KernelChain

from hierogram.samplers.counts.occurrences import SIDE_BITS, RuleLinks, rule_occurrences, uses_by_links
from hierogram.samplers.counts.texts import link_texts
from hierogram.samplers.grammar.keys import rule_key
from hierogram.samplers.grammar.rules import Rule


def test_rules_of_each_pair_have_the_uses_of_the_twin() -> None:
    pairs = examples.random_pairs(seed=51, count=40, longest=9, words="ab")
    chain = KernelChain([examples.direct_forest(*pair) for pair in pairs], PitmanYor(0.5, 5.0, 2.0), seed=4)
    for _ in range(3):
        chain.sweep()
    found = rule_occurrences(chain.batch, chain.state)
    expected = {
        (place, rule_key(Rule(rule.source, rule.target), SALT)): uses
        for place, (forest, variables) in enumerate(zip(chain.forests, chain.variables(), strict=True))
        for rule, uses in Counter(list_rules(forest, variables)).items()
    }
    assert max(expected.values()) > 1
    assert {
        (int(place), (int(high), int(low))): int(uses)
        for place, (high, low), uses in zip(found.pairs, found.keys, found.uses, strict=True)
    } == expected


def test_uses_of_a_rule_with_the_same_links_are_merged() -> None:
    random = Random(3)
    links = [(), ((0, 0),), ((0, 0), (1, 11)), ((0, 1), (1, 11)), ((0, 0), (300, 7)), ((0, 0), (1, 11), (2, 2))]
    kinds = [
        [(random.randrange(5), random.choice(links), random.randrange(3)) for _ in range(number)]
        for number in (60, 0, 45)
    ]
    expected = [Counter[tuple[int, str]]() for _ in kinds]
    found = []
    for uses, sums in zip(kinds, expected, strict=True):
        for entry, own, weight in uses:
            sums[entry, " ".join(f"{i}-{j}" for i, j in own)] += weight
        flat = [(i << SIDE_BITS) + j for _, own, _ in uses for i, j in own]
        offset = np.cumsum([0, *(len(own) for _, own, _ in uses)])
        found.append(RuleLinks(np.array([e for e, _, _ in uses], np.int64), offset, np.array(flat, np.uint32)))
    merged, weights = uses_by_links(found, [np.array([w for *_, w in uses], np.int64) for uses in kinds])
    keys = list(zip(merged.entries.tolist(), link_texts(merged).strings(), strict=True))
    assert len(set(keys)) == len(keys) > 20
    assert set(keys) == {key for sums in expected for key, weight in sums.items() if weight}
    assert weights.tolist() == [[sums[key] for sums in expected] for key in keys]
