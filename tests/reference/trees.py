"""Forests other than phrase forests: labeled trees with one edge per node, and a small parse forest."""

from itertools import pairwise
from random import Random

from tests.reference.forest import Edge, Forest, Node


class RandomTrees:
    """Random trees over a few labels and words, one word below each preterminal, without a target side."""

    def __init__(self, seed: int, labels: int = 3, words: str = "ab") -> None:
        self.random = Random(seed)
        self.labels = labels
        self.words = words

    def tree(self, leaves: int) -> Forest:
        """Return a random tree with `leaves` words, made of unary, binary and ternary nodes."""
        nodes: list[Node] = []
        self.grow(nodes, 0, leaves)
        return Forest(tuple(self.random.choice(self.words) for _ in range(leaves)), (), tuple(nodes))

    def grow(self, nodes: list[Node], start: int, end: int) -> int:
        """Add a subtree over a span and return its node number."""
        arity = min(end - start, self.random.choice((1, 2, 2, 3)))
        if end - start == 1 and self.random.random() < 0.6:
            arity = 0
        bounds = [start, *sorted(self.random.sample(range(start + 1, end), max(0, arity - 1))), end]
        tails = tuple(self.grow(nodes, a, b) for a, b in pairwise(bounds)) if arity else ()
        label = self.random.randint(1, self.labels)
        nodes.append(Node((start, end), (0, 0), (tails,), 1 + sum(nodes[t].level for t in tails), label))
        return len(nodes) - 1


def labeled(source: tuple[int, int], edges: tuple[Edge, ...], nodes: list[Node], label: int) -> Node:
    """Return a node without a target side, at the level of its longest derivation."""
    level = max(1 + sum(nodes[t].level for t in tails) for tails in edges)
    return Node(source, (0, 0), edges, level, label)


def parse_forest() -> Forest:
    """Return a parse forest of `a b a`. Its derivations differ in size, and its edges in arity."""
    nodes: list[Node] = []
    for position in range(3):
        nodes.append(labeled((position, position + 1), ((),), nodes, label=1))
    nodes.append(labeled((0, 2), ((0, 1), ()), nodes, label=2))
    nodes.append(labeled((1, 3), ((1, 2),), nodes, label=2))
    nodes.append(labeled((0, 3), ((3, 2), (0, 4), (0, 1, 2)), nodes, label=3))
    return Forest(("a", "b", "a"), (), tuple(nodes))
