"""Sentence pairs to parse: synchronous rules, words, masks, and bispans.

A *bispan* is a source span [i, j) with a target span [x, y). A mask restricts some word pairs: one rule must emit both
words of a *positive* word pair, and no rule may emit both words of a *negative* word pair. A bispan with only one word
of a positive word pair has no derivation and is omitted. The other bispans are items. For a given source span and
target start, their target ends are consecutive.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline

ANY = -10_000
"""Symbol of a rule that matches any single word. `PairWords` has the weights of these words."""


class RuleSide(NamedTuple):
    """Source or target sides of R rules, with at most one `ANY` each."""

    # int32[symbols]: word numbers, `ANY`, or -k for nonterminal k of a rule, numbered from 1 in source order.
    symbols: NDArray[np.int32]
    # int32[R+1]: index into `symbols` of the first symbol of each rule.
    first: NDArray[np.int32]
    # int32[symbols + 1]: minimum number of words that the symbols from here to the end of the side cover.
    min_words: NDArray[np.int32]


class Rules(NamedTuple):
    """R synchronous rules with linear weights, float64[R]. `emits` is True for rules with words or `ANY`."""

    source: RuleSide
    target: RuleSide
    weight: NDArray[np.float64]
    emits: NDArray[np.bool_]

    @property
    def longest(self) -> int:
        """Length of the longest side in symbols, at least 1."""
        return int(max(np.diff(side.first).max(initial=1) for side in (self.source, self.target)))


class PairWords(NamedTuple):
    """Words of a pair of n source and m target words, and weights of words that match `ANY`."""

    # int32[n], int32[m]: numbers of the source and target words.
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    # float64[n, m]: linear weight of each word pair for rules with `ANY` on both sides.
    pairs: NDArray[np.float64]
    # float64[n], float64[m]: linear weight of each word for rules with `ANY` on only one side.
    source_nulls: NDArray[np.float64]
    target_nulls: NDArray[np.float64]
    # float64[n], float64[m]: factor of each word in the weight of the rule that emits it, which keeps sums in range.
    source_scale: NDArray[np.float64]
    target_scale: NDArray[np.float64]


class PairTask(NamedTuple):
    """Sentence pair to parse, with its rules and mask."""

    rules: Rules
    words: PairWords
    # True if a nonterminal may be empty on one side.
    empty_sides: bool
    # int8[n, m]: 1 for positive word pairs, -1 for negative word pairs, 0 without restriction.
    mask: NDArray[np.int8]


class ItemTable(NamedTuple):
    """Items of a pair of n source and m target words under a mask. `number_items` fills the table."""

    # int32[spans, m+1]: source span s (see `span_index`) and target start x have one item per target end from `low[s,
    # x]` to `high[s, x]`, and none if `high[s, x] < low[s, x]`. The first of these items has the number `base[s, x]`.
    base: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    # int32[items, 4]: (i, j, x, y) of each item.
    bispan: NDArray[np.int32]
    # bool[spans]: True for source spans with items.
    filled: NDArray[np.bool_]
    # int32[n+1, m]: number of positive word pairs of target word x with a source word before position i.
    covered: NDArray[np.int32]
    # int32[n], int32[m]: number of positive word pairs of each source and target word.
    source_positives: NDArray[np.int32]
    target_positives: NDArray[np.int32]


def make_rules(sides: list[tuple[list[int], list[int]]], weights: NDArray[np.float64], empty_sides: bool) -> Rules:
    """Return rules, given the symbols of their (source, target) sides and linear weights float64[R]."""
    source = _rule_side([source for source, _ in sides], empty_sides)
    target = _rule_side([target for _, target in sides], empty_sides)
    emits = np.array([is_word(np.array(one + other)).any() for one, other in sides], np.bool_)
    return Rules(source, target, np.asarray(weights, np.float64), emits)


def _rule_side(sides: list[list[int]], empty_sides: bool) -> RuleSide:
    symbols = np.array([symbol for side in sides for symbol in side], np.int32)
    first = np.cumsum([0, *map(len, sides)], dtype=np.int32)
    before = np.concatenate(([0], np.cumsum(np.where(is_word(symbols), 1, 0 if empty_sides else 1))))
    min_words = before[np.repeat(first[1:], np.diff(first))] - before[:-1]
    return RuleSide(symbols, first, np.append(min_words, 0).astype(np.int32))


def is_word(symbols: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return bool[symbols]: True for words and `ANY`, False for nonterminals."""
    return np.asarray((symbols >= 0) | (symbols == ANY), np.bool_)


