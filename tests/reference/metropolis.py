"""The Metropolis-Hastings baseline [CFGŠ14 §4.2, Algorithm 3]: a whole new derivation is accepted or rejected.

Its target is the distribution of derivations. Variables of unused nodes keep the values from their last use, so they
are not uniform as in Gibbs sampling.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp, log

from tests.reference.forest import Forest
from tests.reference.gibbs import NO_LIMIT
from tests.reference.models import Model, RuleCounts, log_score
from tests.reference.rules import Variables, cut_is_free, list_rules, preorder, with_cut, with_edge
from tests.reference.streams import Stream

NO_PROPOSAL_DENSITY = "no_proposal_density"
"""Mutant: Q is omitted from the acceptance."""


@dataclass(frozen=True)
class Metropolis:
    """One pair's proposal and acceptance, given the counts of all rules of the other pairs."""

    forest: Forest
    model: Model
    others: RuleCounts
    span_limit: int = NO_LIMIT
    mutant: str | None = None
    known: dict[Variables, float] = field(default_factory=dict, compare=False)
    proposed: dict[Variables, float] = field(default_factory=dict, compare=False)

    def log_target(self, variables: Variables) -> float:
        """Return ln P(derivation | other pairs), its rules scored in preorder."""
        if variables not in self.known:
            self.known[variables] = log_score(self.model, list_rules(self.forest, variables), self.others)
        return self.known[variables]

    def log_proposal(self, variables: Variables) -> float:
        """Return ln Q(derivation): each edge is uniform, each free cut a fair coin."""
        if variables not in self.proposed:
            self.proposed[variables] = -sum(
                log(self.forest.nodes[v].degree) + (log(2) if cut_is_free(self.forest, v, self.span_limit) else 0.0)
                for v in preorder(self.forest, variables)
            )
        return self.proposed[variables]

    def acceptance(self, old: Variables, new: Variables) -> float:
        """Return min(1, P(t') Q(t) / (P(t) Q(t')))."""
        log_ratio = self.log_target(new) - self.log_target(old)
        if self.mutant != NO_PROPOSAL_DENSITY:
            log_ratio += self.log_proposal(old) - self.log_proposal(new)
        return exp(min(0.0, log_ratio))

    def sample(self, variables: Variables, stream: Stream) -> Variables:
        """Return the variables after one step. Variables outside the proposed derivation keep their values."""
        proposed = variables
        agenda = [self.forest.root]
        while agenda:
            node = agenda.pop()
            degree = self.forest.nodes[node].degree
            if degree > 1:
                proposed = with_edge(proposed, node, int(stream.uniform() * degree))
            if cut_is_free(self.forest, node, self.span_limit):
                proposed = with_cut(proposed, node, int(stream.uniform() < 0.5))
            agenda += reversed(self.forest.nodes[node].edges[proposed.edges[node]])
        return proposed if stream.uniform() < self.acceptance(variables, proposed) else variables

    def proposals(self, variables: Variables, agenda: tuple[int, ...]) -> Iterator[Variables]:
        """Yield every outcome of the proposal. The `agenda` has the nodes not drawn yet."""
        if not agenda:
            yield variables
            return
        node, *rest = agenda
        cuts = (0, 1) if cut_is_free(self.forest, node, self.span_limit) else (variables.cuts[node],)
        for j, tails in enumerate(self.forest.nodes[node].edges):
            for cut in cuts:
                drawn = with_cut(with_edge(variables, node, j), node, cut)
                yield from self.proposals(drawn, (*tails, *rest))

    def transitions(self, variables: Variables) -> dict[Variables, float]:
        """Return the exact distribution after one step from one state."""
        after = {variables: 1.0}
        for proposed in self.proposals(variables, (self.forest.root,)):
            move = exp(self.log_proposal(proposed)) * self.acceptance(variables, proposed)
            after[proposed] = after.get(proposed, 0.0) + move
            after[variables] -= move
        return after

    def push(self, distribution: dict[Variables, float]) -> dict[Variables, float]:
        """Return the exact distribution after one step from a distribution."""
        after: dict[Variables, float] = {}
        for variables, mass in distribution.items():
            for outcome, p in self.transitions(variables).items():
                after[outcome] = after.get(outcome, 0.0) + mass * p
        return after
