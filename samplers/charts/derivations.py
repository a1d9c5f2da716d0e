"""Derivations of a sentence from its `chart.Chart`: samples, the best derivation, and expectations.

The rules of a derivation are independent under the grammar of the chart. The grammar approximates Dirichlet processes,
under which a fragment is more probable at its second use. Each sample therefore stores the ratio of its probabilities
under the processes and the grammar, for a Metropolis–Hastings chain over samples [CGB09 §5; Johnson et al. 2007].

An *item* is a symbol over a span. Its *incoming edges* are the rules that derive it, with a split of the span for rules
of two symbols. In a chart of sums, the weights of the edges sum to the weight of the item. The edges of an item are
computed when a derivation first reaches it. A derivation is an array of edges in preorder, as indices into
`Items.edge`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.chart import Chart, SentenceGrammar, cell_of
from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.streams import GOLDEN, advance, mix, stream, uniform

LEXICAL_EDGE, BINARY_EDGE, UNARY_EDGE = 0, 1, 2
"""Kinds of edges: rules with a word, with two symbols, with one symbol."""

ITEM = np.dtype([("start", np.int32), ("end", np.int32), ("first", np.int64), ("last", np.int64)], align=True)
"""Item: a symbol over the span [`start`, `end`), with the incoming edges `first` to `last` - 1."""

EDGE = np.dtype(
    [
        ("probability", np.float64),
        ("cumulative", np.float64),
        ("rule", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("split", np.int16),
        ("kind", np.int16),
    ],
    align=True,
)
"""Incoming edge of an item.

`probability`: probability of the edge given the item. `cumulative`: sum of the probabilities up to this edge. `rule`:
number of the rule in the `ChartGrammar`, among rules of this `kind`. `left`, `right`: symbols before and after the
position `split`. A rule with one symbol has only `left`.
"""

_NEGLIGIBLE = 1e-12
"""Edges with a smaller share in the weight of their item are omitted."""


class Items(NamedTuple):
    """Items visited so far, and their edges."""

    # int32[cells, S]: 1 + index of the item of each symbol, or 0 without item.
    item_number: NDArray[np.int32]
    # ITEM[items], EDGE[edges]: items, and the edges of all items.
    item: NDArray[np.void]
    edge: NDArray[np.void]
    # int64[2]: number of used `item` records, number of used `edge` records.
    used: NDArray[np.int64]
    # EDGE[rules + 1]: scratch memory for the edges of one item.
    weights: NDArray[np.void]


@njit_inline
def _set_edge(row, weight, kind, rule, left, right, split):
    row["probability"], row["kind"], row["rule"] = weight, kind, rule
    row["left"], row["right"], row["split"] = left, right, split


@njit
def _weigh_edges(symbol, i, j, grammar, chart, rows):
    """Write an item's incoming edges, weighted relative to the cell's maximum. Returns their number."""
    cell = cell_of(i, j)
    number = 0
    if j == i + 1:
        factor = np.exp(-chart.scale[cell])
        for w in range(grammar.word_start[i], grammar.word_start[j]):
            if grammar.word_parent[w] == symbol:
                _set_edge(rows[number], grammar.word_weight[w] * factor, LEXICAL_EDGE, grammar.word_rule[w], 0, 0, 0)
                number += 1
    first, last = grammar.parent_start[symbol], grammar.parent_start[symbol + 1]
    for k in range(i + 1, j):
        left_cell = cell_of(i, k)
        right_cell = cell_of(k, j)
        factor = np.exp(chart.scale[left_cell] + chart.scale[right_cell] - chart.scale[cell])
        if factor == 0.0:
            continue
        left = chart.value[left_cell]
        right = chart.value[right_cell]
        for r in range(first, last):
            weight = left[grammar.left[r]]
            if weight > 0.0:
                weight *= right[grammar.right[r]]
                if weight > 0.0:
                    weight *= grammar.weight[r] * factor
                    _set_edge(rows[number], weight, BINARY_EDGE, grammar.rule[r], grammar.left[r], grammar.right[r], k)
                    number += 1
    if symbol < grammar.labels:
        for u in range(grammar.unary_start[symbol], grammar.unary_start[symbol + 1]):
            child = grammar.unary_child[u]
            weight = grammar.unary_weight[u] * chart.value[cell, child]
            if weight > 0.0:
                _set_edge(rows[number], weight, UNARY_EDGE, grammar.unary_rule[u], child, 0, 0)
                number += 1
    return number


@njit
def _find_or_add_item(symbol, i, j, grammar, chart, items):
    """Return the index of an item, after adding a new item with its edges, or -1 if memory is too small."""
    cell = cell_of(i, j)
    number = items.item_number[cell, symbol]
    if number > 0:
        return np.int64(number) - 1
    found = _weigh_edges(symbol, i, j, grammar, chart, items.weights)
    row = items.used[0]
    first = items.used[1]
    if row >= len(items.item) or first + found > len(items.edge):
        return np.int64(-1)
    total = 0.0
    for k in range(found):
        total += items.weights[k]["probability"]
    kept_total = 0.0
    last = first
    for k in range(found):
        weight = items.weights[k]["probability"]
        if weight >= _NEGLIGIBLE * total:
            items.edge[last] = items.weights[k]
            kept_total += weight
            last += 1
    cumulative = 0.0
    for k in range(first, last):
        probability = items.edge[k]["probability"] / kept_total
        cumulative += probability
        items.edge[k]["probability"], items.edge[k]["cumulative"] = probability, cumulative
    item = items.item[row]
    item["start"], item["end"], item["first"], item["last"] = i, j, first, last
    items.used[0], items.used[1] = row + 1, last
    items.item_number[cell, symbol] = row + 1
    return row


_MIN_USES = 1e-7
"""Items with fewer expected uses are omitted from expectations."""


WHOLE_SPAN, LEFT_SPAN, RIGHT_SPAN = 0, 1, 2
"""Parts of a rule's span that a production covers: all of it, up to the split, or from the split on."""