def unmasked_task(rules: Rules, words: PairWords, empty_sides: bool) -> PairTask:
    """Return a task with a mask that restricts nothing."""
    return PairTask(rules, words, empty_sides, np.zeros((len(words.source), len(words.target)), np.int8))


def make_item_table(source: int, target: int, items: int) -> ItemTable:
    """Allocate a table with room for `items` items, for a pair of `source` and `target` words."""
    spans = (source + 1) * (source + 2) // 2
    return ItemTable(
        base=np.empty((spans, target + 1), np.int32),
        low=np.empty((spans, target + 1), np.int32),
        high=np.empty((spans, target + 1), np.int32),
        bispan=np.empty((items, 4), np.int32),
        filled=np.empty(spans, np.bool_),
        covered=np.empty((source + 1, target), np.int32),
        source_positives=np.empty(source, np.int32),
        target_positives=np.empty(target, np.int32),
    )


@njit_inline
def span_index(i, j):
    """Return the index of source span [i, j), which may be empty."""
    return j * (j + 1) // 2 + i


@njit
def _read_mask(mask, table):
    n, m = mask.shape
    table.covered[0] = table.source_positives[:] = table.target_positives[:] = 0
    for i in range(n):
        for x in range(m):
            table.covered[i + 1, x] = table.covered[i, x] + (1 if mask[i, x] > 0 else 0)
            if mask[i, x] > 0:
                table.source_positives[i] += 1
                table.target_positives[x] += 1


@njit
def _number_span_items(i, j, min_width, item, table):
    """Add the items of a source span with at least `min_width` target words. Returns the next number."""
    covered = table.covered
    n, m = len(covered) - 1, covered.shape[1]
    span = span_index(i, j)
    first_in, last_in = m, np.int64(-1)
    # A positive target word is divided if only some of its positive source words are in the span.
    divided = False
    for x in range(m):
        inside = covered[j, x] - covered[i, x]
        if inside > 0:
            first_in = min(first_in, x)
            last_in = x
            divided = divided or inside < covered[n, x]
    table.filled[span] = False
    limit = np.int64(m)
    for x in range(m, -1, -1):
        if x < m and covered[n, x] > 0 and covered[j, x] == covered[i, x]:
            limit = np.int64(x)
        low = max(np.int64(x + min_width), last_in + 1)
        high = limit
        if divided or x > first_in:
            low, high = np.int64(1), np.int64(0)
        table.base[span, x], table.low[span, x], table.high[span, x] = item, low, high
        for y in range(low, high + 1):
            if item < len(table.bispan):
                bispan = table.bispan[item]
                bispan[0], bispan[1], bispan[2], bispan[3] = i, j, x, y
            item += 1
            table.filled[span] = True
    return item


@njit
def number_items(mask, empty_sides, table):
    """Fill the table with items, shorter source spans first. Returns their count, even without room."""
    n = len(mask)
    _read_mask(mask, table)
    item = np.int64(0)
    for width in range(n + 1):
        for i in range(n + 1 - width):
            if width > 0:
                item = _number_span_items(i, i + width, 0 if empty_sides else 1, item, table)
            elif empty_sides:
                item = _number_span_items(i, i, 1, item, table)
            else:
                table.filled[span_index(i, i)] = False
    return item
