"""Tree-substitution grammars in plain Python: fragments as nested tuples, every option scored as a whole tree.

Written from [CGB09] and model.md §6, not from the kernels: an option's weight is the probability of all fragments of
the resulting tree, given the fragments of all other trees.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from math import exp, lgamma, log

from tests.reference.streams import Stream

from hierogram.samplers.grammar.brackets import Parse

Fragment = tuple[object, ...]
"""A label, then its children: words, fragments, and frontier nonterminals (one-element tuples)."""
Variables = tuple[tuple[int, ...], tuple[int, ...]]
"""The chosen edge of each node of a forest, and 1 for each node that is cut."""
Joint = tuple[Variables, ...]

NO_DENSITY = "no density factor"
REPEAT_IGNORED = "fragments of one option do not see each other"
STALE_COUNTS = "the tree's own fragments stay counted"
ONE_PROCESS = "all labels share one process"
NO_STOPS = "frontier nonterminals cost nothing"
MUTANTS = (NO_DENSITY, REPEAT_IGNORED, STALE_COUNTS, ONE_PROCESS, NO_STOPS)


def list_tails(parse: Parse, edges: Sequence[int], v: int) -> list[int]:
    return parse.nodes[v].edges[edges[v]]


def fragment_at(parse: Parse, variables: Variables, v: int) -> Fragment:
    edges, cuts = variables
    node = parse.nodes[v]
    below: list[object] = []
    place = node.start
    for t in list_tails(parse, edges, v):
        below += parse.words[place : parse.nodes[t].start]
        below.append((parse.nodes[t].label,) if cuts[t] else fragment_at(parse, variables, t))
        place = parse.nodes[t].end
    below += parse.words[place : node.end]
    return (node.label, *below)


def on_tree(parse: Parse, variables: Variables) -> list[int]:
    """Return the nodes of the current tree."""
    found = [len(parse.nodes) - 1]
    for v in found:
        found += list_tails(parse, variables[0], v)
    return found


def list_fragments(parse: Parse, variables: Variables) -> list[Fragment]:
    root = len(parse.nodes) - 1
    return [fragment_at(parse, variables, v) for v in on_tree(parse, variables) if v == root or variables[1][v]]


def find_production(fragment: Fragment) -> tuple[str, ...]:
    """Return the topmost expansion: labels unchanged, words prefixed with NUL."""
    return (str(fragment[0]), *(str(x[0]) if isinstance(x, tuple) else f"\0{x}" for x in fragment[1:]))


def write(fragment: Fragment) -> str:
    """Return the fragment in bracket notation."""
    return f"({' '.join(write(x) if isinstance(x, tuple) else str(x) for x in fragment)})"


def base_of_treebank(base: str, parses: Iterable[Parse]) -> dict[tuple[str, ...], float]:
    """Return ln P of each production: P_M (`uniform`) is uniform in the number and symbols of children, otherwise P_C.

    P_C is the relative frequency of the production.
    """
    counts: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for parse in parses:
        for v, node in enumerate(parse.nodes):
            for k in range(len(node.edges)):
                edges = [0] * len(parse.nodes)
                edges[v] = k
                cuts = (1,) * len(parse.nodes)
                counts[find_production(fragment_at(parse, (tuple(edges), cuts), v))] += 1 / len(node.edges)
    if base == "uniform":
        symbols = len({symbol for production in counts for symbol in production})
        widest = max(len(production) - 1 for production in counts)
        return {p: -log(widest) - (len(p) - 1) * log(symbols) for p in counts}
    heads: defaultdict[str, float] = defaultdict(float)
    for production, count in counts.items():
        heads[production[0]] += count
    return {p: log(count / heads[p[0]]) for p, count in counts.items()}


@dataclass
class Grammar:
    """A Dirichlet process for each label: α and β by label, ln P by production."""

    expansion: dict[tuple[str, ...], float]
    strength: dict[str, float]
    expansion_probability: dict[str, float]
    mutant: str | None = None
    bases: dict[Fragment, float] = field(default_factory=dict)

    def log_base(self, fragment: Fragment) -> float:
        """Return ln P0(fragment | its root's label)."""
        if fragment not in self.bases:
            total = self.expansion[find_production(fragment)]
            for child in fragment[1:]:
                if isinstance(child, tuple):
                    beta = self.expansion_probability[str(child[0])]
                    if len(child) > 1:
                        total += log(beta) + self.log_base(child)
                    elif self.mutant != NO_STOPS:
                        total += log(1 - beta)
            self.bases[fragment] = total
        return self.bases[fragment]

    def log_score(self, fragments: Iterable[Fragment], rest: Counter[Fragment]) -> float:
        """Return ln P of the fragments in sequence, given the rest and the earlier fragments."""
        counts = rest.copy()
        tokens: Counter[object] = Counter()
        for fragment, n in counts.items():
            tokens[self._process(fragment)] += n
        total = 0.0
        for fragment in fragments:
            label = str(fragment[0])
            fresh = exp(log(self.strength[label]) + self.log_base(fragment))
            process = self._process(fragment)
            total += log(counts[fragment] + fresh) - log(tokens[process] + self.strength[label])
            if self.mutant != REPEAT_IGNORED:
                counts[fragment] += 1
                tokens[process] += 1
        return total

    def _process(self, fragment: Fragment) -> object:
        return None if self.mutant == ONE_PROCESS else fragment[0]

    def log_joint(self, counts: Counter[Fragment]) -> float:
        """Return the sum over labels of ln (Γ(α)/Γ(n + α) ∏ Γ(n_e + α P0)/Γ(α P0))."""
        total = 0.0
        tokens: Counter[str] = Counter()
        for fragment, n in counts.items():
            label = str(fragment[0])
            tokens[label] += n
            fresh = self.strength[label] * exp(self.log_base(fragment))
            total += lgamma(n + fresh) - lgamma(fresh)
        for label, n in tokens.items():
            total += lgamma(self.strength[label]) - lgamma(n + self.strength[label])
        return total


EDGE = 0


def with_value(variables: Variables, which: int, v: int, value: int) -> Variables:
    """Return the variables with a new edge (`which` 0) or cut (1) at v."""
    new = list(variables)
    new[which] = (*variables[which][:v], value, *variables[which][v + 1 :])
    return new[0], new[1]


@dataclass
class Treebank:
    """Trees and forests, and the grammar from which they are sampled."""

    parses: Sequence[Parse]
    grammar: Grammar
    mutant: str | None = None

    def options(self, p: int, v: int) -> tuple[int, int]:
        """Return the number of values of the edge and of the cut of a node."""
        return len(self.parses[p].nodes[v].edges), 1 if v == len(self.parses[p].nodes) - 1 else 2

    def rest(self, joint: Joint, p: int) -> Counter[Fragment]:
        """Return the fragments of all trees except p."""
        return Counter(
            fragment
            for q, variables in enumerate(joint)
            if q != p or self.mutant == STALE_COUNTS
            for fragment in list_fragments(self.parses[q], variables)
        )

    def steps(self, p: int, v: int) -> list[int]:
        """Return the variables drawn at a node, in order: its edge, then its cut."""
        return [which for which, number in enumerate(self.options(p, v)) if number > 1]

    def choices(self, joint: Joint, p: int, which: int, v: int) -> list[Variables]:
        return [with_value(joint[p], which, v, value) for value in range(self.options(p, v)[which])]

    def probabilities(self, joint: Joint, p: int, which: int, v: int, temperature: float = 1.0) -> list[float]:
        """Return the conditional distribution over the choices of a step."""
        parse = self.parses[p]
        rest = self.rest(joint, p)
        weights = []
        for variables in self.choices(joint, p, which, v):
            weight = self.grammar.log_score(list_fragments(parse, variables), rest) / temperature
            if which == EDGE and self.mutant != NO_DENSITY:
                tree = on_tree(parse, variables)
                below = {v}
                for x in tree:
                    if x in below:
                        below |= set(list_tails(parse, variables[0], x))
                for x in below - {v}:
                    edges, cuts = self.options(p, x)
                    weight += log(edges * cuts)
            weights.append(weight)
        most = max(weights)
        linear = [exp(w - most) for w in weights]
        return [w / sum(linear) for w in linear]

    def sweep(self, joint: Joint, seed: int, names: Sequence[int], number: int, temperature: float) -> Joint:
        """Sweep every tree once, its nodes in the random order of its stream."""
        for p, parse in enumerate(self.parses):
            stream = Stream(seed, names[p], number)
            turn = list(range(len(parse.nodes)))
            for k in range(len(turn) - 1, 0, -1):
                j = int(stream.uniform() * (k + 1))
                turn[k], turn[j] = turn[j], turn[k]
            for v in turn:
                if v not in on_tree(parse, joint[p]):
                    continue
                for which in self.steps(p, v):
                    u = stream.uniform()
                    reached = list(accumulate(self.probabilities(joint, p, which, v, temperature)))
                    value = next((k for k, q in enumerate(reached) if q > u), len(reached) - 1)
                    joint = (*joint[:p], self.choices(joint, p, which, v)[value], *joint[p + 1 :])
        return joint

    def states(self) -> Iterator[Joint]:
        ranges = []
        for p, parse in enumerate(self.parses):
            nodes = range(len(parse.nodes))
            edges = product(*(range(self.options(p, v)[0]) for v in nodes))
            cuts = list(product(*((0, 1) if self.options(p, v)[1] == 2 else (1,) for v in nodes)))
            ranges.append([(e, c) for e in edges for c in cuts])
        return product(*ranges)

    def posterior(self) -> dict[Joint, float]:
        """Return the exact distribution: P of the derivations, with uniform variables at unused nodes."""
        weights: dict[Joint, float] = {}
        for joint in self.states():
            fragments = Counter(
                fragment for parse, variables in zip(self.parses, joint, strict=True)
                for fragment in list_fragments(parse, variables)
            )  # fmt: skip
            weight = self.grammar.log_joint(fragments)
            for p, parse in enumerate(self.parses):
                for v in set(range(len(parse.nodes))) - set(on_tree(parse, joint[p])):
                    edges, cuts = self.options(p, v)
                    weight -= log(edges * cuts)
            weights[joint] = weight
        most = max(weights.values())
        total = sum(exp(w - most) for w in weights.values())
        return {joint: exp(w - most) / total for joint, w in weights.items()}

    def push(self, distribution: dict[Joint, float], p: int, v: int) -> dict[Joint, float]:
        """Return the exact distribution after the steps of one node."""
        for which in self.steps(p, v):
            after: defaultdict[Joint, float] = defaultdict(float)
            for joint, mass in distribution.items():
                if v not in on_tree(self.parses[p], joint[p]):
                    after[joint] += mass
                    continue
                chances = self.probabilities(joint, p, which, v)
                for variables, q in zip(self.choices(joint, p, which, v), chances, strict=True):
                    after[(*joint[:p], variables, *joint[p + 1 :])] += mass * q
            distribution = dict(after)
        return distribution
