"""Deduction systems as randomized pruning takes them: variables, graphs under a mask, and what is expected.

Of a pair, a variable says whether one rule emits two words. Of a sentence, it says whether a span is a constituent:
whether some symbol covers it. A selection and an assignment make a mask [BPK09 Algorithm 2].

A cheap model says how doubtful it is that two words are emitted together, that of one-to-one links: each word has at
most one partner, and a set of links weighs the product of its emissions and of those of the words that are left alone.
Links may cross in any way. Marginals come from messages between words: sum-product [Pearl 1988], for one-to-one links
[Huang & Jebara 2009]. They are exact where words and emissions form a tree, and near it elsewhere.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.bitexts import PairBuilder, PairGraph, drawn_links, expected_emissions
from hierogram.samplers.charts.chart import cell_of
from hierogram.samplers.charts.hypergraph import Hypergraph, Key, draw_edges
from hierogram.samplers.charts.pairs import PairWords, Rules, branching, unmasked
from hierogram.samplers.charts.sentences import CHAIN, Sentence, SentenceBuilder, SpanItems
from hierogram.samplers.compiled.jit import njit, njit_allocating

_ROUNDS = 20
"""Rounds of messages, there and back."""
_SMALLEST = 1e-100
"""No sum is taken to be smaller: a word may have nothing to emit but what is asked for."""


@njit_allocating
def unlinked(pairs, source_nulls, target_nulls):
    """Return how probable it is that two words are not partners, float64[n, m].

    `pairs` float64[n, m], `source_nulls` float64[n], `target_nulls` float64[m]: emissions, linear.
    """
    n, m = pairs.shape
    # Messages from each word to each partner: one over the weight of all that it may do without this partner.
    from_source, from_target = np.empty((n, m)), np.empty((n, m))
    for x in range(m):
        whole = target_nulls[x]
        for i in range(n):
            whole += pairs[i, x]
        for i in range(n):
            from_target[i, x] = 1.0 / max(whole, _SMALLEST)
    for _ in range(_ROUNDS):
        _send(pairs, source_nulls, from_target, from_source)
        _send(pairs.T, target_nulls, from_source.T, from_target.T)
    found = np.empty((n, m))
    for i in range(n):
        for x in range(m):
            found[i, x] = 1.0 / (1.0 + pairs[i, x] * from_source[i, x] * from_target[i, x])
    return found


@njit
def _send(pairs, alone, received, sent):
    """Fill `sent` float64[n, m]: from each word, one over its weight alone and with all others than this partner."""
    n, m = pairs.shape
    for i in range(n):
        before = alone[i]
        for x in range(m):
            sent[i, x] = before
            before += pairs[i, x] * received[i, x]
        after = 0.0
        for x in range(m - 1, -1, -1):
            sent[i, x] = 1.0 / max(sent[i, x] + after, _SMALLEST)
            after += pairs[i, x] * received[i, x]


@njit
def keep_spans(spans, selected, assigned, words, kept):
    """Fill `kept` bool[cells]: which spans of so many words a mask keeps. `spans` int32[V, 2], half open.

    A selected negative span is pruned, and so is each span that crosses a selected positive one: that overlaps with it
    and neither holds it nor is inside it. In a binary tree this forces the positive span: every span that no
    constituent crosses is one.
    """
    for cell in range(words * (words + 1) // 2):
        kept[cell] = True
    for v in range(len(spans)):
        if not selected[v]:
            continue
        start, end = spans[v, 0], spans[v, 1]
        if not assigned[v]:
            kept[cell_of(start, end)] = False
            continue
        for i in range(words):
            for j in range(i + 1, words + 1):
                if (i < start and start < j and j < end) or (start < i and i < end and end < j):
                    kept[cell_of(i, j)] = False


_PREFERRED = 0.3
"""Links whose emission has at least this share of the best one's weight are in the first derivation."""
_LEAST_DOUBT = 0.005
"""What is added to the doubts of all links: each is freed again and again."""
_DRAWS = 16
"""Derivations that are drawn from each chart."""


