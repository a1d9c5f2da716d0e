"""The two rule models. Each rule is scored given the counts of all other rules [CFGŠ14 §4.1, §5.2]."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log
from typing import Protocol

from tests.reference.rules import Rule


class RuleCounts:
    """Counts of rules and the sums that the models need, all computable from `counts` alone."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.counts: Counter[Rule] = Counter()
        self.tokens = 0
        self.tokens_of_length: Counter[int] = Counter()
        self.rules_of_count: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.add(rules)

    def add(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            self._change(rule, 1)

    def remove(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            self._change(rule, -1)

    def _change(self, rule: Rule, by: int) -> None:
        old = self.counts[rule]
        new = old + by
        if new < 0:
            raise ValueError(f"rule {rule} has no count to remove")
        length = rule.length
        if old:
            self.rules_of_count[length][old] -= 1
        if new:
            self.counts[rule] = new
            self.rules_of_count[length][new] += 1
        else:
            self.counts.pop(rule, None)
        self.tokens += by
        self.tokens_of_length[length] += by

    def tables(self, length: int, discount: float) -> float:
        """Return T_l: the sum over rules of this length of count ** discount."""
        return sum(rules * float(count**discount) for count, rules in sorted(self.rules_of_count[length].items()))


class Model(Protocol):
    """Interface of the rule models."""

    def log_probability(self, rule: Rule, known: RuleCounts) -> float:
        """Return ln P(rule | counts)."""

    def log_joint(self, known: RuleCounts) -> float:
        """Return ln P of all counted rules together, in closed form."""

    def log_likelihood(self, known: RuleCounts) -> float:
        """Return ln P of all counted rules in a fixed order, or the closed form if there is one."""


@dataclass(frozen=True)
class Dirichlet:
    """Dirichlet process with strength a over vocabularies of Vf source and Ve target words.

    P(r) = (n_r + a P0(r)) / (n + a), P0(r) = Vf ** -|source words| * Ve ** -|target words|.
    """

    strength: float
    source_words: int
    target_words: int

    def base(self, rule: Rule) -> float:
        source = float(self.source_words) ** -rule.source_terminals
        return float(source * float(self.target_words) ** -rule.target_terminals)

    def log_probability(self, rule: Rule, known: RuleCounts) -> float:
        mass = known.counts[rule] + self.strength * self.base(rule)
        return log(mass) - log(known.tokens + self.strength)

    def log_joint(self, known: RuleCounts) -> float:
        """Return ln(∏_r (a P0(r))^{(n_r)} / a^{(n)}), where x^{(n)} is the rising factorial."""
        total = lgamma(self.strength) - lgamma(known.tokens + self.strength)
        for rule, count in known.counts.items():
            base = self.strength * self.base(rule)
            total += lgamma(count + base) - lgamma(base)
        return total

    def log_likelihood(self, known: RuleCounts) -> float:
        """Return the closed form: the order does not matter."""
        return self.log_joint(known)


@dataclass(frozen=True)
class PitmanYor:
    """Pitman-Yor process with estimated tables for each rule length l = |r|, with discount d and strength a.

    P(r) = Poisson(l) (n_r - d n_r^d + (a + d T_l) P0(r)) / (n_l + a), P0(r) = Poisson(l).
    """

    discount: float
    strength: float
    rate: float

    def log_poisson(self, length: int) -> float:
        return length * log(self.rate) - self.rate - lgamma(length + 1)

    def base(self, rule: Rule) -> float:
        return exp(self.log_poisson(rule.length))

    def log_probability(self, rule: Rule, known: RuleCounts) -> float:
        length = rule.length
        count = known.counts[rule]
        tables = count**self.discount if count else 0.0
        all_tables = known.tables(length, self.discount)
        mass = count - self.discount * tables + (self.strength + self.discount * all_tables) * self.base(rule)
        return self.log_poisson(length) + log(mass) - log(known.tokens_of_length[length] + self.strength)

    def log_joint(self, known: RuleCounts) -> float:
        """Return the closed form of a Dirichlet process for each length. Raises `ValueError` if there is a discount."""
        if self.discount:
            raise ValueError("a Pitman-Yor process with estimated tables has no joint probability")
        total = 0.0
        for length, tokens in known.tokens_of_length.items():
            total += tokens * self.log_poisson(length)
            total += lgamma(self.strength) - lgamma(tokens + self.strength)
        for rule, count in known.counts.items():
            base = self.strength * self.base(rule)
            total += lgamma(count + base) - lgamma(base)
        return total

    def log_likelihood(self, known: RuleCounts) -> float:
        """Return ln P of all rules in sequence: by length, frequent rules first, each rule's tokens together."""
        rules = sorted(known.counts.items(), key=lambda item: (item[0].length, -item[1]))
        return log_score(self, [rule for rule, count in rules for _ in range(count)], RuleCounts())


def log_score(model: Model, rules: Sequence[Rule], known: RuleCounts, *, see_repeats: bool = True) -> float:
    """Return ln P of the rules in sequence, each given the counts and the rules before it.

    `known` is left unchanged. Without `see_repeats` (a mutant), each rule is scored without the rules before it.
    """
    total = 0.0
    added: list[Rule] = []
    for rule in rules:
        total += model.log_probability(rule, known)
        if see_repeats:
            known.add([rule])
            added.append(rule)
    known.remove(added)
    return total
