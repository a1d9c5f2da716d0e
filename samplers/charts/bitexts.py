"""Hypergraph of all derivations of a sentence pair under a synchronous grammar and a mask.

The grammar has one nonterminal symbol. Rules mix words and any number of nonterminals. An item is a bispan. An edge is
a rule whose symbols have positions on both sides. Rules with b adjacent nonterminals create O(n^(b+1) m^(b+1)) edges
for n source and m target words [BPK09 §4]. Edges that emit words against the mask are omitted.

For each source span, the source side of each rule is matched first (a *segmentation*), then the target side.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import EDGES, ITEMS, TAILS, Hypergraph, Key, draw, make_hypergraph
from hierogram.samplers.charts.pairs import ANY, PairTask, make_cells, number_items, span_of
from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.streams import stream
from hierogram.samplers.exceptions import SamplerError


class _Segments(NamedTuple):
    """S segmentations of one source span, and scratch memory for matching. Sides have up to W symbols."""

    # int32[S]: rule of each segmentation.
    rule: NDArray[np.int32]
    # int32[S, W]: index of each nonterminal's source span (see `span_of`), by segmentation.
    spans: NDArray[np.int32]
    # int32[S]: number of nonterminals of the rule.
    arity: NDArray[np.int32]
    # int32[S, W]: source positions of the words that each rule emits.
    words: NDArray[np.int32]
    # int32[S]: number of source words that each rule emits.
    emitted: NDArray[np.int32]
    # int32[S]: source position that matches `ANY`, or -1.
    wild: NDArray[np.int32]
    # int64[W]: scratch memory for the start and end position of each symbol.
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    # int32[W]: scratch memory for the item of each nonterminal.
    tails: NDArray[np.int32]
    # int32[W]: scratch memory for the positions of target words.
    positions: NDArray[np.int32]


def _make_segments(size: int, longest: int) -> _Segments:
    return _Segments(
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
def _next_end(symbol, start, end, room, last, words):
    """Return the next end of a symbol after `end`, or -1 if no end remains. `end` is -1 at first.

    The end is up to `room`, or exactly `room` for the `last` symbol of a side.
    """
    if symbol >= 0 or symbol == ANY:
        if end >= 0 or start >= room or (symbol >= 0 and words[start] != symbol) or (last and start + 1 != room):
            return np.int64(-1)
        return np.int64(start + 1)
    if last:
        return np.int64(room) if end < 0 else np.int64(-1)
    following = np.int64(start if end < 0 else end + 1)
    return following if following <= room else np.int64(-1)


@njit
def _keep_segmentation(rule, first, depth, symbols, segments, segment):
    """Keep a segmentation of the first `depth` symbols. Returns the next index, or -1 if full."""
    if segment == len(segments.rule):
        return np.int64(-1)
    arity, emitted = 0, 0
    segments.rule[segment] = rule
    segments.wild[segment] = -1
    for d in range(depth):
        symbol = symbols[first + d]
        if symbol >= 0 or symbol == ANY:
            segments.words[segment, emitted] = segments.start[d]
            emitted += 1
            if symbol == ANY:
                segments.wild[segment] = segments.start[d]
        else:
            segments.spans[segment, arity] = span_of(segments.start[d], segments.end[d])
            arity += 1
    segments.arity[segment] = arity
    segments.emitted[segment] = emitted
    return segment + 1


@njit
def _segment_rule(rule, i, j, task, filled, segments, number):
    """Write a rule's segmentations over [i, j) from `number` on. Returns the next index, or -1 if full."""
    side, words = task.rules.source, task.words.source
    first, last = np.int64(side.first[rule]), np.int64(side.first[rule + 1])
    length = last - first
    if length == 0:
        return number if i < j else _keep_segmentation(rule, first, 0, side.symbols, segments, number)
    if side.rest[first] > j - i:
        return number
    depth = 0
    segments.start[0], segments.end[0] = i, -1
    while depth >= 0:
        final = depth == length - 1
        symbol = side.symbols[first + depth]
        room = j if final else j - side.rest[first + depth + 1]
        end = _next_end(symbol, segments.start[depth], segments.end[depth], room, final, words)
        if end < 0:
            depth -= 1
            continue
        segments.end[depth] = end
        if symbol < 0 and symbol != ANY and not filled[span_of(segments.start[depth], end)]:
            continue
        if final:
            number = _keep_segmentation(rule, first, length, side.symbols, segments, number)
            if number < 0:
                return number
        else:
            depth += 1
            segments.start[depth], segments.end[depth] = end, -1
    return number


_NOTHING, _SEGMENTS, _EDGES = range(3)
"""Results of `_write_edges`. `_EDGES`: edges or tails do not fit in the hypergraph."""