class System(ABC):
    """A chart to be pruned. Its last graph is overwritten by the next one."""

    variables: int
    """Variables that a cheap model takes to be positive (M')."""
    branching: int = 2
    """Nonterminals of the largest rule that has no words of its own, 2 at least: the larger it is, the faster charts
    grow."""
    log_scale: float
    """Natural log of the factor that the weights of all derivations have."""

    @abstractmethod
    def build(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Hypergraph:
        """The derivations in which the selected variables have their assigned values, both bool[V]."""

    @abstractmethod
    def draws(self, inside: NDArray[np.float64], key: Key) -> NDArray[np.bool_]:
        """The values of all variables in each of some drawn derivations of the last graph, bool[N, V], one at least;
        inside sums must be filled."""

    @abstractmethod
    def features(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """The features of the last graph, whose edges are expected so often, float64[K]."""

    def preferred(self) -> NDArray[np.bool_]:
        """The variables that the first derivation has positive where it can, bool[V]."""
        return np.ones(self.variables, np.bool_)

    def doubts(self, without: NDArray[np.bool_] | None = None) -> NDArray[np.float64] | None:
        """Return a cheap model's doubts that each variable is positive, float64[V] above 0, where those in `without`,
        bool[V], are known not to be; None where it knows nothing."""
        return None

    @abstractmethod
    def conflicts(self) -> NDArray[np.int64]:
        """For each variable, with how many others it may not be positive together, int64[V]."""


class PairSystem(System):
    """A sentence pair. Its features are how often each two words are emitted together (row by row), how often each
    source and target word is emitted alone, and how often each rule is used.
    """

    def __init__(
        self,
        rules: Rules,
        words: PairWords,
        links: NDArray[np.int32],
        empty_sides: bool = True,
        most_edges: int | None = None,
    ) -> None:
        """`links` int32[V, 2]: source and target positions; `most_edges`: see `PairBuilder`."""
        self.links = links
        self.variables = len(links)
        self.branching = max(2, branching(rules))
        self._task = unmasked(rules, words, empty_sides)
        self.words, self.log_scale = words, words.log_scale
        self._builder = PairBuilder(most_edges)
        self.bitext: PairGraph

    def build(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Hypergraph:
        """The derivations in which the selected variables have their assigned values, both bool[V]."""
        fixed, chosen = self._task.fixed, self.links[selected]
        fixed[:] = 0
        fixed[chosen[:, 0], chosen[:, 1]] = np.where(assigned[selected], 1, -1)
        self.bitext = self._builder.build(self._task)
        return self.bitext.graph

    def draws(self, inside: NDArray[np.float64], key: Key) -> NDArray[np.bool_]:
        """See `System.draws`: many, since a draw takes little beside the chart."""
        return drawn_links(self.bitext, inside, key, self.links, self._task, _DRAWS)

    def features(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """The features of the last graph, float64[K]."""
        found = expected_emissions(self.bitext, expected, self._task)
        graph = self.bitext.graph
        uses = np.bincount(graph.rule[: graph.edges], expected, len(self._task.rules.weight))
        return np.concatenate([found.links.ravel(), found.source_nulls, found.target_nulls, uses])

    def preferred(self) -> NDArray[np.bool_]:
        """Links that are emitted about as easily as the best of either word: others make a poor start."""
        if not self.variables:
            return super().preferred()
        pairs = self.words.pairs
        i, x = self.links[:, 0], self.links[:, 1]
        best = np.maximum(pairs.max(axis=1)[i], pairs.max(axis=0)[x])
        return np.asarray(pairs[i, x] >= _PREFERRED * best, np.bool_)

    def doubts(self, without: NDArray[np.bool_] | None = None) -> NDArray[np.float64] | None:
        """Return how probable it is, in a model of one-to-one links, that a link's words are not partners."""
        words, (i, x) = self.words, self.links.T
        pairs = words.pairs
        if without is not None:
            pairs = pairs.copy()
            pairs[i[without], x[without]] = 0
        return np.asarray(unlinked(pairs, words.source_nulls, words.target_nulls)[i, x] + _LEAST_DOUBT, np.float64)

    def conflicts(self) -> NDArray[np.int64]:
        """For each variable, with how many others it may not be positive together, int64[V]."""
        i, x = self.links[:, 0], self.links[:, 1]
        across = (i[:, None] - i) * (x[:, None] - x)
        return np.asarray((across <= 0).sum(axis=1), np.int64)


class SentenceSystem(System):
    """A sentence. Its features are how often each span is a constituent, then the expected uses of lexical and binary
    rules."""

    def __init__(self, sentence: Sentence, spans: NDArray[np.int32], rules: tuple[int, int]) -> None:
        """`spans` int32[V, 2], half open; `rules`: how many lexical and binary rules the grammar has."""
        self.spans = spans
        self.variables = len(spans)
        self._rules = rules
        self.log_scale = float(np.log(sentence.scale).sum())
        self._words = words = sentence.grammar.words
        self._kept = np.ones(words * (words + 1) // 2, np.bool_)
        self._builder = SentenceBuilder(sentence)
        self.parsed: tuple[Hypergraph, SpanItems]

    def build(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Hypergraph:
        """The derivations in which the selected variables have their assigned values, both bool[V]."""
        keep_spans(self.spans, selected, assigned, self._words, self._kept)
        self.parsed = self._builder.build(self._kept)
        return self.parsed[0]

    def draws(self, inside: NDArray[np.float64], key: Key) -> NDArray[np.bool_]:
        """See `System.draws`: one."""
        graph, items = self.parsed
        covered = np.zeros(len(self._kept), np.bool_)
        covered[items.cell[graph.head[draw_edges(graph, inside, key)]]] = True
        return covered[[cell_of(int(i), int(j)) for i, j in self.spans]].reshape(1, -1)

    def features(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """The features of the last graph, float64[K]."""
        graph, items = self.parsed
        rule = graph.rule[: graph.edges]
        own = rule != CHAIN
        lexical = own & (np.diff(graph.tail_first[: graph.edges + 1]) == 0)
        binary = own & ~lexical
        # Of the items over one span, a derivation has one without a chain on top.
        spans = np.bincount(items.cell[graph.head[: graph.edges][own]], expected[own], len(self._kept))
        return np.concatenate(
            [
                spans,
                np.bincount(rule[lexical], expected[lexical], self._rules[0]),
                np.bincount(rule[binary], expected[binary], self._rules[1]),
            ]
        )

    def conflicts(self) -> NDArray[np.int64]:
        """For each variable, with how many others it may not be positive together, int64[V]."""
        i, j = self.spans[:, 0], self.spans[:, 1]
        crossing = (i[:, None] < i) & (i < j[:, None]) & (j[:, None] < j)
        return np.asarray((crossing | crossing.T).sum(axis=1), np.int64)
