"""The log-likelihood of a table compared with the models in plain Python, also for counts of more than 16 bits."""

from collections import Counter
from math import log

import numpy as np
import pytest
from tests.reference.models import Dirichlet, Model, PitmanYor, RuleCounts
from tests.reference.rules import Rule
from tests.samplers.synchronous.kernel_chain import to_model

from hierogram.samplers.counts.chain import log_likelihood
from hierogram.samplers.counts.table import empty_table, fill_table
from hierogram.samplers.grammar.keys import pack_size

MODELS: dict[str, Model] = {
    "DP": Dirichlet(strength=3.0, source_words=40, target_words=30),
    "PY": PitmanYor(discount=0.5, strength=5.0, rate=2.0),
    "PY, hardly any strength": PitmanYor(discount=0.9, strength=1e-200, rate=2.0),
    "PY, without a discount": PitmanYor(discount=0.0, strength=2.0, rate=2.0),
}
LARGE = (65_534, 65_535, 65_536, 65_536, 70_001)


def rules_with(counts: list[int]) -> dict[Rule, int]:
    """Return distinct rules of one to seven words, one for each count. Some have equal sizes."""
    return {Rule(("a",) * (n % 5) + (f"s{n}",), ("x",) * (n % 3)): count for n, count in enumerate(counts)}


def customer_by_customer(model: PitmanYor, rules: dict[Rule, int]) -> float:
    """Return the twin's `log_likelihood` with a running sum of tables. The twin itself takes quadratic time."""
    total = 0.0
    tables: Counter[int] = Counter()
    customers: Counter[int] = Counter()
    for rule, count in sorted(rules.items(), key=lambda item: (item[0].length, -item[1])):
        length = rule.length
        before: float = tables[length]
        for seated in range(count):
            own = seated**model.discount if seated else 0.0
            mass = seated - model.discount * own
            mass += (model.strength + model.discount * (before + own)) * model.base(rule)
            total += model.log_poisson(length) + log(mass) - log(customers[length] + model.strength)
            customers[length] += 1
        tables[length] = before + count**model.discount
    return total


def kernel_value(rules: dict[Rule, int], model: Model) -> float:
    built = to_model(model, 8)
    sizes = pack_size(
        np.array([rule.length for rule in rules], np.int32),
        np.array([rule.source_terminals for rule in rules], np.int32),
        np.array([rule.target_terminals for rule in rules], np.int32),
    )
    keys = np.random.default_rng(5).integers(1, 1 << 62, (len(rules), 2)).astype(np.uint64)
    table = fill_table(empty_table(8), built, keys, np.array(list(rules.values()), np.int64), sizes)
    assert table.rule_types == len(rules)
    return log_likelihood(table, built)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("counts", [[], [1], [1, 1, 2, 1, 7, 2, 30]], ids=len)
def test_the_log_likelihood_of_a_table_equals_the_definition(name: str, counts: list[int]) -> None:
    rules = rules_with(counts)
    expected = MODELS[name].log_likelihood(RuleCounts(rule for rule, count in rules.items() for _ in range(count)))
    assert kernel_value(rules, MODELS[name]) == pytest.approx(expected, rel=1e-9)
    if isinstance(MODELS[name], PitmanYor):
        assert customer_by_customer(MODELS[name], rules) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_log_likelihood_is_exact_for_large_counts_beside_small_ones(name: str) -> None:
    rules = rules_with([*LARGE, *[1, 2, 1, 3] * 20])
    model = MODELS[name]
    if isinstance(model, PitmanYor):
        expected = customer_by_customer(model, rules)
    else:
        known = RuleCounts()
        known.counts = Counter(rules)
        known.tokens = sum(rules.values())
        expected = model.log_likelihood(known)
    assert kernel_value(rules, model) == pytest.approx(expected, rel=1e-9)