class PairGraph(NamedTuple):
    """Hypergraph of a pair. Row k of `bispan` int32[I, 4] is the bispan (i, j, x, y) of item k."""

    graph: Hypergraph
    bispan: NDArray[np.int32]


class Emissions(NamedTuple):
    """Expected number of times that rules emit each word pair and each null word."""

    # float64[n, m]: expected emissions of each word pair. A rule emits all pairs of its source and target words.
    links: NDArray[np.float64]
    # float64[n], float64[m]: expected emissions of each word by rules without words of the other side.
    source_nulls: NDArray[np.float64]
    target_nulls: NDArray[np.float64]


class PairBuilder:
    """Builder of hypergraphs of up to `max_edges` edges. Each hypergraph overwrites the previous one."""

    def __init__(self, max_edges: int) -> None:
        self._max_edges = max_edges
        self._cells = make_cells(0, 0, 1 << 12)
        self._segments = _make_segments(1 << 10, 4)
        self._graph = make_hypergraph(1 << 12, max_edges)

    def build(self, task: PairTask) -> PairGraph:
        """Return the hypergraph under the mask of `task`. Raises `SamplerError` for too many edges or tails."""
        n, m = task.fixed.shape
        if self._cells.covered.shape != (n + 1, m):
            self._cells = make_cells(n, m, len(self._cells.bispan))
        items = number_items(task.fixed, task.empty_sides, self._cells)
        if items > len(self._cells.bispan):
            self._cells = make_cells(n, m, 2 * items)
            number_items(task.fixed, task.empty_sides, self._cells)
        if task.rules.longest > self._segments.spans.shape[1]:
            self._segments = _make_segments(len(self._segments.rule), task.rules.longest)
        if items >= len(self._graph.first):
            self._graph = self._graph._replace(first=np.zeros(2 * items + 1, np.int64))
        while True:
            self._graph.size[ITEMS] = items
            full = _write_edges(task, self._cells, self._segments, self._graph)
            if full == _NOTHING:
                return PairGraph(self._graph, self._cells.bispan[:items])
            if full == _SEGMENTS:
                self._segments = _make_segments(4 * len(self._segments.rule), self._segments.spans.shape[1])
            else:
                raise SamplerError(
                    f"the chart of a pair of {n} and {m} words needs more than {self._max_edges:,} edges or "
                    f"{2 * self._max_edges:,} tails: use a shorter pair"
                )


@njit_allocating
def expected_emissions(bitext: PairGraph, expected: NDArray[np.float64], task: PairTask) -> Emissions:
    """Return the expected emissions of all edges, given their expected uses float64[E]."""
    n, m = task.fixed.shape
    emissions = Emissions(np.zeros((n, m)), np.zeros(n), np.zeros(m))
    room = np.empty(n, np.int32), np.empty(m, np.int32)
    for e in range(len(expected)):
        if expected[e] > 0.0 and task.rules.emits[bitext.graph.rule[e]]:
            _add_edge_emissions(bitext, e, expected[e], emissions, room)
    return emissions


@njit_allocating
def sample_links(
    bitext: PairGraph, inside: NDArray[np.float64], key: Key, links: NDArray[np.int32], task: PairTask, draws: int
) -> NDArray[np.bool_]:
    """Sample derivations. Returns bool[draws, V]: True if one rule emits both words of a link."""
    n, m = task.fixed.shape
    found = Emissions(np.zeros((n, m)), np.zeros(n), np.zeros(m))
    room = np.empty(n, np.int32), np.empty(m, np.int32)
    # A derivation cannot have more edges, because each item covers a word and is used at most once.
    max_edges = bitext.graph.size[ITEMS] + bitext.graph.size[TAILS] + 1
    stack, edges = np.empty(max_edges, np.int64), np.empty(max_edges, np.int64)
    values = np.zeros((draws, len(links)), np.bool_)
    stream_state = stream(key.seed, key.pair, key.step)
    for k in range(draws):
        number, stream_state = draw(bitext.graph, inside, stream_state, stack, edges)
        found.links[:] = 0.0
        for e in edges[:number]:
            if task.rules.emits[bitext.graph.rule[e]]:
                _add_edge_emissions(bitext, e, 1.0, found, room)
        for v in range(len(links)):
            values[k, v] = found.links[links[v, 0], links[v, 1]] > 0.0
    return values


@njit
def _add_edge_emissions(bitext, e, amount, emissions, room):
    """Add `amount` to the emissions of an edge, which emits the words of its head that no tail contains."""
    graph, bispan = bitext.graph, bitext.bispan
    source, target = room
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
    """Write the word positions that an edge emits on a side (0 source, 2 target). Returns their number."""
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
def _agrees(fixed, cells, segments, segment, targets):
    """Check if the mask allows a segmentation to emit its words with the words `positions[:targets]`."""
    positives, source_positives, target_positives = 0, 0, 0
    for k in range(segments.emitted[segment]):
        i = segments.words[segment, k]
        source_positives += cells.source_positives[i]
        for t in range(targets):
            value = fixed[i, segments.positions[t]]
            if value < 0:
                return False
            positives += value
    for t in range(targets):
        target_positives += cells.target_positives[segments.positions[t]]
    return positives == source_positives and positives == target_positives


