"""Hypergraph of all derivations of a sentence pair under a synchronous grammar and a mask.

The grammar has one nonterminal symbol. Rules mix words and any number of nonterminals. An item is a bispan. An edge is
a rule whose symbols have positions on both sides. Rules with b adjacent nonterminals create O(n^(b+1) m^(b+1)) edges
for n source and m target words [BPK09 §4]. Edges that violate the mask are omitted.

For each source span, the source side of each rule is matched first (a *segmentation*), then the target side.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import EDGES, ITEMS, TAILS, Hypergraph, StreamKey, draw, make_hypergraph
from hierogram.samplers.charts.pairs import ANY, PairTask, make_item_table, number_items, span_index
from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.streams import stream
from hierogram.samplers.exceptions import SamplerError


class _Segmentations(NamedTuple):
    """S segmentations of one source span, and scratch memory for matching. Sides have up to W symbols."""

    # int32[S]: rule of each segmentation.
    rule: NDArray[np.int32]
    # int32[S, W]: index of each nonterminal's source span (see `span_index`), by segmentation.
    spans: NDArray[np.int32]
    # int32[S]: number of nonterminals of the rule.
    arity: NDArray[np.int32]
    # int32[S, W]: source positions of the words that each rule emits.
    words: NDArray[np.int32]
    # int32[S]: number of source words that each rule emits.
    emitted: NDArray[np.int32]
    # int32[S]: source position of the word that matches `ANY`, or -1.
    any_position: NDArray[np.int32]
    # int64[W]: scratch memory for the start and end position of each symbol.
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    # int32[W]: scratch memory for the item of each nonterminal.
    tails: NDArray[np.int32]
    # int32[W]: scratch memory for the positions of target words.
    positions: NDArray[np.int32]


def _make_segments(size: int, longest: int) -> _Segmentations:
    return _Segmentations(
        np.empty(size, np.int32),
        np.empty((size, longest), np.int32),
        np.empty(size, np.int32),
        np.empty((size, longest), np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest, np.int32),
        np.empty(longest, np.int32),
    )


@njit_inline
def _next_end(symbol, start, end, limit, last, words):
    """Return a symbol's next end after `end` (-1 at first) up to `limit`, or -1. `last` ends at `limit`."""
    if symbol >= 0 or symbol == ANY:
        if end >= 0 or start >= limit or (symbol >= 0 and words[start] != symbol) or (last and start + 1 != limit):
            return np.int64(-1)
        return np.int64(start + 1)
    if last:
        return np.int64(limit) if end < 0 else np.int64(-1)
    following = np.int64(start if end < 0 else end + 1)
    return following if following <= limit else np.int64(-1)


@njit
def _add_segmentation(rule, first, depth, symbols, segments, segment):
    """Add the matched segmentation of a rule's `depth` symbols. Returns the next index, or -1 if full."""
    if segment == len(segments.rule):
        return np.int64(-1)
    arity, emitted = 0, 0
    segments.rule[segment] = rule
    segments.any_position[segment] = -1
    for d in range(depth):
        symbol = symbols[first + d]
        if symbol >= 0 or symbol == ANY:
            segments.words[segment, emitted] = segments.start[d]
            emitted += 1
            if symbol == ANY:
                segments.any_position[segment] = segments.start[d]
        else:
            segments.spans[segment, arity] = span_index(segments.start[d], segments.end[d])
            arity += 1
    segments.arity[segment] = arity
    segments.emitted[segment] = emitted
    return segment + 1