class Productions(NamedTuple):
    """Productions of the treebank's context-free grammar that each chart rule contains."""

    # int64[3, R+1]: rule r of kind k has the productions from `start[k, r]` up to `start[k, r + 1]`.
    start: NDArray[np.int64]
    # int32: production numbers of all rules.
    production: NDArray[np.int32]
    # int8: part of its rule's span that each production covers: `WHOLE_SPAN`, `LEFT_SPAN` or `RIGHT_SPAN`.
    span_kind: NDArray[np.int8]
    # int32[3, R]: index in `FragmentMasses` of the fragment that begins with this rule, or -1.
    fragment: NDArray[np.int32]


class FragmentMasses(NamedTuple):
    """Masses of F fragments and L labels under one Dirichlet process per label."""

    # float64[F]: n_e + α P0(e) of each fragment.
    fragment_mass: NDArray[np.float64]
    # int32[F]: root label of each fragment.
    label: NDArray[np.int32]
    # float64[L]: n_c + α of each label.
    label_mass: NDArray[np.float64]


class DerivationSamples(NamedTuple):
    """D derivations sampled from a chart, without their edges (see `ChartDerivations.derivation`)."""

    # uint64[D]: hash of the tree, which is equal for all derivations of a tree.
    tree: NDArray[np.uint64]
    # float64[D]: ln of (probability under the Dirichlet processes / probability under the grammar), up to a constant.
    log_ratio: NDArray[np.float64]


class SentenceKey(NamedTuple):
    """Key of the random streams of a sentence. Each sample has its own stream."""

    seed: int
    sentence: int


class _LazyHypergraph(NamedTuple):
    """Derivations of the symbol `root` over all words, with edges that are computed on demand."""

    root: int
    grammar: SentenceGrammar
    chart: Chart
    items: Items


@njit_allocating
def count_visits(key: SentenceKey, drawn: DerivationSamples) -> NDArray[np.int64]:
    """Return the visits of each sample by a Metropolis–Hastings chain that proposes them in order."""
    log_ratio = drawn.log_ratio
    visits = np.zeros(len(log_ratio), np.int64)
    state = stream(key.seed, key.sentence, len(visits))
    current = 0
    for draw in range(len(visits)):
        state = advance(state)
        if np.log(uniform(state)) < log_ratio[draw] - log_ratio[current]:
            current = draw
        visits[current] += 1
    return visits


