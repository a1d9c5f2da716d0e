"""The top-down Gibbs sampler [CFGŠ14 §2, Algorithm 4], one decision at a time.

A sweep is a sequence of tasks (the edge or the cut of a node). `sample` draws one option of each task. `push` and
`transitions` follow all options with their probabilities, with the same code for tasks and options.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import exp, log
from typing import NamedTuple

from tests.reference.forest import Forest
from tests.reference.models import Model, RuleCounts, log_score
from tests.reference.rules import (
    Rule,
    Variables,
    cut_is_free,
    preorder,
    rule_at,
    rule_heads,
    rule_holder,
    with_cut,
    with_edge,
)
from tests.reference.streams import Stream

NO_LIMIT = 0
EVERY_LEVEL = 1 << 30

NO_DENSITY = "no_density"
"""Mutant: the density factor is omitted."""
STALE_COUNTS = "stale_counts"
"""Mutant: the replaced rules stay in the counts."""
REPEAT_IGNORED = "repeat_ignored"
"""Mutant: each rule of a proposal is scored without counting the other rules of the proposal."""
SPAN_LIMIT_IGNORED = "span_limit_ignored_in_factor"
"""Mutant: the density factor treats every cut as free."""
OWN_ARC = "own_arc"
"""Mutant: an avoiding draw moves on by the current option's arc instead of the largest arc."""
INDEPENDENT_SHARE = 0.1
"""Share of the avoiding draws that are independent of the current value."""
MUTANTS = (NO_DENSITY, STALE_COUNTS, REPEAT_IGNORED, SPAN_LIMIT_IGNORED)


class Task(NamedTuple):
    """One variable to sample: the cut of a node, or its edge."""

    node: int
    cut: bool


Agenda = tuple[Task, ...]


@dataclass(frozen=True)
class Options:
    """The options of a task, in order: the resulting variables and their log weights."""

    outcomes: tuple[Variables, ...]
    log_weights: tuple[float, ...]

    def probabilities(self) -> list[float]:
        top = max(self.log_weights)
        weights = [exp(w - top) for w in self.log_weights]
        return [w / sum(weights) for w in weights]

    def choose(self, u: float) -> int:
        """Return the number of the first option whose cumulative weight exceeds the share u of the whole."""
        top = max(self.log_weights)
        weights = [exp(w - top) for w in self.log_weights]
        whole = sum(weights)
        cumulative = 0.0
        for i, weight in enumerate(weights):
            cumulative += weight
            if cumulative > u * whole:
                return i
        return len(weights) - 1

    def moved(self, present: int, mutant: str | None = None) -> list[list[tuple[float, float]]]:
        """Return, for each option, the parts [low, high) of u that lead to it [Suwa & Todo 2010].

        The options are arcs of a circle. The point at the share u of the current option's arc moves on by the length of
        the largest arc. The option whose arc it reaches is drawn.
        """
        shares = self.probabilities()
        begins = [sum(shares[:i]) for i in range(len(shares))]
        own = shares[present]
        step = own if mutant == OWN_ARC else max(shares)
        found: list[list[tuple[float, float]]] = []
        for begin, share in zip(begins, shares, strict=True):
            parts = []
            for turn in (0.0, 1.0):
                low = (turn + begin - begins[present] - step) / own
                parts.append((max(low, 0.0), min(low + share / own, 1.0)))
            found.append([(low, high) for low, high in parts if low < high])
        return found

    def leave(self, present: int, u: float) -> int:
        """Return an option drawn so as to avoid the current one, except that one draw in ten is independent of it."""
        if u < INDEPENDENT_SHARE:
            return self.choose(u / INDEPENDENT_SHARE)
        u = (u - INDEPENDENT_SHARE) / (1 - INDEPENDENT_SHARE)
        return next(i for i, parts in enumerate(self.moved(present)) if any(low <= u < high for low, high in parts))

    def leaving_probabilities(self, present: int, mutant: str | None = None) -> list[float]:
        """Return the probability that `leave` draws each option."""
        return [
            INDEPENDENT_SHARE * p + (1 - INDEPENDENT_SHARE) * sum(high - low for low, high in parts)
            for p, parts in zip(self.probabilities(), self.moved(present, mutant), strict=True)
        ]