@njit
def _segment_rule(rule, i, j, task, filled, segments, number):
    """Add a rule's segmentations of [i, j) from index `number` on. Returns the next index, or -1 if full."""
    side, words = task.rules.source, task.words.source
    first, last = np.int64(side.first[rule]), np.int64(side.first[rule + 1])
    length = last - first
    if length == 0:
        return number if i < j else _add_segmentation(rule, first, 0, side.symbols, segments, number)
    if side.min_words[first] > j - i:
        return number
    depth = 0
    segments.start[0], segments.end[0] = i, -1
    while depth >= 0:
        final = depth == length - 1
        symbol = side.symbols[first + depth]
        limit = j if final else j - side.min_words[first + depth + 1]
        end = _next_end(symbol, segments.start[depth], segments.end[depth], limit, final, words)
        if end < 0:
            depth -= 1
            continue
        segments.end[depth] = end
        if symbol < 0 and symbol != ANY and not filled[span_index(segments.start[depth], end)]:
            continue
        if final:
            number = _add_segmentation(rule, first, length, side.symbols, segments, number)
            if number < 0:
                return number
        else:
            depth += 1
            segments.start[depth], segments.end[depth] = end, -1
    return number


_COMPLETE, _SEGMENTATIONS_FULL, _EDGES_FULL = range(3)
"""Results of `_write_edges`. `_EDGES_FULL`: edges or tails do not fit in the hypergraph."""


class PairGraph(NamedTuple):
    """Hypergraph of a pair. Row k of `bispan` int32[I, 4] is the bispan (i, j, x, y) of item k."""

    graph: Hypergraph
    bispan: NDArray[np.int32]


class Emissions(NamedTuple):
    """Number of times that the rules of a derivation emit each word pair and each null word, or its mean."""

    # float64[n, m]: emissions of each word pair. A rule emits all pairs of its source and target words.
    links: NDArray[np.float64]
    # float64[n], float64[m]: emissions of each word by rules without words of the other side.
    source_nulls: NDArray[np.float64]
    target_nulls: NDArray[np.float64]


class PairBuilder:
    """Builder of hypergraphs of up to `max_edges` edges. Each `build` overwrites the previous hypergraph."""

    def __init__(self, max_edges: int) -> None:
        self._max_edges = max_edges
        self._cells = make_item_table(0, 0, 1 << 12)
        self._segments = _make_segments(1 << 10, 4)
        self._graph = make_hypergraph(1 << 12, max_edges)

    def build(self, task: PairTask) -> PairGraph:
        """Return the hypergraph of `task`. Raises `SamplerError` for too many edges or tails."""
        n, m = task.mask.shape
        if self._cells.covered.shape != (n + 1, m):
            self._cells = make_item_table(n, m, len(self._cells.bispan))
        items = number_items(task.mask, task.empty_sides, self._cells)
        if items > len(self._cells.bispan):
            self._cells = make_item_table(n, m, 2 * items)
            number_items(task.mask, task.empty_sides, self._cells)
        if task.rules.longest > self._segments.spans.shape[1]:
            self._segments = _make_segments(len(self._segments.rule), task.rules.longest)
        if items >= len(self._graph.first):
            self._graph = self._graph._replace(first=np.zeros(2 * items + 1, np.int64))
        while True:
            self._graph.size[ITEMS] = items
            result = _write_edges(task, self._cells, self._segments, self._graph)
            if result == _COMPLETE:
                return PairGraph(self._graph, self._cells.bispan[:items])
            if result == _SEGMENTATIONS_FULL:
                self._segments = _make_segments(4 * len(self._segments.rule), self._segments.spans.shape[1])
            else:
                raise SamplerError(
                    f"the chart of a pair of {n} and {m} words needs more than {self._max_edges:,} edges or "
                    f"{2 * self._max_edges:,} tails: use a shorter pair"
                )


@njit_allocating
def expected_emissions(pair_graph: PairGraph, expected: NDArray[np.float64], task: PairTask) -> Emissions:
    """Return expected emissions, given the expected uses of edges float64[E]."""
    n, m = task.mask.shape
    emissions = Emissions(np.zeros((n, m)), np.zeros(n), np.zeros(m))
    positions = np.empty(n, np.int32), np.empty(m, np.int32)
    for e in range(len(expected)):
        if expected[e] > 0.0 and task.rules.emits[pair_graph.graph.rule[e]]:
            _add_edge_emissions(pair_graph, e, expected[e], emissions, positions)
    return emissions


