"""What a symbol over a span can be made of, and with what probability; found once for each and kept.

An *item* is a symbol over a span; its *incoming edges* are the rules that can be applied to it, with a split where the
rule has two symbols. Their weights sum to the item's weight in the chart.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.chart import Chart, SentenceGrammar, cell_of
from hierogram.samplers.compiled.jit import njit, njit_inline

LEXICAL_EDGE, BINARY_EDGE, UNARY_EDGE = 0, 1, 2
"""Kinds of edges: of a rule with a word on the right, with two symbols, with one."""

ITEM = np.dtype(
    [("symbol", np.int32), ("start", np.int32), ("end", np.int32), ("first", np.int64), ("last", np.int64)], align=True
)
EDGE = np.dtype(
    [
        ("probability", np.float64),
        ("cumulated", np.float64),
        ("rule", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("split", np.int16),
        ("kind", np.int16),
    ],
    align=True,
)
"""An edge: its probability among its item's and the sum up to it; the grammar's number of its rule, of its kind;
the symbols to the left and right of the split (of one symbol: the left one)."""

_NEGLIGIBLE = 1e-12
"""Edges with less than this share of their item's weight are left out."""


class Items(NamedTuple):
    """The items met so far: `number` int32[cells, S], 0 for none, else 1 + its place; `used` int64[2], how many items
    and edges there are; room for `weights` of all edges of one item, with their rules and splits.
    """

    number: NDArray[np.int32]
    item: NDArray[np.void]
    edge: NDArray[np.void]
    used: NDArray[np.int64]
    weights: NDArray[np.void]


def empty_items(grammar: SentenceGrammar, chart: Chart, items: int = 1 << 15, edges: int = 1 << 20) -> Items:
    """No items, and room for some: memory that is not used costs nothing."""
    rules = int(np.diff(grammar.parent_start).max(initial=0)) * max(1, grammar.words)
    rules += int(np.diff(grammar.word_start).max(initial=0)) + int(np.diff(grammar.unary_start).max(initial=0))
    return Items(
        np.zeros(chart.value.shape, np.int32),
        np.empty(items, ITEM),
        np.empty(edges, EDGE),
        np.zeros(2, np.int64),
        np.empty(rules + 1, EDGE),
    )


def with_room(items: Items) -> Items:
    """The items with room for four times as many."""
    item, edge = np.empty(4 * len(items.item), ITEM), np.empty(4 * len(items.edge), EDGE)
    item[: items.used[0]] = items.item[: items.used[0]]
    edge[: items.used[1]] = items.edge[: items.used[1]]
    return items._replace(item=item, edge=edge)


@njit_inline
def _add(row, weight, kind, rule, left, right, split):
    row["probability"] = weight
    row["kind"] = kind
    row["rule"] = rule
    row["left"] = left
    row["right"] = right
    row["split"] = split


@njit
def weigh_edges(symbol, i, j, grammar, chart, rows):
    """Write the incoming edges of an item, weights linear and relative to the cell's scale; how many there are."""
    cell = cell_of(i, j)
    number = 0
    if j == i + 1:
        factor = np.exp(-chart.scale[cell])
        for w in range(grammar.word_start[i], grammar.word_start[j]):
            if grammar.word_parent[w] == symbol:
                _add(rows[number], grammar.word_weight[w] * factor, LEXICAL_EDGE, grammar.word_rule[w], 0, 0, 0)
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
                    _add(rows[number], weight, BINARY_EDGE, grammar.rule[r], grammar.left[r], grammar.right[r], k)
                    number += 1
    if symbol < grammar.labels:
        for u in range(grammar.unary_start[symbol], grammar.unary_start[symbol + 1]):
            child = grammar.unary_child[u]
            weight = grammar.unary_weight[u] * chart.value[cell, child]
            if weight > 0.0:
                _add(rows[number], weight, UNARY_EDGE, grammar.unary_rule[u], child, 0, 0)
                number += 1
    return number


@njit
def find_item(symbol, i, j, grammar, chart, items):
    """The place of an item, its incoming edges found if it is new; -1 where there is no room for them."""
    cell = cell_of(i, j)
    known = items.number[cell, symbol]
    if known > 0:
        return np.int64(known) - 1
    found = weigh_edges(symbol, i, j, grammar, chart, items.weights)
    place = items.used[0]
    first = items.used[1]
    if place >= len(items.item) or first + found > len(items.edge):
        return np.int64(-1)
    whole = 0.0
    for k in range(found):
        whole += items.weights[k]["probability"]
    kept = 0.0
    last = first
    for k in range(found):
        weight = items.weights[k]["probability"]
        if weight >= _NEGLIGIBLE * whole:
            items.edge[last] = items.weights[k]
            kept += weight
            last += 1
    cumulated = 0.0
    for k in range(first, last):
        probability = items.edge[k]["probability"] / kept
        cumulated += probability
        items.edge[k]["probability"] = probability
        items.edge[k]["cumulated"] = cumulated
    items.item[place]["symbol"] = symbol
    items.item[place]["start"] = i
    items.item[place]["end"] = j
    items.item[place]["first"] = first
    items.item[place]["last"] = last
    items.used[0] = place + 1
    items.used[1] = last
    items.number[cell, symbol] = place + 1
    return place


@njit_inline
def choose_edge(u, item, edge):
    """The edge of an item that a uniform number in [0, 1) falls on."""
    low, high = item["first"], item["last"] - 1
    while low < high:
        middle = (low + high) // 2
        if u < edge[middle]["cumulated"]:
            high = middle
        else:
            low = middle + 1
    return low


@njit_inline
def best_edge(item, edge):
    """The item's heaviest incoming edge, the first of equals."""
    best = item["first"]
    for k in range(item["first"], item["last"]):
        if edge[k]["probability"] > edge[best]["probability"]:
            best = k
    return best
