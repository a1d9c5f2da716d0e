"""Charts of sentence pairs for randomized pruning: variables, hypergraphs under a mask, and features.

A variable belongs to a word pair, and is positive (True) if one rule emits both words. A selection of variables and
their values form a mask [BPK09 Algorithm 2].

The doubt of a variable is the probability, under a cheap model, that the words are not linked. In this model, each word
has at most one link, and links may cross. The weight of a set of links is the product of their emission weights and of
the null weights of unlinked words. Probabilities are computed by sum-product message passing between words [Pearl 1988;
Huang & Jebara 2009]. They are exact if words and emissions form a tree, and approximate otherwise.
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Hypergraph, StreamKey
from hierogram.samplers.charts.pair_graphs import PairBuilder, PairGraph, expected_emissions, sample_links
from hierogram.samplers.charts.pairs import PairWords, Rules, unmasked_task
from hierogram.samplers.compiled.jit import njit, njit_allocating

_ROUNDS = 20
"""Number of rounds of messages from source to target words and back."""
_SMALLEST = 1e-100
"""Lower bound of divisors, which are 0 for a word without other emissions."""


@njit_allocating
def unlinked_probabilities(pairs, source_nulls, target_nulls):
    """Return the probability that each word pair is not linked, float64[n, m], given linear weights."""
    n, m = pairs.shape
    # The message from one word to another is 1 / (total weight of the first word's alternatives to their link).
    from_source, from_target = np.empty((n, m)), np.empty((n, m))
    for x in range(m):
        total = target_nulls[x]
        for i in range(n):
            total += pairs[i, x]
        for i in range(n):
            from_target[i, x] = 1.0 / max(total, _SMALLEST)
    for _ in range(_ROUNDS):
        _send(pairs, source_nulls, from_target, from_source)
        _send(pairs.T, target_nulls, from_source.T, from_target.T)
    probability = np.empty((n, m))
    for i in range(n):
        for x in range(m):
            probability[i, x] = 1.0 / (1.0 + pairs[i, x] * from_source[i, x] * from_target[i, x])
    return probability


@njit
def _send(pairs, nulls, received, sent):
    """Fill `sent[i, x]` with 1 / (total weight of the alternatives of word i to its link with word x)."""
    n, m = pairs.shape
    for i in range(n):
        before = nulls[i]
        for x in range(m):
            sent[i, x] = before
            before += pairs[i, x] * received[i, x]
        after = 0.0
        for x in range(m - 1, -1, -1):
            sent[i, x] = 1.0 / max(sent[i, x] + after, _SMALLEST)
            after += pairs[i, x] * received[i, x]


_MIN_PREFERRED = 0.3
"""Minimum emission weight of preferred links, relative to the best link of either word."""
_MIN_DOUBT = 0.005
"""Amount added to all doubts, so that each variable is freed repeatedly."""
_DRAWS = 16
"""Number of derivations sampled from each chart."""


class PairChart:
    """Chart of a sentence pair with V variables, which can be built under any mask. Not thread-safe.

    `links` int32[V, 2] has the source and target position of each variable. `build` overwrites the previous graph, and
    `sample_values` and `features` refer to the last one. A graph has up to `max_edges` edges.
    """

    branching = 2
    """Maximum number of nonterminals in a rule without words except `ANY`. Callers set it if not 2."""

    def __init__(
        self,
        rules: Rules,
        words: PairWords,
        links: NDArray[np.int32],
        empty_sides: bool = True,
        max_edges: int = 1 << 24,
    ) -> None:
        self.links = links
        self.variables = len(links)
        self._task = unmasked_task(rules, words, empty_sides)
        self.words = words
        self._builder = PairBuilder(max_edges)
        self.pair_graph: PairGraph

    def build(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Hypergraph:
        """Return the graph of derivations that agree with `assigned` in all `selected` variables, bool[V]."""
        mask, chosen = self._task.mask, self.links[selected]
        mask[:] = 0
        mask[chosen[:, 0], chosen[:, 1]] = np.where(assigned[selected], 1, -1)
        self.pair_graph = self._builder.build(self._task)
        return self.pair_graph.graph

    def sample_values(self, inside: NDArray[np.float64], key: StreamKey) -> NDArray[np.bool_]:
        """Return the values of variables in samples of the last graph, given inside sums, bool[_DRAWS, V]."""
        return sample_links(self.pair_graph, inside, key, self.links, self._task, _DRAWS)

    def features(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return emissions of word pairs and null words, and uses of rules, in the last graph, float64[K]."""
        emissions = expected_emissions(self.pair_graph, expected, self._task)
        graph = self.pair_graph.graph
        uses = np.bincount(graph.rule[: graph.edges], expected, len(self._task.rules.weight))
        return np.concatenate([emissions.links.ravel(), emissions.source_nulls, emissions.target_nulls, uses])

    def preferred_links(self) -> NDArray[np.bool_]:
        """Return bool[V]: True for links with at least `_MIN_PREFERRED` times the best weight of both words."""
        pairs = self.words.pairs
        i, x = self.links.T
        best = np.maximum(pairs.max(axis=1)[i], pairs.max(axis=0)[x])
        return np.asarray(pairs[i, x] >= _MIN_PREFERRED * best, np.bool_)

    def doubts(self, without: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the doubt of each variable plus `_MIN_DOUBT`, float64[V]. Links `without` are excluded."""
        words, (i, x) = self.words, self.links.T
        pairs = words.pairs
        if without is not None:
            pairs = pairs.copy()
            pairs[i[without], x[without]] = 0
        return np.asarray(
            unlinked_probabilities(pairs, words.source_nulls, words.target_nulls)[i, x] + _MIN_DOUBT, np.float64
        )

    def count_conflicts(self) -> NDArray[np.int64]:
        """Return the number of links that cross each link or share a word with it, including itself, int64[V]."""
        i, x = self.links.T
        across = (i[:, None] - i) * (x[:, None] - x)
        return np.asarray((across <= 0).sum(axis=1), np.int64)