@njit_allocating
def sample_links(
    pair_graph: PairGraph,
    inside: NDArray[np.float64],
    key: StreamKey,
    links: NDArray[np.int32],
    task: PairTask,
    draws: int,
) -> NDArray[np.bool_]:
    """Sample derivations. Returns bool[draws, V]: True if one rule emits both words of a link."""
    n, m = task.mask.shape
    found = Emissions(np.zeros((n, m)), np.zeros(n), np.zeros(m))
    positions = np.empty(n, np.int32), np.empty(m, np.int32)
    # A derivation cannot have more edges, because each item covers a word and is used at most once.
    max_edges = pair_graph.graph.size[ITEMS] + pair_graph.graph.size[TAILS] + 1
    stack, edges = np.empty(max_edges, np.int64), np.empty(max_edges, np.int64)
    values = np.zeros((draws, len(links)), np.bool_)
    stream_state = stream(key.seed, key.pair, key.step)
    for k in range(draws):
        number, stream_state = draw(pair_graph.graph, inside, stream_state, stack, edges)
        found.links[:] = 0.0
        for e in edges[:number]:
            if task.rules.emits[pair_graph.graph.rule[e]]:
                _add_edge_emissions(pair_graph, e, 1.0, found, positions)
        for v in range(len(links)):
            values[k, v] = found.links[links[v, 0], links[v, 1]] > 0.0
    return values


@njit
def _add_edge_emissions(pair_graph, e, amount, emissions, positions):
    """Add `amount` to the emissions of edge e: the words of its head that no tail contains."""
    graph, bispan = pair_graph.graph, pair_graph.bispan
    source, target = positions
    a = _uncovered(graph, bispan, e, 0, source)
    b = _uncovered(graph, bispan, e, 2, target)
    for k in range(a):
        if b == 0:
            emissions.source_nulls[source[k]] += amount
        for t in range(b):
            emissions.links[source[k], target[t]] += amount
    if a == 0:
        for t in range(b):
            emissions.target_nulls[target[t]] += amount


@njit
def _uncovered(graph, bispan, e, side, positions):
    """Write the positions that an edge emits on a side (0 source, 2 target). Returns their number."""
    head = bispan[graph.head[e]]
    number = 0
    position = np.int64(head[side])
    while position < head[side + 1]:
        next_position = position
        for t in range(graph.tail_first[e], graph.tail_first[e + 1]):
            tail = bispan[graph.tails[t]]
            if tail[side] == position and tail[side + 1] > position:
                next_position = np.int64(tail[side + 1])
        if next_position == position:
            positions[number] = position
            number += 1
            next_position += 1
        position = next_position
    return number


@njit
def _agrees(mask, table, segments, segment, targets):
    """Check if the mask lets a segmentation emit its words with the target words `positions[:targets]`."""
    positives, source_positives, target_positives = 0, 0, 0
    for k in range(segments.emitted[segment]):
        i = segments.words[segment, k]
        source_positives += table.source_positives[i]
        for t in range(targets):
            value = mask[i, segments.positions[t]]
            if value < 0:
                return False
            positives += value
    for t in range(targets):
        target_positives += table.target_positives[segments.positions[t]]
    return positives == source_positives and positives == target_positives


@njit
def _weigh(task, segments, segment, targets, target_any):
    """Return the linear weight of a rule with its words. `target_any` is the position of `ANY`, or -1."""
    words = task.words
    weight = task.rules.weight[segments.rule[segment]]
    for k in range(segments.emitted[segment]):
        weight *= words.source_scale[segments.words[segment, k]]
    for t in range(targets):
        weight *= words.target_scale[segments.positions[t]]
    source_any = segments.any_position[segment]
    if source_any >= 0 and target_any >= 0:
        weight *= words.pairs[source_any, target_any]
    elif source_any >= 0:
        weight *= words.source_nulls[source_any]
    elif target_any >= 0:
        weight *= words.target_nulls[target_any]
    return weight


