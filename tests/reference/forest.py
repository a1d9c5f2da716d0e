"""The phrase decomposition forest [CFGŠ14 §3], twice: from its definition, and by the direct construction.

Spans are half-open. In a finished forest they are in word positions, and the root spans the whole pair.
Nodes have the order of the kernels: by source start from right to left, then from short to long.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

Span = tuple[int, int]
Link = tuple[int, int]
Phrase = tuple[Span, Span]
"""Source and target span."""
Edge = tuple[int, ...]
"""The tails of a hyperedge: node numbers in source order."""
Choices = dict[int, int]
"""A derivation: the chosen incoming edge of each of its nodes."""


@dataclass(frozen=True)
class Node:
    """A node: its spans, its incoming edges, its level, and its label (0 for phrases)."""

    source: Span
    target: Span
    edges: tuple[Edge, ...]
    level: int
    label: int = 0

    @property
    def degree(self) -> int:
        return len(self.edges)


@dataclass(frozen=True)
class Forest:
    """The words of a pair and all its derivations. Tails precede their heads, and the root is last."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    nodes: tuple[Node, ...]

    @property
    def root(self) -> int:
        return len(self.nodes) - 1

    @cached_property
    def kept(self) -> dict[tuple[Any, ...], Any]:
        """Cache for results that samplers need repeatedly."""
        return {}