@dataclass(frozen=True)
class Sweep:
    """One pair's sweep, given the counts of all rules of the other pairs."""

    forest: Forest
    model: Model
    others: RuleCounts
    stage: int = EVERY_LEVEL
    span_limit: int = NO_LIMIT
    mutant: str | None = None
    temperature: float = 1.0
    avoid_current: bool = False

    def start(self) -> Agenda:
        return self.tasks(self.forest.root)

    def tasks(self, node: int) -> Agenda:
        """Return the tasks of a node: its edge, then its cut."""
        return (Task(node, cut=False), Task(node, cut=True))

    def after(self, agenda: Agenda, variables: Variables) -> Agenda:
        """Return the tasks after the first one. A node's cut adds the tasks of its tails in source order."""
        done, *rest = agenda
        if not done.cut:
            return tuple(rest)
        tails = self.forest.nodes[done.node].edges[variables.edges[done.node]]
        return (*(task for t in tails for task in self.tasks(t)), *rest)

    def options(self, task: Task, variables: Variables) -> Options:
        """Return the options of a task, a single one if there is nothing to sample."""
        v = self.forest.nodes[task.node]
        if v.level > self.stage:
            return Options((variables,), (0.0,))
        if task.cut:
            if not cut_is_free(self.forest, task.node, self.span_limit):
                return Options((variables,), (0.0,))
            return self.cut_options(task.node, variables)
        if v.degree == 1:
            return Options((variables,), (0.0,))
        return self.edge_options(task.node, variables)

    def edge_options(self, node: int, variables: Variables) -> Options:
        """Score each edge (SampleEdge): the rule that contains the node, the rules below, and the density factor."""
        holder = rule_holder(self.forest, variables, node)
        outcomes = tuple(with_edge(variables, node, j) for j in range(self.forest.nodes[node].degree))
        weights = []
        with self.rest(variables, self.affected(node, holder, variables)) as rest:
            for option in outcomes:
                rules = [rule_at(self.forest, option, v) for v in self.affected(node, holder, option)]
                weights.append(self.log_score(rules, rest) + self.log_density(node, option))
        return Options(outcomes, tuple(weights))

    def cut_options(self, node: int, variables: Variables) -> Options:
        """Score both cuts (SampleCut): one rule that holds the node, and two that meet at it."""
        joined = with_cut(variables, node, 0)
        split = with_cut(variables, node, 1)
        above = rule_holder(self.forest, joined, node)
        with self.rest(variables, [above, node] if variables.cuts[node] else [above]) as rest:
            weights = (
                self.log_score([rule_at(self.forest, joined, above)], rest),
                self.log_score([rule_at(self.forest, split, v) for v in (above, node)], rest),
            )
        return Options((joined, split), weights)

    def affected(self, node: int, holder: int, variables: Variables) -> list[int]:
        """Return the heads of the rules that depend on a node's edge: the rule that contains it, then rules below."""
        return [holder, *(v for v in rule_heads(self.forest, variables, node) if v != node)]

    @contextmanager
    def rest(self, variables: Variables, heads: Sequence[int]) -> Iterator[RuleCounts]:
        """Yield the counts of the other pairs' rules and of this pair's rules at other heads, as a context manager."""
        stay = rule_heads(self.forest, variables)
        if self.mutant != STALE_COUNTS:
            stay = [v for v in stay if v not in heads]
        rules = [rule_at(self.forest, variables, v) for v in stay]
        self.others.add(rules)
        yield self.others
        self.others.remove(rules)

    def log_score(self, rules: Sequence[Rule], rest: RuleCounts) -> float:
        """Return ln P of the rules in sequence, at the temperature."""
        return log_score(self.model, rules, rest, see_repeats=self.mutant != REPEAT_IGNORED) / self.temperature

    def log_density(self, node: int, variables: Variables) -> float:
        """Return the density factor: ln of the product of the degrees of all variables strictly below a node."""
        if self.mutant == NO_DENSITY:
            return 0.0
        limit = NO_LIMIT if self.mutant == SPAN_LIMIT_IGNORED else self.span_limit
        below = preorder(self.forest, variables, node)[1:]
        edges = sum(log(self.forest.nodes[v].degree) for v in below)
        return edges + log(2) * sum(cut_is_free(self.forest, v, limit) for v in below)

    def choose(self, options: Options, variables: Variables, stream: Stream) -> Variables:
        """Return the variables after a task. Makes one draw if there is more than one option."""
        if len(options.outcomes) == 1:
            return options.outcomes[0]
        u = stream.uniform()
        chosen = options.leave(options.outcomes.index(variables), u) if self.avoid_current else options.choose(u)
        return options.outcomes[chosen]

    def probabilities(self, options: Options, variables: Variables) -> list[float]:
        """Return the probability of each option, given the variables before the draw."""
        if not self.avoid_current or len(options.outcomes) == 1:
            return options.probabilities()
        return options.leaving_probabilities(options.outcomes.index(variables), self.mutant)

    def sample(self, variables: Variables, stream: Stream) -> Variables:
        """Return the variables after one sweep, with one draw for every task that has more than one option."""
        agenda = self.start()
        while agenda:
            variables = self.choose(self.options(agenda[0], variables), variables, stream)
            agenda = self.after(agenda, variables)
        return variables

    def push(self, distribution: dict[Variables, float]) -> dict[Variables, float]:
        """Return the exact distribution after one sweep from a distribution."""
        running = {(variables, self.start()): p for variables, p in distribution.items()}
        finished: dict[Variables, float] = {}
        while running:
            following: dict[tuple[Variables, Agenda], float] = {}
            for (variables, agenda), mass in running.items():
                if not agenda:
                    finished[variables] = finished.get(variables, 0.0) + mass
                    continue
                options = self.options(agenda[0], variables)
                for outcome, p in zip(options.outcomes, self.probabilities(options, variables), strict=True):
                    key = (outcome, self.after(agenda, outcome))
                    following[key] = following.get(key, 0.0) + mass * p
            running = following
        return finished

    def transitions(self, variables: Variables) -> dict[Variables, float]:
        """Return the exact distribution after one sweep from one state."""
        return self.push({variables: 1.0})


