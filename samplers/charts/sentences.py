"""Hypergraph of all derivations of a sentence under a context-free grammar and a mask of spans.

The right side of a rule is two symbols, one symbol, or a word. The closure of the grammar sums chains of unary rules,
including cycles, so a chain is one edge. A label over a span is two items, without and with a chain.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.chart import SentenceGrammar, Sorted, cell_of, restricted
from hierogram.samplers.charts.hypergraph import EDGES, ITEMS, TAILS, Hypergraph, make_hypergraph
from hierogram.samplers.compiled.jit import njit

CHAIN = -1
"""Rule number of edges that represent a chain of unary rules, possibly empty."""


class SpanItems(NamedTuple):
    """Items of each cell, -1 for no item."""

    # int32[cells, S]: without a unary chain.
    bare: NDArray[np.int32]
    # int32[cells, L]: with a unary chain.
    whole: NDArray[np.int32]
    # int32[I]: cell of each item.
    cell: NDArray[np.int32]


class ChartSentence(NamedTuple):
    """Sentence to parse."""

    grammar: SentenceGrammar
    # float64[L, L]: closure of the labels.
    closure: NDArray[np.float64]
    # Label of the root.
    root: int
    # float64[n]: factor of each word's rules that keeps sums in range.
    scale: NDArray[np.float64]


def make_sentence(rules: Sorted, words: NDArray[np.int32], root: int) -> ChartSentence:
    """Return the sentence of these words, int32[n], under a grammar."""
    grammar = restricted(rules, words)
    best = np.ones(len(words))
    for position in range(len(words)):
        here = grammar.word_weight[grammar.word_start[position] : grammar.word_start[position + 1]]
        best[position] = here.max(initial=0) or 1
    return ChartSentence(grammar, rules.grammar.closure, root, 1 / best)


class SentenceBuilder:
    """Builder of one sentence's hypergraphs under different masks; each one overwrites the previous one."""

    def __init__(self, sentence: ChartSentence) -> None:
        self.sentence = sentence
        cells = sentence.grammar.words * (sentence.grammar.words + 1) // 2
        symbols, labels = len(sentence.grammar.symbol), sentence.grammar.labels
        most = cells * (symbols + labels)
        self._items = SpanItems(
            np.empty((cells, symbols), np.int32), np.empty((cells, labels), np.int32), np.empty(most, np.int32)
        )
        self._graph = make_hypergraph(most + 1, 1 << 12, 1 << 13)

    def build(self, kept: NDArray[np.bool_]) -> tuple[Hypergraph, SpanItems]:
        """Return the derivations whose spans are kept, bool[cells], and their items; the root may have no edge.

        The rule of an edge is the number of a lexical rule (no tails) or of a binary one (two tails), or `CHAIN`.
        """
        while not write_spans(self.sentence, kept, self._items, self._graph):
            edges = 4 * len(self._graph.weight)
            self._graph = make_hypergraph(len(self._graph.first) - 1, edges, 2 * edges)
        return self._graph, self._items


@njit
def _write(graph, rule, weight, left, right):
    """Write an edge of the current item; returns False without room."""
    size = graph.size
    edge, tail = size[EDGES], size[TAILS]
    if edge == len(graph.weight):
        return False
    graph.head[edge] = size[ITEMS]
    graph.rule[edge] = rule
    graph.weight[edge] = weight
    for item in (left, right):
        if item >= 0:
            graph.tails[tail] = item
            tail += 1
    size[EDGES] = edge + 1
    size[TAILS] = tail
    graph.tail_first[edge + 1] = tail
    return True


@njit
def _end_item(graph, items, cell):
    """Finish the current item; returns its number, -1 if it has no edge."""
    item = graph.size[ITEMS]
    if graph.size[EDGES] == graph.first[item]:
        return -1
    graph.first[item + 1] = graph.size[EDGES]
    items.cell[item] = cell
    graph.size[ITEMS] = item + 1
    return item


@njit
def _bare_item(symbol, i, j, sentence, items, graph):
    """Write the edges of a symbol over a span, without unary chains; returns False without room."""
    grammar = sentence.grammar
    if j == i + 1:
        for w in range(grammar.word_start[i], grammar.word_start[j]):
            if grammar.word_parent[w] == symbol:
                weight = grammar.word_weight[w] * sentence.scale[i]
                if not _write(graph, grammar.word_rule[w], weight, np.int64(-1), np.int64(-1)):
                    return False
    for k in range(i + 1, j):
        left, right = cell_of(i, k), cell_of(k, j)
        for r in range(grammar.parent_start[symbol], grammar.parent_start[symbol + 1]):
            a, b = grammar.left[r], grammar.right[r]
            first = items.whole[left, a] if a < grammar.labels else items.bare[left, a]
            second = items.whole[right, b] if b < grammar.labels else items.bare[right, b]
            if first < 0 or second < 0:
                continue
            if not _write(graph, grammar.rule[r], grammar.weight[r], np.int64(first), np.int64(second)):
                return False
    return True


@njit
def _whole_items(cell, root, sentence, items, graph):
    """Write the items of a cell's labels with unary chains; only of label `root` if it is not -1."""
    labels = sentence.grammar.labels
    for label in range(labels):
        items.whole[cell, label] = -1
    for label in range(labels):
        if root >= 0 and label != root:
            continue
        for child in range(labels):
            below = items.bare[cell, child]
            weight = sentence.closure[label, child]
            if below >= 0 and weight > 0.0 and not _write(graph, CHAIN, weight, np.int64(below), np.int64(-1)):
                return False
        items.whole[cell, label] = _end_item(graph, items, cell)
    return True


@njit
def write_spans(sentence, kept, items, graph):
    """Write all items and edges of the kept spans, the root last; returns False without room."""
    grammar = sentence.grammar
    words = grammar.words
    graph.size[:] = 0
    graph.first[0] = 0
    graph.tail_first[0] = 0
    for width in range(1, words + 1):
        for i in range(words - width + 1):
            j = i + width
            cell = cell_of(i, j)
            for symbol in range(len(grammar.symbol)):
                items.bare[cell, symbol] = -1
                if kept[cell]:
                    if not _bare_item(symbol, i, j, sentence, items, graph):
                        return False
                    items.bare[cell, symbol] = _end_item(graph, items, cell)
            if not _whole_items(cell, sentence.root if width == words else -1, sentence, items, graph):
                return False
    if items.whole[cell_of(0, words), sentence.root] < 0:
        graph.first[graph.size[ITEMS] + 1] = graph.size[EDGES]
        graph.size[ITEMS] += 1
    return True
