"""Complete enumeration of small corpora: all derivations, all states of the variables, and exact probabilities."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import exp
from typing import NamedTuple, TypeVar

from tests.reference.forest import Forest
from tests.reference.models import Model, RuleCounts, log_score
from tests.reference.rules import Rule, Variables, cut_is_free, list_rules, preorder

Key = TypeVar("Key")


class Choice(NamedTuple):
    node: int
    edge: int
    cut: int


Tree = tuple[Choice, ...]
"""A derivation with its cuts, in preorder."""


def to_tree(forest: Forest, variables: Variables) -> Tree:
    """Return the derivation that the variables describe, without variables of unused nodes."""
    return tuple(Choice(v, variables.edges[v], variables.cuts[v]) for v in preorder(forest, variables))


def to_variables(forest: Forest, tree: Tree) -> Variables:
    """Return variables that describe a derivation. Unused nodes have edge 0 and cut 1."""
    edges = [0] * len(forest.nodes)
    cuts = [1] * len(forest.nodes)
    for choice in tree:
        edges[choice.node], cuts[choice.node] = choice.edge, choice.cut
    return Variables(tuple(edges), tuple(cuts))


def cut_values(forest: Forest, node: int, span_limit: int) -> tuple[int, ...]:
    return (0, 1) if cut_is_free(forest, node, span_limit) else (1,)


def all_variables(forest: Forest, span_limit: int) -> Iterator[Variables]:
    nodes = range(len(forest.nodes))
    for edges in product(*(range(forest.nodes[v].degree) for v in nodes)):
        for cuts in product(*(cut_values(forest, v, span_limit) for v in nodes)):
            yield Variables(edges, cuts)


def all_trees(forest: Forest, span_limit: int, head: int | None = None) -> Iterator[Tree]:
    """Yield every derivation below a node (default: the root), with every setting of its cuts."""
    head = forest.root if head is None else head
    for j, tails in enumerate(forest.nodes[head].edges):
        for parts in product(*(list(all_trees(forest, span_limit, t)) for t in tails)):
            for cut in cut_values(forest, head, span_limit):
                yield (Choice(head, j, cut), *(choice for part in parts for choice in part))


def tree_rules(forest: Forest, tree: Tree) -> tuple[Rule, ...]:
    """Return the rules of a derivation, in preorder."""
    return tuple(list_rules(forest, to_variables(forest, tree)))


def normalize(log_weights: dict[Key, float]) -> dict[Key, float]:
    """Return normalized probabilities from natural log weights."""
    top = max(log_weights.values())
    weights = {key: exp(w - top) for key, w in log_weights.items()}
    whole = sum(weights.values())
    return {key: w / whole for key, w in weights.items()}


def posterior(forests: Sequence[Forest], model: Model, span_limit: int) -> dict[tuple[Tree, ...], float]:
    """Return the exact joint posterior of all pairs' derivations, by the model's closed form."""
    trees = [[(t, tree_rules(f, t)) for t in all_trees(f, span_limit)] for f in forests]
    return normalize(
        {
            tuple(tree for tree, _ in joint): model.log_joint(RuleCounts(r for _, rules in joint for r in rules))
            for joint in product(*trees)
        }
    )


def conditional(
    posterior_of_all: dict[tuple[Tree, ...], float], pair: int
) -> dict[tuple[Tree, ...], dict[Tree, float]]:
    """Return the exact posterior of one pair's derivation for every setting of the other pairs."""
    found: dict[tuple[Tree, ...], dict[Tree, float]] = {}
    for joint, p in posterior_of_all.items():
        found.setdefault((*joint[:pair], *joint[pair + 1 :]), {})[joint[pair]] = p
    return {others: {tree: p / sum(trees.values()) for tree, p in trees.items()} for others, trees in found.items()}


def sequential(forest: Forest, model: Model, span_limit: int) -> dict[Tree, float]:
    """Return the normalized sequential probability of one pair alone, its rules scored in preorder."""
    return normalize(
        {tree: log_score(model, tree_rules(forest, tree), RuleCounts()) for tree in all_trees(forest, span_limit)}
    )


def spread(forest: Forest, trees: dict[Tree, float], span_limit: int) -> dict[Variables, float]:
    """Return P_z, the distribution of variables, from P_t: variables of unused nodes are uniform [CFGŠ14 §2]."""
    found = {}
    for variables in all_variables(forest, span_limit):
        tree = to_tree(forest, variables)
        p = trees[tree]
        for v in set(range(len(forest.nodes))) - {choice.node for choice in tree}:
            p /= forest.nodes[v].degree * len(cut_values(forest, v, span_limit))
        found[variables] = p
    return found


def gather(forest: Forest, distribution: dict[Variables, float]) -> dict[Tree, float]:
    """Return P_t, the distribution of derivations, from P_z, the distribution of all variables."""
    found: dict[Tree, float] = {}
    for variables, p in distribution.items():
        tree = to_tree(forest, variables)
        found[tree] = found.get(tree, 0.0) + p
    return found


def gather_all(
    forests: Sequence[Forest], distribution: dict[tuple[Variables, ...], float]
) -> dict[tuple[Tree, ...], float]:
    """Return the joint P_t of several pairs from their joint P_z."""
    found: dict[tuple[Tree, ...], float] = {}
    for joint, p in distribution.items():
        trees = tuple(to_tree(f, variables) for f, variables in zip(forests, joint, strict=True))
        found[trees] = found.get(trees, 0.0) + p
    return found


def total_variation(a: dict[Key, float], b: dict[Key, float]) -> float:
    """Return half the summed absolute difference of two distributions."""
    return sum(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys()) / 2
