"""The rule of a tree fragment: two sides of symbols, its scope and its length [CFGŠ14 §3, §5.2]."""

from functools import cache
from itertools import pairwise
from typing import NamedTuple

from tests.reference.forest import Forest, terminals


class Nonterminal(NamedTuple):
    """A labeled nonterminal, numbered from 1 in source order. Unlabeled nonterminals are plain ints."""

    number: int
    label: int


class Bracket(NamedTuple):
    """Start or end of the expansion of a labeled node."""

    label: int
    opening: bool


Symbol = str | int | Nonterminal | Bracket
"""A word (a string), a nonterminal (a number if it has no label), or a bracket."""
Side = tuple[Symbol, ...]


class Rule(NamedTuple):
    """A synchronous rule. Two rules are equal if both sides are equal."""

    source: Side
    target: Side

    @property
    def scope(self) -> int:
        """Number of pairs of adjacent nonterminals on the source side, plus one for each end that is a nonterminal."""
        return sizes(self)[2]

    @property
    def source_terminals(self) -> int:
        return sizes(self)[0]

    @property
    def target_terminals(self) -> int:
        return sizes(self)[1]

    @property
    def length(self) -> int:
        """Number of words on both sides plus the scope."""
        return sum(sizes(self))


@cache
def sizes(rule: Rule) -> tuple[int, int, int]:
    """Return source words, target words, and scope. Cached, because samplers use the same rules repeatedly."""
    kinds = [is_nonterminal(s) for s in rule.source]
    scope = sum(a and b for a, b in pairwise(kinds)) + kinds[0] + kinds[-1] if kinds else 0
    source, target = (sum(isinstance(s, str) for s in side) for side in rule)
    return source, target, scope


def is_nonterminal(symbol: Symbol) -> bool:
    return isinstance(symbol, (int, Nonterminal))


class Variables(NamedTuple):
    """State of a pair: the chosen edge of each node of its forest, and 1 for each node that is cut."""

    edges: tuple[int, ...]
    cuts: tuple[int, ...]


def minimal_derivation(forest: Forest) -> Variables:
    """Return variables with every node cut and its first edge: the derivation with a pair's smallest rules."""
    return Variables((0,) * len(forest.nodes), (1,) * len(forest.nodes))


def rule_at(forest: Forest, variables: Variables, head: int) -> Rule:
    """Return the rule whose left-hand side is this node: its edges down to the nearest cut nodes."""
    fragment = tuple(fragment_at(forest, variables, head))
    if fragment not in forest.kept:
        numbers = {v: n for n, v in enumerate(frontier(forest, variables, head), start=1)}
        source, target = (tuple(write(forest, variables, head, numbers, side)) for side in (0, 1))
        forest.kept[fragment] = Rule(source, target)
    return forest.kept[fragment]


def fragment_at(forest: Forest, variables: Variables, head: int) -> list[tuple[int, int]]:
    """Return the nodes of a node's rule, itself first, with their edges. The cut nodes below are not included."""
    edge = variables.edges[head]
    nodes = [(head, edge)]
    for tail in forest.nodes[head].edges[edge]:
        if not variables.cuts[tail]:
            nodes += fragment_at(forest, variables, tail)
    return nodes


def frontier(forest: Forest, variables: Variables, head: int) -> list[int]:
    """Return the nearest cut nodes below a node, in source order."""
    found = []
    for tail in forest.nodes[head].edges[variables.edges[head]]:
        found += [tail] if variables.cuts[tail] else frontier(forest, variables, tail)
    return found


def write(forest: Forest, variables: Variables, head: int, numbers: dict[int, int], side: int) -> list[Symbol]:
    """Return a side of the expansion of a node, down to the numbered cut nodes. An empty target gives an empty side."""
    node = forest.nodes[head]
    if side == 1 and node.target[0] == node.target[1]:
        return []
    words = (forest.source, forest.target)[side]
    # Items are the words that the edge itself emits, and its tails, each with its start position.
    items: list[tuple[int, list[Symbol]]] = [
        (w, [words[w]]) for w in terminals(forest, head, variables.edges[head], side)
    ]
    for tail in node.edges[variables.edges[head]]:
        start = (forest.nodes[tail].source, forest.nodes[tail].target)[side][0]
        if variables.cuts[tail]:
            label = forest.nodes[tail].label
            items.append((start, [Nonterminal(numbers[tail], label) if label else numbers[tail]]))
        else:
            items.append((start, write(forest, variables, tail, numbers, side)))
    symbols = [s for _, part in sorted(items, key=lambda item: item[0]) for s in part]
    if node.label and side == 0:
        return [Bracket(node.label, True), *symbols, Bracket(node.label, False)]
    return symbols


# Trees of derivations.


def preorder(forest: Forest, variables: Variables, head: int | None = None) -> list[int]:
    """Return the nodes of the derivation below a node (default: the root), itself first."""
    head = forest.root if head is None else head
    nodes = [head]
    for tail in forest.nodes[head].edges[variables.edges[head]]:
        nodes += preorder(forest, variables, tail)
    return nodes


def rule_heads(forest: Forest, variables: Variables, head: int | None = None) -> list[int]:
    """Return the cut nodes of the derivation below a node, in preorder. The root counts as cut."""
    return [v for v in preorder(forest, variables, head) if variables.cuts[v]]


def list_rules(forest: Forest, variables: Variables) -> list[Rule]:
    """Return all rules of a pair's derivation, in preorder."""
    return [rule_at(forest, variables, v) for v in rule_heads(forest, variables)]


def compositions(forest: Forest, span_limit: int) -> list[Rule]:
    """Return rules composed from the first tree: rules with words on both sides and up to five source symbols.

    Each phrase, except the whole pair and phrases beyond the limit or ten words, gives one rule of words, and one rule
    for each node below it, in which this node is a nonterminal.
    """
    joined = Variables((0,) * len(forest.nodes), (0,) * len(forest.nodes))
    found = []
    for v in preorder(forest, joined):
        if not cut_is_free(forest, v, span_limit) or not cut_is_free(forest, v, 10):
            continue
        rules = [rule_at(forest, joined, v)]
        rules += [rule_at(forest, with_cut(joined, x, 1), v) for x in preorder(forest, joined, v)[1:]]
        found += [rule for rule in rules if rule.source_terminals and rule.target_terminals and len(rule.source) <= 5]
    return found


def rule_holder(forest: Forest, variables: Variables, node: int) -> int:
    """Return the head of the rule that begins at a node of the derivation or contains it."""
    if variables.cuts[node]:
        return node
    for v in preorder(forest, variables):
        if node in forest.nodes[v].edges[variables.edges[v]]:
            return rule_holder(forest, variables, v)
    raise ValueError(f"node {node} is not in the derivation")


def cut_is_free(forest: Forest, node: int, span_limit: int) -> bool:
    """Check if a node's cut is sampled: not for the root, nor if a span is wider than the limit (0: no limit)."""
    v = forest.nodes[node]
    widest = max(v.source[1] - v.source[0], v.target[1] - v.target[0])
    return node != forest.root and (span_limit == 0 or widest <= span_limit)


def with_edge(variables: Variables, node: int, edge: int) -> Variables:
    edges = variables.edges
    return Variables((*edges[:node], edge, *edges[node + 1 :]), variables.cuts)


def with_cut(variables: Variables, node: int, cut: int) -> Variables:
    cuts = variables.cuts
    return Variables(variables.edges, (*cuts[:node], cut, *cuts[node + 1 :]))