def initial_variables(forest: Forest, stream: Stream) -> Variables:
    """Return variables with every node cut and a uniformly random edge at each node."""
    edges = [int(stream.uniform() * v.degree) if v.degree > 1 else 0 for v in forest.nodes]
    return Variables(tuple(edges), (1,) * len(forest.nodes))


# Expected uses: before a cut is drawn, the rule that it begins is credited with the probability of the cut.

AFTER_DRAW = "after_draw"
"""Mutant: probabilities are computed after the draw, with the variable's own rules in the counts."""
ONLY_DRAWN = "only_drawn"
"""Mutant: only the drawn option is credited, with its probability."""
OTHER_OPTION = "other_option"
"""Mutant: the rule is credited with the probability of its absence."""
FORCED_FORGOTTEN = "forced_forgotten"
"""Mutant: rules that begin at a forced cut are not credited."""
CREDIT_MUTANTS = (AFTER_DRAW, ONLY_DRAWN, OTHER_OPTION, FORCED_FORGOTTEN)

ONE_USE = 4096


def credited(sweep: Sweep, task: Task, variables: Variables, mutant: str | None = None) -> tuple[Rule, float] | None:
    """Return the rule that a task credits before it is done, and its expected uses. None if it credits no rule."""
    if not task.cut or sweep.forest.nodes[task.node].level > sweep.stage:
        return None
    if not cut_is_free(sweep.forest, task.node, sweep.span_limit):
        rule = rule_at(sweep.forest, variables, task.node)
        return None if mutant == FORCED_FORGOTTEN else (rule, 1.0)
    options = sweep.options(task, variables)
    joined, split = options.probabilities()
    uses = split
    if mutant == OTHER_OPTION:
        uses = joined
    elif mutant == ONLY_DRAWN:
        uses = split * split
    elif mutant == AFTER_DRAW:
        stale = replace(sweep, mutant=STALE_COUNTS)
        after = [stale.options(task, outcome).probabilities()[1] for outcome in options.outcomes]
        uses = joined * after[0] + split * after[1]
    return rule_at(sweep.forest, with_cut(variables, task.node, 1), task.node), uses


def sample_credits(sweep: Sweep, variables: Variables, stream: Stream) -> tuple[Variables, Counter[Rule]]:
    """Return the variables after one sweep, as in `Sweep.sample`, and its credits in units of 1/4096, rounded."""
    credits: Counter[Rule] = Counter()
    agenda = sweep.start()
    while agenda:
        if found := credited(sweep, agenda[0], variables):
            uses = int(found[1] * ONE_USE + 0.5)
            if uses:
                credits[found[0]] += uses
        variables = sweep.choose(sweep.options(agenda[0], variables), variables, stream)
        agenda = sweep.after(agenda, variables)
    return variables, credits


def expected_credits(
    sweep: Sweep, distribution: Mapping[Variables, float], mutant: str | None = None
) -> dict[Rule, float]:
    """Return the exact expectation of the credits of a sweep that starts from a distribution, not rounded."""
    credits: dict[Rule, float] = {}
    running = {(variables, sweep.start()): p for variables, p in distribution.items()}
    while running:
        following: dict[tuple[Variables, Agenda], float] = {}
        for (variables, agenda), mass in running.items():
            if not agenda:
                continue
            if found := credited(sweep, agenda[0], variables, mutant):
                credits[found[0]] = credits.get(found[0], 0.0) + mass * found[1]
            options = sweep.options(agenda[0], variables)
            for outcome, p in zip(options.outcomes, sweep.probabilities(options, variables), strict=True):
                key = (outcome, sweep.after(agenda, outcome))
                following[key] = following.get(key, 0.0) + mass * p
        running = following
    return credits
