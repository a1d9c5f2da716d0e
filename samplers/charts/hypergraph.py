"""Inside and outside sums, samples and expectations of packed hypergraphs (weighted deduction).

An *item* is anything that can be derived, such as a bispan. An *edge* derives one item, its head, from other items, its
tails. A derivation chooses one edge for the root, one for each tail of that edge, and so on. Its weight is the product
of its edges' weights. The *inside sum* of an item is the total weight of its derivations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.exceptions import GrammarError

ITEMS, EDGES, TAILS = range(3)
"""Indices into `Hypergraph.size`."""


class Hypergraph(NamedTuple):
    """Packed hypergraph: items in topological order with the root last, and their edges."""

    # int64[I+1]: item k has the incoming edges `first[k]` to `first[k + 1] - 1`.
    first: NDArray[np.int64]
    # int32[E]: item that each edge derives.
    head: NDArray[np.int32]
    # float64[E]: linear weight of each edge.
    weight: NDArray[np.float64]
    # int32[E]: rule number of each edge.
    rule: NDArray[np.int32]
    # int64[E+1], int32[T]: edge e has the tails `tails[tail_first[e] : tail_first[e + 1]]`, which precede its head.
    tail_first: NDArray[np.int64]
    tails: NDArray[np.int32]
    # int64[3]: numbers of items, edges and tails in use.
    size: NDArray[np.int64]

    @property
    def edges(self) -> int:
        """Number of edges."""
        return int(self.size[EDGES])


def make_hypergraph(items: int, edges: int) -> Hypergraph:
    """Allocate a hypergraph with room for `items` items, `edges` edges, and two tails per edge."""
    # Memory that is never written takes no physical memory, so the arrays may be much too large.
    return Hypergraph(
        np.zeros(items + 1, np.int64),
        np.empty(edges, np.int32),
        np.empty(edges),
        np.empty(edges, np.int32),
        np.zeros(edges + 1, np.int64),
        np.empty(2 * edges, np.int32),
        np.zeros(3, np.int64),
    )


class StreamKey(NamedTuple):
    """Key of a random stream: different keys give independent streams."""

    seed: int
    pair: int
    step: int


class InsideOutside(NamedTuple):
    """Inside sums of items, linear float64[I], and expected uses of edges per derivation, float64[E]."""

    inside: NDArray[np.float64]
    expected: NDArray[np.float64]

    @property
    def total(self) -> float:
        """Total weight of all derivations."""
        return float(self.inside[-1])


def inside_outside(graph: Hypergraph) -> InsideOutside:
    """Compute inside sums and expectations. Raises `GrammarError` if the root has no derivation."""
    items = int(graph.size[ITEMS])
    scores = InsideOutside(np.empty(items), np.empty(graph.edges))
    sum_inside(graph, scores.inside)
    if not items or not scores.total > 0:
        raise GrammarError("the hypergraph has no derivation")
    sum_outside(graph, scores.inside, np.empty(items), scores.expected)
    return scores


def total_weight(graph: Hypergraph) -> float:
    """Return the total weight of all derivations of the root, linear, or 0 without a derivation."""
    inside = np.empty(int(graph.size[ITEMS]))
    sum_inside(graph, inside)
    return float(inside[-1]) if len(inside) else 0.0


@njit
def sum_inside(graph, inside):
    """Fill `inside` with the inside sums of all items, linear."""
    for k in range(graph.size[ITEMS]):
        total = 0.0
        for e in range(graph.first[k], graph.first[k + 1]):
            product = graph.weight[e]
            for t in range(graph.tail_first[e], graph.tail_first[e + 1]):
                product *= inside[graph.tails[t]]
            total += product
        inside[k] = total


@njit
def sum_outside(graph, inside, outside, expected):
    """Fill outside sums and expected uses of edges from inside sums. The root's sum must be > 0."""
    items = graph.size[ITEMS]
    outside[:items] = 0.0
    outside[items - 1] = 1.0
    whole = 1.0 / inside[items - 1]
    for k in range(items - 1, -1, -1):
        above = outside[k]
        for e in range(graph.first[k], graph.first[k + 1]):
            product = above * graph.weight[e]
            if product > 0.0:
                for t in range(graph.tail_first[e], graph.tail_first[e + 1]):
                    product *= inside[graph.tails[t]]
            if product > 0.0:
                for t in range(graph.tail_first[e], graph.tail_first[e + 1]):
                    outside[graph.tails[t]] += product / inside[graph.tails[t]]
            expected[e] = product * whole


@njit
def draw(graph, inside, stream_state, stack, edges):
    """Write the edges of a sampled derivation in preorder. Returns their number and the stream state."""
    stack[0] = graph.size[ITEMS] - 1
    top, number = 1, 0
    while top > 0:
        top -= 1
        item = stack[top]
        stream_state = advance(stream_state)
        left = uniform(stream_state) * inside[item]
        chosen = np.int64(-1)
        for e in range(graph.first[item], graph.first[item + 1]):
            product = graph.weight[e]
            for t in range(graph.tail_first[e], graph.tail_first[e + 1]):
                product *= inside[graph.tails[t]]
            if product > 0.0:
                chosen = e
                left -= product
                if left < 0.0:
                    break
        edges[number] = chosen
        number += 1
        for t in range(graph.tail_first[chosen + 1] - 1, graph.tail_first[chosen] - 1, -1):
            stack[top] = graph.tails[t]
            top += 1
    return number, stream_state
