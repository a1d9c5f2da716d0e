"""Pruning of a heuristic grammar: kernels and statistics against their definitions."""

from math import comb, log

import numpy as np
import pytest
from tests.reference import examples
from tests.reference.rules import Rule, Side
from tests.tools.lab.grammars import extract_runs, extracted, merged

from hierogram.tools.lab.comparison.extraction import ExtractionLimits, row_shape
from hierogram.tools.lab.comparison.pruning import MIN_LOG_PROBABILITY, composition_logs, significance

LIMITS = ExtractionLimits(5, 4)


def renumber(source: Side, target: Side) -> Rule | None:
    """Return the rule with nonterminals numbered in source order.

    Returns None if the nonterminals differ between sides, or if there are more than two.
    """
    order = [symbol for symbol in source if isinstance(symbol, int)]
    if sorted(order) != sorted(symbol for symbol in target if isinstance(symbol, int)) or len(order) > 2:
        return None
    new = {old: number for number, old in enumerate(order, 1)}
    sides = [tuple(new[s] if isinstance(s, int) else s for s in side) for side in (source, target)]
    return Rule(sides[0], sides[1])


def best_of_two(rule: Rule, logs: dict[Rule, float]) -> float:
    """Return ln p of the best composition of the rule from two rules, by brute force, or `MIN_LOG_PROBABILITY`."""
    source, target = rule.source, rule.target
    log_probabilities = [MIN_LOG_PROBABILITY]
    for i in range(len(source)):
        for j in range(i + 1, len(source) + 1):
            for first in range(len(target)):
                for last in range(first + 1, len(target) + 1):
                    inner = renumber(source[i:j], target[first:last])
                    if inner not in logs or all(isinstance(symbol, int) for symbol in source[i:j]):
                        continue
                    outer = renumber((*source[:i], 9, *source[j:]), (*target[:first], 9, *target[last:]))
                    if outer in logs and 0 < j - i < len(source):
                        log_probabilities.append(logs[inner] + logs[outer])
                    if i == first == 0 and j < len(source) and last < len(target):
                        rest = renumber(source[j:], target[last:])
                        if rest in logs:
                            log_probabilities.append(logs[inner] + logs[rest])
    return max(log_probabilities)


@pytest.mark.slow
def test_best_compositions_of_two_rules_equal_brute_force() -> None:
    made = 0
    for seed in range(20):
        pairs = examples.random_pairs(seed, 6, 6, "abc")
        rows = merged(extract_runs(pairs, LIMITS, 4096), LIMITS)
        rules = list(extracted(rows, pairs, LIMITS))
        logs = np.log(np.random.default_rng(seed).uniform(0.01, 1, len(rules)))
        by_rule = dict(zip(rules, logs.tolist(), strict=True))
        wanted = [best_of_two(rule, by_rule) for rule in rules]
        assert composition_logs(rows, logs, row_shape(LIMITS)) == pytest.approx(wanted)
        made += sum(value > MIN_LOG_PROBABILITY for value in wanted)
    assert made > 100


def test_significance_is_the_tail_of_the_hypergeometric_distribution() -> None:
    together, of_source, of_target = np.array([3, 1, 2, 4]), np.array([3, 5, 4, 6]), np.array([5, 4, 6, 9])
    total = int(together.sum())
    wanted = []
    for k, row, column in zip(together.tolist(), of_source.tolist(), of_target.tolist(), strict=True):
        ways = sum(comb(row, j) * comb(total - row, column - j) for j in range(k, min(row, column) + 1))
        wanted.append(-log(ways / comb(total, column)))
    assert significance(together, of_source, of_target) == pytest.approx(wanted)