@njit
def _write_edge(item, segment, weight, segments, graph):
    size = graph.size
    edge = size[EDGES]
    arity = segments.arity[segment]
    if edge == len(graph.weight) or size[TAILS] + arity > len(graph.tails):
        return False
    graph.head[edge] = item
    graph.weight[edge] = weight
    graph.rule[edge] = segments.rule[segment]
    for k in range(arity):
        graph.tails[size[TAILS] + k] = segments.tails[k]
    size[EDGES] = edge + 1
    size[TAILS] += arity
    graph.tail_first[edge + 1] = size[TAILS]
    return True


@njit
def _next_item(span, start, end, limit, last, table, graph):
    """Return the next target end of a nonterminal, and its item with edges that ends there, or (-1, -1)."""
    low, high = np.int64(table.low[span, start]), min(np.int64(table.high[span, start]), limit)
    if last:
        if end >= 0 or limit < low or limit > high:
            return np.int64(-1), np.int64(-1)
        low = high
    following = low if end < 0 else end + 1
    while following <= high:
        item = np.int64(table.base[span, start]) + following - table.low[span, start]
        if graph.first[item + 1] > graph.first[item]:
            return following, item
        following += 1
    return np.int64(-1), np.int64(-1)


@njit
def _write_if_allowed(item, segment, targets, target_any, task, table, segments, graph):
    """Write an edge if the mask allows it and its weight is > 0. Returns False if `graph` is full."""
    if not _agrees(task.mask, table, segments, segment, targets):
        return True
    weight = _weigh(task, segments, segment, targets, target_any)
    return weight <= 0.0 or _write_edge(item, segment, weight, segments, graph)


@njit
def _match_target(item, segment, task, table, segments, graph):
    """Write the edges of an item with one segmentation. Returns False if `graph` is full."""
    side, words = task.rules.target, task.words.target
    rule = segments.rule[segment]
    first = np.int64(side.first[rule])
    length = side.first[rule + 1] - first
    x, y = np.int64(table.bispan[item, 2]), np.int64(table.bispan[item, 3])
    if length == 0:
        return x < y or _write_if_allowed(item, segment, 0, np.int64(-1), task, table, segments, graph)
    if side.min_words[first] > y - x:
        return True
    depth, targets, target_any = 0, 0, np.int64(-1)
    segments.start[0], segments.end[0] = x, -1
    while depth >= 0:
        symbol = side.symbols[first + depth]
        final = depth == length - 1
        limit = y if final else y - side.min_words[first + depth + 1]
        start, end = segments.start[depth], segments.end[depth]
        if symbol >= 0 or symbol == ANY:
            if end >= 0:
                targets -= 1
            end = _next_end(symbol, start, end, limit, final, words)
            if end >= 0:
                segments.positions[targets] = start
                targets += 1
                target_any = start if symbol == ANY else target_any
        else:
            end, tail = _next_item(segments.spans[segment, -1 - symbol], start, end, limit, final, table, graph)
            segments.tails[-1 - symbol] = tail
        if end < 0:
            depth -= 1
            continue
        segments.end[depth] = end
        if not final:
            depth += 1
            segments.start[depth], segments.end[depth] = end, -1
        elif not _write_if_allowed(item, segment, targets, target_any, task, table, segments, graph):
            return False
    return True


@njit
def _write_edges(task, table, segments, graph):
    """Write the edges of all items. Returns `_COMPLETE` or what is full."""
    n = len(task.mask)
    graph.size[EDGES] = graph.size[TAILS] = graph.tail_first[0] = 0
    item = 0
    for width in range(n + 1):
        for i in range(n + 1 - width):
            span = span_index(i, i + width)
            if not table.filled[span]:
                continue
            number = np.int64(0)
            for rule in range(len(task.rules.weight)):
                number = _segment_rule(rule, i, i + width, task, table.filled, segments, number)
                if number < 0:
                    return _SEGMENTATIONS_FULL
            while item < graph.size[ITEMS] and table.bispan[item, 0] == i and table.bispan[item, 1] == i + width:
                graph.first[item] = graph.first[item + 1] = graph.size[EDGES]
                for segment in range(number):
                    if not _match_target(item, segment, task, table, segments, graph):
                        return _EDGES_FULL
                graph.first[item + 1] = graph.size[EDGES]
                item += 1
    return _COMPLETE
