"""Type-based moves [Liang, Jordan & Klein 2010], from the definition: all sites of one type are drawn jointly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, exp, log
from typing import NamedTuple

from tests.reference.corpus import Joint, with_variables
from tests.reference.forest import Forest
from tests.reference.models import Model, RuleCounts, log_score
from tests.reference.rules import Rule, cut_is_free, list_rules, preorder, rule_at, rule_holder, with_cut
from tests.reference.streams import Stream

NO_CHOICES = "no_choices"
"""Mutant: the number of ways to choose the split sites is omitted."""
NO_CONFLICTS = "no_conflicts"
"""Mutant: sites that share a rule are drawn together."""
OWN_COUNTED = "own_counted"
"""Mutant: the sites' own rules stay in the counts."""
PARTS_APART = "parts_apart"
"""Mutant: two equal parts are scored without counting each other."""
NEVER_BACK = "never_back"
"""Mutant: a draw that brings other sites into the move is not undone."""
PIVOTS = 1 << 62
MAX_PIVOTS = 1 << 20


class Site(NamedTuple):
    """A node of a pair's derivation whose cut is free."""

    pair: int
    node: int


class Type(NamedTuple):
    """The rules of a site: joined, upper, lower."""

    joined: Rule
    upper: Rule
    lower: Rule


@dataclass(frozen=True)
class TypeMoves:
    """Type-based moves over a corpus."""

    forests: Sequence[Forest]
    model: Model
    span_limit: int = 0
    mutant: str | None = None

    def free(self) -> list[Site]:
        """Return all free cuts, whether in use or not."""
        return [
            Site(p, v)
            for p, forest in enumerate(self.forests)
            for v in range(len(forest.nodes))
            if cut_is_free(forest, v, self.span_limit)
        ]

    def find_type(self, site: Site, joint: Joint) -> Type | None:
        """Return the type, or None if the node is not in the derivation."""
        forest, variables = self.forests[site.pair], joint[site.pair]
        if site.node not in preorder(forest, variables):
            return None
        joined, split = (with_cut(variables, site.node, cut) for cut in (0, 1))
        above = rule_holder(forest, joined, site.node)
        return Type(rule_at(forest, joined, above), rule_at(forest, split, above), rule_at(forest, split, site.node))

    def tokens(self, site: Site, joint: Joint) -> set[Site]:
        """Return the heads of the site's current rules."""
        forest, variables = self.forests[site.pair], joint[site.pair]
        above = rule_holder(forest, with_cut(variables, site.node, 0), site.node)
        heads = {Site(site.pair, above)}
        return heads | {site} if variables.cuts[site.node] else heads

    def sites(self, pivot: Site, joint: Joint) -> list[Site]:
        """Return the sites that move together with a pivot, itself first. Empty if it is not in the derivation."""
        wanted = self.find_type(pivot, joint)
        if wanted is None:
            return []
        used: set[Site] = set()
        found = []
        for site in (pivot, *(s for s in self.free() if s != pivot)):
            if self.find_type(site, joint) == wanted:
                own = self.tokens(site, joint)
                if self.mutant == NO_CONFLICTS or used.isdisjoint(own):
                    used |= own
                    found.append(site)
        return found

    def rules(self, joint: Joint) -> list[Rule]:
        return [r for f, variables in zip(self.forests, joint, strict=True) for r in list_rules(f, variables)]

    def weights(self, sites: Sequence[Site], joint: Joint) -> list[float]:
        """Return, for each number of split sites, the summed probability of all such choices, up to a constant."""
        rules = self.find_type(sites[0], joint)
        assert rules is not None
        split = [joint[s.pair].cuts[s.node] for s in sites]
        rest = RuleCounts(self.rules(joint))
        if self.mutant != OWN_COUNTED:
            for cut in split:
                rest.remove([rules.upper, rules.lower] if cut else [rules.joined])
        logs = []
        for m in range(len(sites) + 1):
            own = [rules.joined] * (len(sites) - m) + [rules.upper, rules.lower] * m
            if self.mutant == PARTS_APART and rules.upper == rules.lower:
                halves = [rules.joined] * (len(sites) - m) + [rules.upper] * m
                score = log_score(self.model, halves, rest) + log_score(self.model, [rules.lower] * m, rest)
            else:
                score = log_score(self.model, own, rest)
            logs.append(score + (0.0 if self.mutant == NO_CHOICES else log(comb(len(sites), m))))
        return [exp(value - max(logs)) for value in logs]

    def with_cuts(self, sites: Sequence[Site], cuts: Sequence[int], joint: Joint) -> Joint:
        for site, cut in zip(sites, cuts, strict=True):
            joint = with_variables(joint, site.pair, with_cut(joint[site.pair], site.node, cut))
        return joint

    def settled(self, pivot: Site, sites: Sequence[Site], before: Joint, after: Joint) -> Joint:
        """Return the state after a draw, or the previous state if other sites would then move with the pivot."""
        taken_back = self.sites(pivot, after) != list(sites) and self.mutant != NEVER_BACK
        return before if taken_back else after

    def outcomes(self, pivot: Site, joint: Joint) -> Iterator[tuple[Joint, float]]:
        """Yield all states after one move, with their probabilities."""
        sites = self.sites(pivot, joint)
        if len(sites) < 2:
            yield joint, 1.0
            return
        weights = self.weights(sites, joint)
        for m, weight in enumerate(weights):
            for chosen in combinations(range(len(sites)), m):
                cuts = [int(k in chosen) for k in range(len(sites))]
                after = self.settled(pivot, sites, joint, self.with_cuts(sites, cuts, joint))
                yield after, weight / sum(weights) / comb(len(sites), m)

    def push(self, distribution: dict[Joint, float], pivot: Site) -> dict[Joint, float]:
        """Return the exact distribution after one move."""
        after: dict[Joint, float] = {}
        for joint, mass in distribution.items():
            for outcome, p in self.outcomes(pivot, joint):
                after[outcome] = after.get(outcome, 0.0) + mass * p
        return after

    def step(self, joint: Joint, seed: int, number: int, pivots: int) -> Joint:
        """Return the state after a move for each of `pivots` random pivots, with the kernel's random numbers."""
        free = self.free()
        for k in range(pivots):
            stream = Stream(seed, PIVOTS, number * MAX_PIVOTS + k)
            pivot = free[int(stream.uniform() * len(free))]
            sites = self.sites(pivot, joint)
            if len(sites) < 2:
                continue
            weights = self.weights(sites, joint)
            goal = stream.uniform() * sum(weights)
            left = 0
            while left < len(sites) and sum(weights[: left + 1]) <= goal:
                left += 1
            cuts = []
            for i in range(len(sites)):
                cuts.append(int(stream.uniform() * (len(sites) - i) < left))
                left -= cuts[-1]
            joint = self.settled(pivot, sites, joint, self.with_cuts(sites, cuts, joint))
        return joint
