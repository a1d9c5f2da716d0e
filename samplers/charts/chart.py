"""Inside charts of a sentence under a tree-substitution grammar, filled by CKY.

`make_grammar` prepares a grammar once, `restrict_grammar` selects the rules for a sentence, and `fill_chart` parses it.

The right side of a rule is two symbols, one symbol, or a word. Symbols are *labels*, which are numbered first, or
internal to a fragment. Only labels have unary rules, so chains of unary rules, including cycles, are summed by the
closure of a small matrix. An internal symbol has exactly one rule, of weight 1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import GrammarError

BINARY = np.dtype([("parent", np.int32), ("left", np.int32), ("right", np.int32), ("weight", np.float64)], align=True)
LEXICAL = np.dtype([("parent", np.int32), ("word", np.int32), ("weight", np.float64)], align=True)
UNARY = np.dtype([("parent", np.int32), ("child", np.int32), ("weight", np.float64)], align=True)

_SMALLEST_CLOSURE = 1e-12
"""Smaller weights of unary chains are rounding errors, and set to 0."""


class ChartGrammar(NamedTuple):
    """Tree-substitution grammar with linear weights, for a vocabulary of V words."""

    # Number of labels.
    labels: int
    # Number of all symbols. An internal symbol has a higher number than the symbols on the right side of its rule.
    symbols: int
    # BINARY[B]: rules with two symbols.
    binary: NDArray[np.void]
    # LEXICAL[W]: rules with a word.
    lexical: NDArray[np.void]
    # UNARY[U]: rules with one symbol. Both symbols of a unary rule are labels.
    unary: NDArray[np.void]
    # float64[L, L]: total weight of all unary chains, including the empty chain, from the row's to the column's label.
    closure: NDArray[np.float64]
    # float64[L, L]: weight of the best unary chain from the row's to the column's label.
    best_closure: NDArray[np.float64]
    # int64[B], int64[B], int64[W]: rule numbers, by left, right and parent symbol, by parent, and by word.
    by_left: NDArray[np.int64]
    by_parent: NDArray[np.int64]
    by_word: NDArray[np.int64]
    # int64[V+1]: index into `by_word` of the first rule of each word.
    word_start: NDArray[np.int64]


class SentenceGrammar(NamedTuple):
    """Rules that a sentence of n words can use, sorted for the kernels. S symbols remain."""

    # Number of words of the sentence, and number of labels.
    length: int
    labels: int
    # Number of remaining symbols S. Labels have the same numbers as in the whole grammar.
    symbols: int
    # Binary rules, grouped by pairs of a left and a right symbol.
    # int64[S+1]: first pair of each left symbol.
    left_start: NDArray[np.int64]
    # int32[P]: right symbol of each pair.
    pair_right: NDArray[np.int32]
    # int64[P+1]: first rule of each pair.
    pair_start: NDArray[np.int64]
    # int32[R]: parent of each rule. float64[R]: linear weight of each rule.
    pair_parent: NDArray[np.int32]
    pair_weight: NDArray[np.float64]
    # The same binary rules, sorted by parent.
    # int64[S+1]: first rule of each parent.
    parent_start: NDArray[np.int64]
    # int32[R]: left and right symbols of each rule, and its number in the grammar. float64[R]: linear weight.
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    rule: NDArray[np.int32]
    weight: NDArray[np.float64]
    # Lexical rules, grouped by the position of their word.
    # int64[n+1]: first rule of each position.
    word_start: NDArray[np.int64]
    # int32[W]: parent of each rule, and its number in the grammar. float64[W]: linear weight.
    word_parent: NDArray[np.int32]
    word_rule: NDArray[np.int32]
    word_weight: NDArray[np.float64]
    # Unary rules, sorted by parent.
    # int64[L+1]: first rule of each parent.
    unary_start: NDArray[np.int64]
    # int32[U]: number of each rule in the grammar, and its child. float64[U]: linear weight.
    unary_rule: NDArray[np.int32]
    unary_child: NDArray[np.int32]
    unary_weight: NDArray[np.float64]
    # Pairs of a child and a parent that unary chains connect, sorted by child.
    # int64[L+1]: first pair of each child.
    closure_start: NDArray[np.int64]
    # int32[C]: parent of each pair. float64[C]: total linear weight of the pair's chains, or of the best one if `best`.
    closure_parent: NDArray[np.int32]
    closure_weight: NDArray[np.float64]
    # True if charts have the weights of best derivations instead of sums.
    best: bool


class Chart(NamedTuple):
    """Chart of n words and S symbols. Span [i, j) is the cell j(j-1)/2 + i. `fill_chart` fills it."""

    # float64[cells, S]: linear inside weight of each symbol, divided by the maximum in its cell.
    value: NDArray[np.float64]
    # float64[cells]: natural log of this maximum, -inf for a cell without symbols.
    scale: NDArray[np.float64]
    # int32[cells, S], int64[cells]: symbols with weight > 0 in each cell, and their number.
    active: NDArray[np.int32]
    active_count: NDArray[np.int64]

    def log_weight(self, symbol: int, words: int) -> float:
        """Return the natural log weight of a symbol over the first `words` words, -inf without derivation."""
        cell = cell_of(0, words)
        value = float(self.value[cell, symbol])
        return float(np.log(value) + self.scale[cell]) if value > 0 else -np.inf


def make_grammar(
    labels: int,
    symbols: int,
    vocabulary: int,
    binary: NDArray[np.void],
    lexical: NDArray[np.void],
    unary: NDArray[np.void],
) -> ChartGrammar:
    """Return a grammar. Raises `GrammarError` if the sum over unary chains diverges or nearly diverges."""
    once = np.zeros((labels, labels))
    np.add.at(once, (unary["parent"], unary["child"]), unary["weight"])
    radius = float(np.abs(np.linalg.eigvals(once)).max()) if labels else 0.0
    if radius > 1 - 1e-9:
        raise GrammarError(
            f"unary rules must have a spectral radius < 1, got {radius:.6g}: their cycles have too much weight"
        )
    closure = np.asarray(np.linalg.inv(np.eye(labels) - once), np.float64)
    closure[closure < _SMALLEST_CLOSURE] = 0
    single = np.zeros((labels, labels))
    np.maximum.at(single, (unary["parent"], unary["child"]), unary["weight"])
    best = np.eye(labels)
    while True:
        # Extend the best chains by one rule until no chain improves.
        longer = np.maximum(best, (single[:, :, None] * best[None, :, :]).max(axis=1, initial=0))
        if np.array_equal(longer, best):
            break
        best = longer
    by_left = np.lexsort((binary["parent"], binary["right"], binary["left"]))
    by_parent = np.argsort(binary["parent"], kind="stable")
    by_word = np.argsort(lexical["word"], kind="stable")
    starts = _starts(lexical["word"][by_word], vocabulary)
    return ChartGrammar(labels, symbols, binary, lexical, unary, closure, best, by_left, by_parent, by_word, starts)


def restrict_grammar(grammar: ChartGrammar, words: NDArray[np.int32], best: bool = False) -> SentenceGrammar:
    """Return the rules that a sentence can use, given its word numbers int32[n]."""
    live = np.zeros(grammar.symbols, np.bool_)
    live[: grammar.labels] = True
    rules_of_words = [
        grammar.by_word[grammar.word_start[word] : grammar.word_start[word + 1]] for word in words.tolist()
    ]
    word_rules = np.concatenate([np.zeros(0, np.int64), *rules_of_words])
    live[grammar.lexical["parent"][word_rules]] = True
    _mark_live(grammar.labels, grammar.binary, grammar.by_parent, live)
    number = np.cumsum(live, dtype=np.int32) - np.int32(1)
    symbols = int(live.sum())

    usable = live[grammar.binary["parent"]] & live[grammar.binary["left"]] & live[grammar.binary["right"]]
    by_left = grammar.by_left[usable[grammar.by_left]]
    rules_by_left = grammar.binary[by_left]
    left, right = number[rules_by_left["left"]], number[rules_by_left["right"]]
    first = np.ones(len(rules_by_left), np.bool_)
    first[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    pair_start = np.append(np.flatnonzero(first), len(rules_by_left))
    by_parent = grammar.by_parent[usable[grammar.by_parent]]
    rules_by_parent = grammar.binary[by_parent]

    unary_order = np.argsort(grammar.unary["parent"], kind="stable").astype(np.int32)
    unary = grammar.unary[unary_order]
    closure = grammar.best_closure if best else grammar.closure
    child, parent = np.nonzero(closure.T)
    return SentenceGrammar(
        len(words),
        grammar.labels,
        symbols,
        _starts(left[first], symbols),
        right[first],
        pair_start.astype(np.int64),
        number[rules_by_left["parent"]],
        rules_by_left["weight"].copy(),
        _starts(number[rules_by_parent["parent"]], symbols),
        number[rules_by_parent["left"]],
        number[rules_by_parent["right"]],
        by_parent.astype(np.int32),
        rules_by_parent["weight"].copy(),
        np.cumsum([0, *map(len, rules_of_words)], dtype=np.int64),
        number[grammar.lexical["parent"][word_rules]],
        word_rules.astype(np.int32),
        grammar.lexical["weight"][word_rules],
        _starts(unary["parent"], grammar.labels),
        unary_order,
        unary["child"].copy(),
        unary["weight"].copy(),
        _starts(child, grammar.labels),
        parent.astype(np.int32),
        closure.T[child, parent],
        best,
    )


def _starts(sorted_keys: NDArray[np.generic], size: int) -> NDArray[np.int64]:
    return np.searchsorted(sorted_keys, np.arange(size + 1)).astype(np.int64)


@njit
def _mark_live(labels, binary, by_parent, live):
    """Mark internal symbols in `live` if both symbols of their rule are marked, by ascending symbol."""
    for r in by_parent:
        parent = binary[r]["parent"]
        if parent >= labels and live[binary[r]["left"]] and live[binary[r]["right"]]:
            live[parent] = True


@njit_inline
def cell_of(i, j):
    """Return the cell of span [i, j)."""
    return j * (j - 1) // 2 + i


def fill_chart(grammar: SentenceGrammar) -> Chart:
    """Return the chart of inside sums of a sentence, or of best weights if `grammar.best`."""
    cells = grammar.length * (grammar.length + 1) // 2
    chart = Chart(
        np.zeros((cells, grammar.symbols)),
        np.full(cells, -np.inf),
        np.empty((cells, grammar.symbols), np.int32),
        np.zeros(cells, np.int64),
    )
    _fill(grammar, chart, np.zeros(grammar.labels))
    return chart


@njit_inline
def _add_weight(value, active, number, symbol, weight, best):
    """Add a weight to a symbol of a cell, or keep the maximum if `best`. Returns the number of symbols."""
    if weight <= 0.0:
        return number
    old = value[symbol]
    if old == 0.0:
        active[number] = symbol
        number += 1
        value[symbol] = weight
    elif best:
        value[symbol] = max(old, weight)
    else:
        value[symbol] = old + weight
    return number


@njit_inline
def _apply_unary_chains(grammar, value, active, number, before):
    """Extend the derivations of a cell by unary chains. Returns the number of symbols in the cell."""
    kept = 0
    for symbol in active[:number]:
        if symbol < grammar.labels:
            before[symbol] = value[symbol]
            value[symbol] = 0.0
        else:
            active[kept] = symbol
            kept += 1
    number = kept
    for child in range(grammar.labels):
        weight = before[child]
        if weight > 0.0:
            for c in range(grammar.closure_start[child], grammar.closure_start[child + 1]):
                number = _add_weight(
                    value, active, number, grammar.closure_parent[c], weight * grammar.closure_weight[c], grammar.best
                )
            before[child] = 0.0
    return number


@njit_inline
def _add_words(grammar, i, value, active):
    number = 0
    for w in range(grammar.word_start[i], grammar.word_start[i + 1]):
        number = _add_weight(value, active, number, grammar.word_parent[w], grammar.word_weight[w], grammar.best)
    return number


@njit_inline
def _add_parents(grammar, chart, left, right, factor, value, active, number):
    """Add the parents of the symbols of the adjacent cells `left` and `right`. Returns the symbol count."""
    right_value = chart.value[right]
    for a in range(chart.active_count[left]):
        symbol = chart.active[left, a]
        weight = chart.value[left, symbol] * factor
        for pair in range(grammar.left_start[symbol], grammar.left_start[symbol + 1]):
            right_weight = right_value[grammar.pair_right[pair]]
            if right_weight > 0.0:
                pair_weight = weight * right_weight
                for r in range(grammar.pair_start[pair], grammar.pair_start[pair + 1]):
                    rule_weight = pair_weight * grammar.pair_weight[r]
                    number = _add_weight(value, active, number, grammar.pair_parent[r], rule_weight, grammar.best)
    return number


@njit_inline
def _add_splits(grammar, chart, i, j, log_scale, value, active):
    """Add all binary derivations of span [i, j) to an empty cell, divided by exp(`log_scale`)."""
    number = 0
    if log_scale == -np.inf:
        return number
    for k in range(i + 1, j):
        left, right = cell_of(i, k), cell_of(k, j)
        factor = np.exp(chart.scale[left] + chart.scale[right] - log_scale)
        if factor != 0.0:
            number = _add_parents(grammar, chart, left, right, factor, value, active, number)
    return number


@njit_inline
def _largest_scale(chart, i, j):
    """Return the largest sum of scales of two cells that together cover [i, j), -inf without symbols."""
    largest = -np.inf
    for k in range(i + 1, j):
        largest = max(largest, chart.scale[cell_of(i, k)] + chart.scale[cell_of(k, j)])
    return largest


@njit
def _fill(grammar, chart, before):
    """Fill an empty chart, short spans first. `before` float64[L] is scratch memory and must be 0."""
    for width in range(1, grammar.length + 1):
        for i in range(grammar.length - width + 1):
            j = i + width
            cell = cell_of(i, j)
            value, active = chart.value[cell], chart.active[cell]
            log_scale = 0.0
            if width == 1:
                number = _add_words(grammar, i, value, active)
            else:
                log_scale = _largest_scale(chart, i, j)
                number = _add_splits(grammar, chart, i, j, log_scale, value, active)
            number = _apply_unary_chains(grammar, value, active, number, before)
            if number == 0:
                continue
            largest = 0.0
            for a in range(number):
                largest = max(largest, value[active[a]])
            for a in range(number):
                value[active[a]] /= largest
            chart.scale[cell] = log_scale + np.log(largest)
            chart.active_count[cell] = number