@njit
def _weigh(task, segments, segment, targets, wild):
    """Return the weight of a rule with its words. `wild` is the target position of `ANY`, or -1."""
    words = task.words
    weight = task.rules.weight[segments.rule[segment]]
    for k in range(segments.emitted[segment]):
        weight *= words.source_scale[segments.words[segment, k]]
    for t in range(targets):
        weight *= words.target_scale[segments.positions[t]]
    source_wild = segments.wild[segment]
    if source_wild >= 0 and wild >= 0:
        weight *= words.pairs[source_wild, wild]
    elif source_wild >= 0:
        weight *= words.source_nulls[source_wild]
    elif wild >= 0:
        weight *= words.target_nulls[wild]
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
def _next_item(span, start, end, room, last, cells, graph):
    """Return the next target end of a nonterminal, and its item with edges that ends there, or (-1, -1)."""
    low, high = np.int64(cells.low[span, start]), min(np.int64(cells.high[span, start]), room)
    if last:
        if end >= 0 or room < low or room > high:
            return np.int64(-1), np.int64(-1)
        low = high
    following = low if end < 0 else end + 1
    while following <= high:
        item = np.int64(cells.base[span, start]) + following - cells.low[span, start]
        if graph.first[item + 1] > graph.first[item]:
            return following, item
        following += 1
    return np.int64(-1), np.int64(-1)


@njit
def _write_allowed(item, segment, targets, wild, task, cells, segments, graph):
    """Write an edge if the mask allows it and its weight is > 0. Returns False if `graph` is full."""
    if not _agrees(task.fixed, cells, segments, segment, targets):
        return True
    weight = _weigh(task, segments, segment, targets, wild)
    return weight <= 0.0 or _write_edge(item, segment, weight, segments, graph)


@njit
def _match_target(item, segment, task, cells, segments, graph):
    """Write the edges of an item with one segmentation. Returns False if `graph` is full."""
    side, words = task.rules.target, task.words.target
    rule = segments.rule[segment]
    first = np.int64(side.first[rule])
    length = side.first[rule + 1] - first
    x, y = np.int64(cells.bispan[item, 2]), np.int64(cells.bispan[item, 3])
    if length == 0:
        return x < y or _write_allowed(item, segment, 0, np.int64(-1), task, cells, segments, graph)
    if side.rest[first] > y - x:
        return True
    depth, targets, wild = 0, 0, np.int64(-1)
    segments.start[0], segments.end[0] = x, -1
    while depth >= 0:
        symbol = side.symbols[first + depth]
        final = depth == length - 1
        room = y if final else y - side.rest[first + depth + 1]
        start, end = segments.start[depth], segments.end[depth]
        if symbol >= 0 or symbol == ANY:
            if end >= 0:
                targets -= 1
            end = _next_end(symbol, start, end, room, final, words)
            if end >= 0:
                segments.positions[targets] = start
                targets += 1
                wild = start if symbol == ANY else wild
        else:
            end, tail = _next_item(segments.spans[segment, -1 - symbol], start, end, room, final, cells, graph)
            segments.tails[-1 - symbol] = tail
        if end < 0:
            depth -= 1
            continue
        segments.end[depth] = end
        if not final:
            depth += 1
            segments.start[depth], segments.end[depth] = end, -1
        elif not _write_allowed(item, segment, targets, wild, task, cells, segments, graph):
            return False
    return True


@njit
def _write_edges(task, cells, segments, graph):
    """Write the edges of all items. Returns the array that is too small, or `_NOTHING`."""
    n = len(task.fixed)
    graph.size[EDGES] = graph.size[TAILS] = graph.tail_first[0] = 0
    item = 0
    for width in range(n + 1):
        for i in range(n + 1 - width):
            span = span_of(i, i + width)
            if not cells.filled[span]:
                continue
            number = np.int64(0)
            for rule in range(len(task.rules.weight)):
                number = _segment_rule(rule, i, i + width, task, cells.filled, segments, number)
                if number < 0:
                    return _SEGMENTS
            while item < graph.size[ITEMS] and cells.bispan[item, 0] == i and cells.bispan[item, 1] == i + width:
                graph.first[item] = graph.first[item + 1] = graph.size[EDGES]
                for segment in range(number):
                    if not _match_target(item, segment, task, cells, segments, graph):
                        return _EDGES
                graph.first[item + 1] = graph.size[EDGES]
                item += 1
    return _NOTHING
