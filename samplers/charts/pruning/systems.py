"""What randomized pruning needs of a deduction system: its variables, graphs under a mask, and what is expected."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.bitexts import Bitext, Builder, drawn_links, expected_emissions
from hierogram.samplers.charts.chart import cell_of
from hierogram.samplers.charts.hypergraph import Hypergraph, Key, draw_edges
from hierogram.samplers.charts.pairs import Mask, Rules, Task, Words, branching
from hierogram.samplers.charts.pruning.doubts import unlinked
from hierogram.samplers.charts.pruning.masks import fix_links, keep_spans
from hierogram.samplers.charts.sentences import CHAIN, Parsed, Sentence, SentenceBuilder

_PREFERRED = 0.3
"""Links whose emission has at least this share of the best one's weight are in the first derivation."""
_LEAST_DOUBT = 0.005
"""What is added to the doubts of all links: each is freed again and again."""
_DRAWS = 16
"""Derivations that are drawn from each chart."""


class System(ABC):
    """A chart to be pruned. Its last graph is overwritten by the next one."""

    variables: int
    """How many there are: those that a cheap model takes to be positive (M')."""
    branching: int = 2
    """Nonterminals of the largest rule that has no words of its own, 2 at least: the larger it is, the faster charts
    grow."""

    @property
    @abstractmethod
    def log_scale(self) -> float:
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
        """How much a cheap model doubts that each variable is positive, float64[V] above 0, where those in `without`,
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
        words: Words,
        links: NDArray[np.int32],
        empty_sides: bool = True,
        most_edges: int | None = None,
    ) -> None:
        """`links` int32[V, 2]: source and target positions; `most_edges`: see `Builder`."""
        self.links = links
        self.variables = len(links)
        self.branching = max(2, branching(rules))
        size = len(words.source), len(words.target)
        self._task = Task(rules, words, Mask(np.zeros(size, np.int8), np.zeros((0, 0), np.bool_)), empty_sides)
        self._builder = Builder(most_edges)
        self.bitext: Bitext

    @property
    def words(self) -> Words:
        """The words with their emissions."""
        return self._task.words

    @property
    def log_scale(self) -> float:
        """Natural log of the factor that the weights of all derivations have."""
        return self._task.words.log_scale

    def build(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Hypergraph:
        """The derivations in which the selected variables have their assigned values, both bool[V]."""
        fix_links(self.links, selected, assigned, self._task.mask.fixed)
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
        pairs = self._task.words.pairs
        i, x = self.links[:, 0], self.links[:, 1]
        best = np.maximum(pairs.max(axis=1)[i], pairs.max(axis=0)[x])
        return np.asarray(pairs[i, x] >= _PREFERRED * best, np.bool_)

    def doubts(self, without: NDArray[np.bool_] | None = None) -> NDArray[np.float64] | None:
        """How probable it is, in a model of one-to-one links, that a link's words are not partners."""
        words, (i, x) = self._task.words, self.links.T
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
        self._sentence = sentence
        words = sentence.grammar.words
        self._kept = np.ones(words * (words + 1) // 2, np.bool_)
        self._builder = SentenceBuilder(sentence)
        self.parsed: Parsed

    @property
    def log_scale(self) -> float:
        """Natural log of the factor that the weights of all derivations have."""
        return self._sentence.log_scale

    def build(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Hypergraph:
        """The derivations in which the selected variables have their assigned values, both bool[V]."""
        keep_spans(self.spans, selected, assigned, self._sentence.grammar.words, self._kept)
        self.parsed = self._builder.build(self._kept)
        return self.parsed.graph

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