def inside(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def disjoint(a: Span, b: Span) -> bool:
    return a[1] <= b[0] or b[1] <= a[0]


def within(inner: Phrase, outer: Phrase) -> bool:
    """Check if a phrase is inside another on both sides."""
    return inside(inner[0], outer[0]) and inside(inner[1], outer[1])


def spans(length: int) -> list[Span]:
    """Return all nonempty spans of a text, in node order."""
    return [(i, j) for i in reversed(range(length)) for j in range(i + 1, length + 1)]


# From the definition.


def compress(links: set[Link]) -> tuple[set[Link], list[int], list[int]]:
    """Return links renumbered over aligned words only, and the original position of each new number."""
    source = sorted({s for s, _ in links})
    target = sorted({t for _, t in links})
    return {(source.index(s), target.index(t)) for s, t in links}, source, target


def all_phrases(links: set[Link], source_length: int, target_length: int) -> list[Phrase]:
    """Return every pair of spans with a link inside and no link from inside to outside."""
    return [
        (f, e)
        for f, e in product(spans(source_length), spans(target_length))
        if any(f[0] <= s < f[1] and e[0] <= t < e[1] for s, t in links)
        and all((f[0] <= s < f[1]) == (e[0] <= t < e[1]) for s, t in links)
    ]


def tail_sets(candidates: list[Phrase]) -> Iterator[frozenset[Phrase]]:
    """Yield every set of phrases that overlap on neither side, including the empty set."""
    if not candidates:
        yield frozenset()
        return
    first, *rest = candidates
    yield from tail_sets(rest)
    compatible = [p for p in rest if disjoint(p[0], first[0]) and disjoint(p[1], first[1])]
    for others in tail_sets(compatible):
        yield others | {first}


def covers(wide: frozenset[Phrase], narrow: frozenset[Phrase]) -> bool:
    """Check if every phrase of `narrow` is inside a phrase of `wide`."""
    return all(any(within(p, q) for q in wide) for p in narrow)


def minimal_edges(head: Phrase, phrases: list[Phrase]) -> list[frozenset[Phrase]]:
    """Return the tail sets of the head that are not covered by another of its tail sets."""
    edges = list(tail_sets([p for p in phrases if p != head and within(p, head)]))
    return [e for e in edges if not any(other != e and covers(other, e) for other in edges)]


def derivation_lengths(head: Phrase, edges: dict[Phrase, list[frozenset[Phrase]]]) -> set[int]:
    """Return the set of edge counts of the derivations below a phrase. It has one element [CFGŠ14 Lemma 3]."""
    lengths: set[int] = set()
    for tails in edges[head]:
        sums = {1}
        for tail in tails:
            sums = {a + b for a in sums for b in derivation_lengths(tail, edges)}
        lengths |= sums
    return lengths


def forest_by_definition(source: tuple[str, ...], target: tuple[str, ...], links: set[Link]) -> Forest:
    """Return the forest as defined: all phrases, all minimal edges. Raises `ValueError` if [CFGŠ14 Lemma 3] fails."""
    if not links:
        return unlinked_forest(source, target)
    compressed, source_words, target_words = compress(links)
    phrases = all_phrases(compressed, len(source_words), len(target_words))
    phrases.sort(key=lambda p: (-p[0][0], p[0][1]))
    edges = {p: minimal_edges(p, phrases) for p in phrases}
    nodes = []
    for phrase in phrases:
        in_source_order = [tuple(sorted(phrases.index(t) for t in tails)) for tails in edges[phrase]]
        in_source_order = [tuple(sorted(tails, key=lambda t: phrases[t][0])) for tails in in_source_order]
        (level,) = derivation_lengths(phrase, edges)
        nodes.append(
            Node(
                (source_words[phrase[0][0]], source_words[phrase[0][1] - 1] + 1),
                (target_words[phrase[1][0]], target_words[phrase[1][1] - 1] + 1),
                tuple(sorted(in_source_order, key=lambda tails: [phrases[t][0][1] for t in tails])),
                level,
            )
        )
    return widen_root(Forest(source, target, tuple(nodes)))


def unlinked_forest(source: tuple[str, ...], target: tuple[str, ...]) -> Forest:
    """Return the forest of a pair without links: its only derivation is one rule that contains the whole pair."""
    return Forest(source, target, (Node((0, len(source)), (0, len(target)), ((),), 1),))


def widen_root(forest: Forest) -> Forest:
    """Return the forest with a root that spans the whole pair."""
    root = forest.nodes[-1]
    whole = Node((0, len(forest.source)), (0, len(forest.target)), root.edges, root.level)
    return Forest(forest.source, forest.target, (*forest.nodes[:-1], whole))


# The direct construction.


def direct_forest(source: tuple[str, ...], target: tuple[str, ...], links: set[Link]) -> Forest:
    """Return the forest by split points and maximal phrases [CFGŠ14 Algorithm 2], for inputs of any size."""
    if not links:
        return unlinked_forest(source, target)
    compressed, source_words, target_words = compress(links)
    number: dict[Span, int] = {}
    nodes: list[Node] = []
    for span in spans(len(source_words)):
        reached = [t for s, t in compressed if span[0] <= s < span[1]]
        low, high = min(reached), max(reached)
        if any(low <= t <= high and not span[0] <= s < span[1] for s, t in compressed):
            continue
        splits = [k for k in range(span[0] + 1, span[1]) if (span[0], k) in number and (k, span[1]) in number]
        edges: list[Edge] = [(number[span[0], k], number[k, span[1]]) for k in splits]
        if not splits:
            edges = [maximal_phrases(span, number)]
        nodes.append(
            Node(
                (source_words[span[0]], source_words[span[1] - 1] + 1),
                (target_words[low], target_words[high] + 1),
                tuple(edges),
                1 + sum(nodes[t].level for t in edges[0]),
            )
        )
        number[span] = len(nodes) - 1
    return widen_root(Forest(source, target, tuple(nodes)))


def maximal_phrases(span: Span, number: dict[Span, int]) -> Edge:
    """Return the node numbers of the maximal phrases inside a span, in source order."""
    below = [s for s in number if s != span and inside(s, span)]
    maximal = [s for s in below if not any(s != other and inside(s, other) for other in below)]
    return tuple(number[s] for s in sorted(maximal))


# Queries.


def derivations(forest: Forest, head: int | None = None) -> Iterator[Choices]:
    """Yield all derivations below a node (default: the root), without cuts."""
    head = forest.root if head is None else head
    for j, tails in enumerate(forest.nodes[head].edges):
        for below in product(*(list(derivations(forest, t)) for t in tails)):
            choices = {head: j}
            for part in below:
                choices |= part
            yield choices


def lowest_covering(forest: Forest, choices: Choices, position: int, side: int) -> int:
    """Return the lowest node of a derivation whose span covers a word of the source (side 0) or target (side 1)."""
    covering = [
        v for v in choices if (span := (forest.nodes[v].source, forest.nodes[v].target)[side])[0] <= position < span[1]
    ]
    return min(covering, key=lambda v: forest.nodes[v].level)


def terminals(forest: Forest, head: int, edge: int, side: int) -> list[int]:
    """Return the word positions of the source (side 0) or target (side 1) that an edge emits itself."""
    asked = head, edge, side
    if asked in forest.kept:
        return forest.kept[asked]
    node = forest.nodes[head]
    start, end = (node.source, node.target)[side]
    tails = [forest.nodes[t] for t in node.edges[edge]]
    covered = {w for t in tails for w in range(*(t.source, t.target)[side])}
    forest.kept[asked] = [w for w in range(start, end) if w not in covered]
    return forest.kept[asked]