class ChartDerivations:
    """Derivations of the symbol `root` over all words of a chart. At least one must exist."""

    def __init__(self, grammar: SentenceGrammar, chart: Chart, root: int) -> None:
        starts = grammar.parent_start, grammar.word_start, grammar.unary_start
        binary, lexical, unary = (int(np.diff(start).max(initial=0)) for start in starts)
        weights = np.empty(binary * grammar.length + lexical + unary + 1, EDGE)
        # The capacity is large, because unused memory costs nothing.
        item, edge = np.empty(1 << 15, ITEM), np.empty(1 << 20, EDGE)
        items = Items(np.zeros(chart.value.shape, np.int32), item, edge, np.zeros(2, np.int64), weights)
        self.graph = _LazyHypergraph(root, grammar, chart, items)

    def draw(
        self, key: SentenceKey, draws: int, productions: Productions, processes: FragmentMasses
    ) -> DerivationSamples:
        """Return `draws` independent samples. Sample k uses the stream (seed, sentence, k)."""
        draws_made = DerivationSamples(np.zeros(draws, np.uint64), np.zeros(draws))
        uses = np.zeros(len(processes.fragment_mass), np.int32), np.zeros(len(processes.label_mass), np.int32)
        scratch = uses, *self._scratch()
        done = 0
        while (done := _draw_derivations(done, key, self.graph, productions, processes, draws_made, *scratch)) < draws:
            self._enlarge()
        return draws_made

    def count_uses(self, key: SentenceKey, visits: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the uses of each edge. Sample k of a `draw` with this key counts `visits[k]` times."""
        counts = np.zeros(self.graph.items.used[1])
        _count_edges(key, self.graph, visits, counts, *self._scratch())
        return counts

    def derivation(self, key: SentenceKey, draw: int) -> NDArray[np.int64]:
        """Return the edges of sample number `draw` of the `draw` with this key, in preorder."""
        return self._walk(key, draw, False)

    def best(self) -> NDArray[np.int64]:
        """Return the edges of the best derivation in preorder. The grammar of the chart must have `best`."""
        return self._walk(SentenceKey(0, 0), 0, True)

    def expected(self) -> NDArray[np.float64]:
        """Return the expected uses of each edge, float64[E]. The grammar of the chart must not have `best`."""
        while True:
            item_uses = np.zeros_like(self.graph.chart.value)
            counts = np.zeros(len(self.graph.items.edge))
            if _add_expected_uses(self.graph, item_uses, np.zeros_like(item_uses[0]), counts):
                return counts[: self.graph.items.used[1]]
            self._enlarge()

    def _enlarge(self) -> None:
        items = self.graph.items
        item, edge = np.empty(4 * len(items.item), ITEM), np.empty(4 * len(items.edge), EDGE)
        item[: items.used[0]] = items.item[: items.used[0]]
        edge[: items.used[1]] = items.edge[: items.used[1]]
        self.graph = self.graph._replace(items=items._replace(item=item, edge=edge))

    def _scratch(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        # A derivation may use a cycle of unary rules repeatedly, so leave room for 64 times the depth without cycles.
        depth = 64 * (2 * self.graph.grammar.length + self.graph.grammar.labels)
        return np.zeros((depth, 3), np.int32), np.zeros((2, depth), np.int64)

    def _walk(self, key: SentenceKey, draw: int, best: bool) -> NDArray[np.int64]:
        stack, path = self._scratch()
        while (number := _write_derivation(key, draw, best, self.graph, stack, path)) < 0:
            self._enlarge()
        return path[0, :number]


@njit_inline
def _push(stack, top, symbol, start, end):
    stack[top, 0], stack[top, 1], stack[top, 2] = symbol, start, end
    return top + 1


@njit
def _push_tails(stack, top, edge, item):
    """Push the tails of an edge, with the left tail on top. Returns the height of the stack."""
    if edge["kind"] == BINARY_EDGE:
        top = _push(stack, top, edge["right"], edge["split"], item["end"])
        return _push(stack, top, edge["left"], item["start"], edge["split"])
    if edge["kind"] == UNARY_EDGE:
        return _push(stack, top, edge["left"], item["start"], item["end"])
    return top


@njit
def _tree_hash(edge, item, productions):
    """Return the hash of an edge's productions and spans. The hash of a tree is the sum over its edges."""
    total = np.uint64(0)
    kind, rule, split = edge["kind"], edge["rule"], edge["split"]
    for p in range(productions.start[kind, rule], productions.start[kind, rule + 1]):
        span_kind = productions.span_kind[p]
        start = split if span_kind == RIGHT_SPAN else item["start"]
        end = split if span_kind == LEFT_SPAN else item["end"]
        middle = split if span_kind == WHOLE_SPAN else 0
        spans = (np.uint64(start) << np.uint64(40)) ^ (np.uint64(end) << np.uint64(20)) ^ np.uint64(middle)
        total += mix(mix(np.uint64(productions.production[p]) + GOLDEN) + mix(spans))
    return total


@njit
def _draw_derivations(first, key, graph, productions, processes, drawn, uses, stack, path):
    """Draw samples from index `first` on. Returns the number of samples drawn, < D if memory is too small."""
    fragment_uses, label_uses = uses
    for draw in range(first, len(drawn.tree)):
        number = _write_derivation(key, draw, False, graph, stack, path)
        if number < 0:
            return draw
        log_ratio = 0.0
        for k in range(number):
            edge = graph.items.edge[path[0, k]]
            drawn.tree[draw] += _tree_hash(edge, graph.items.item[path[1, k]], productions)
            path[1, k] = fragment = productions.fragment[edge["kind"], edge["rule"]]
            if fragment >= 0:
                label = processes.label[fragment]
                log_ratio += np.log1p(fragment_uses[fragment] / processes.fragment_mass[fragment])
                log_ratio -= np.log1p(label_uses[label] / processes.label_mass[label])
                fragment_uses[fragment] += 1
                label_uses[label] += 1
        drawn.log_ratio[draw] = log_ratio
        for fragment in path[1, :number]:
            if fragment >= 0:
                fragment_uses[fragment] = 0
                label_uses[processes.label[fragment]] = 0
    return len(drawn.tree)


@njit
def _write_derivation(key, draw, best, graph, stack, path):
    """Write a derivation's edges and items in preorder. Returns their number, -1 if memory is too small."""
    items = graph.items
    state = stream(key.seed, key.sentence, draw)
    top = _push(stack, 0, graph.root, 0, graph.grammar.length)
    number = 0
    while top > 0:
        top -= 1
        item_row = _find_or_add_item(stack[top, 0], stack[top, 1], stack[top, 2], graph.grammar, graph.chart, items)
        if item_row < 0:
            return -1
        item = items.item[item_row]
        first, last = item["first"], item["last"]
        if best:
            chosen = first + np.argmax(items.edge["probability"][first:last])
        else:
            state = advance(state)
            # Choose the first edge whose cumulative probability exceeds the random number, or the last edge.
            chosen = first + np.searchsorted(items.edge["cumulative"][first : last - 1], uniform(state), side="right")
        path[0, number], path[1, number] = chosen, item_row
        number += 1
        top = _push_tails(stack, top, items.edge[chosen], item)
    return number


@njit
def _count_edges(key, graph, visits, counts, stack, path):
    """Redraw the samples, and add the visits of each sample to the counts of its edges."""
    for draw in range(len(visits)):
        if visits[draw] > 0:
            for k in range(_write_derivation(key, draw, False, graph, stack, path)):
                counts[path[0, k]] += visits[draw]


@njit
def _propagate_unary_uses(graph, i, j, item_uses, pending):
    """Add the uses of labels to their unary children. Returns False if memory is too small."""
    grammar, chart, items = graph.grammar, graph.chart, graph.items
    uses = item_uses[cell_of(i, j)]
    propagating = False
    for label in range(grammar.labels):
        pending[label] = uses[label]
        propagating = propagating or uses[label] > _MIN_USES
    while propagating:
        propagating = False
        for label in range(grammar.labels):
            label_uses = pending[label]
            if label_uses <= _MIN_USES:
                continue
            pending[label] = 0.0
            row = _find_or_add_item(label, i, j, grammar, chart, items)
            if row < 0:
                return False
            for k in range(items.item[row]["first"], items.item[row]["last"]):
                edge = items.edge[k]
                if edge["kind"] == UNARY_EDGE:
                    child_uses = label_uses * edge["probability"]
                    pending[edge["left"]] += child_uses
                    uses[edge["left"]] += child_uses
                    propagating = propagating or pending[edge["left"]] > _MIN_USES
    return True


@njit
def _add_edge_uses(graph, i, j, item_uses, counts):
    """Add the expected uses of edges over [i, j) to `counts`. Returns False if memory is too small."""
    chart, items = graph.chart, graph.items
    cell = cell_of(i, j)
    for a in range(chart.active_count[cell]):
        symbol = chart.active[cell, a]
        uses = item_uses[cell, symbol]
        if uses <= _MIN_USES:
            continue
        row = _find_or_add_item(symbol, i, j, graph.grammar, chart, items)
        if row < 0:
            return False
        for k in range(items.item[row]["first"], items.item[row]["last"]):
            edge = items.edge[k]
            expected = uses * edge["probability"]
            counts[k] += expected
            if edge["kind"] == BINARY_EDGE:
                item_uses[cell_of(i, np.int64(edge["split"])), edge["left"]] += expected
                item_uses[cell_of(np.int64(edge["split"]), j), edge["right"]] += expected
    return True


@njit
def _add_expected_uses(graph, item_uses, pending, counts):
    """Add the expected uses of each edge to `counts`. Returns False if memory is too small."""
    words = graph.grammar.length
    item_uses[cell_of(0, words), graph.root] = 1.0
    for width in range(words, 0, -1):
        for i in range(words - width + 1):
            if not _propagate_unary_uses(graph, i, i + width, item_uses, pending):
                return False
            if not _add_edge_uses(graph, i, i + width, item_uses, counts):
                return False
    return True
