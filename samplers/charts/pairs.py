"""Sentence pairs to parse: synchronous rules, words, masks, and bispans.

A *bispan* is a source span [i, j) with a target span [x, y). A mask is a set of word pairs. One rule must emit both
words of a *positive* pair, and no rule may emit both words of a *negative* pair. A bispan with only one word of a
positive pair has no derivation and is omitted. The remaining bispans of a source span and target start have
consecutive ends.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline

ANY = -10_000
"""Symbol that matches any single word."""


class RuleSide(NamedTuple):
    """Source or target sides of R rules, with at most one `ANY` each."""

    # int32[symbols]: word numbers, `ANY`, or -1-k for nonterminal k of a rule, numbered from 0 in source order.
    symbols: NDArray[np.int32]
    # int32[R+1]: index into `symbols` of the first symbol of each rule.
    first: NDArray[np.int32]
    # int32[symbols + 1]: minimum number of words from each symbol to the end of its side.
    rest: NDArray[np.int32]


class Rules(NamedTuple):
    """R synchronous rules for one pair, with linear weights. `emits` is True for rules with words."""

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
    """Pair to parse, with its rules and mask."""

    rules: Rules
    words: PairWords
    # True if a nonterminal may be empty on one side.
    empty_sides: bool
    # int8[n, m]: mask by word pair: 1 for positive pairs, -1 for negative pairs, 0 without restriction.
    fixed: NDArray[np.int8]


class Cells(NamedTuple):
    """I items of a pair of n source and m target words."""

    # int32[spans, m+1]: source span s and target start x have one item per target end from `low[s, x]` to `high[s, x]`.
    # The first of these items has the number `base[s, x]`.
    base: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    # int32[I, 4]: (i, j, x, y) of each item.
    bispan: NDArray[np.int32]
    # bool[spans]: True for source spans with items.
    filled: NDArray[np.bool_]
    # int32[n+1, m]: for source position i and target word x, number of source words before i in a positive pair with x.
    covered: NDArray[np.int32]
    # int32[n], int32[m]: number of positive pairs of each source and target word.
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
    rest = before[np.repeat(first[1:], np.diff(first))] - before[:-1]
    return RuleSide(symbols, first, np.append(rest, 0).astype(np.int32))


def is_word(symbols: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return True for each symbol that matches a word, bool[symbols]."""
    return np.asarray((symbols >= 0) | (symbols == ANY), np.bool_)


def unmasked(rules: Rules, words: PairWords, empty_sides: bool) -> PairTask:
    """Return a task with an empty mask."""
    return PairTask(rules, words, empty_sides, np.zeros((len(words.source), len(words.target)), np.int8))


def make_cells(source: int, target: int, items: int) -> Cells:
    """Allocate up to `items` items for a pair of `source` and `target` words."""
    spans = (source + 1) * (source + 2) // 2
    return Cells(
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
def span_of(i, j):
    """Return the index of source span [i, j), which may be empty."""
    return j * (j + 1) // 2 + i


@njit
def _read_mask(fixed, cells):
    n, m = fixed.shape
    cells.covered[0] = cells.source_positives[:] = cells.target_positives[:] = 0
    for i in range(n):
        for x in range(m):
            cells.covered[i + 1, x] = cells.covered[i, x] + (1 if fixed[i, x] > 0 else 0)
            if fixed[i, x] > 0:
                cells.source_positives[i] += 1
                cells.target_positives[x] += 1


@njit
def _number_span_items(i, j, solid, item, cells):
    """Add the items of a source span, without empty target spans if `solid`. Returns the next item number."""
    covered = cells.covered
    n, m = len(covered) - 1, covered.shape[1]
    span = span_of(i, j)
    first_in, last_in = m, np.int64(-1)
    divided = False
    for x in range(m):
        inside = covered[j, x] - covered[i, x]
        if inside > 0:
            first_in = min(first_in, x)
            last_in = x
            divided = divided or inside < covered[n, x]
    cells.filled[span] = False
    limit = np.int64(m)
    for x in range(m, -1, -1):
        if x < m and covered[n, x] > 0 and covered[j, x] == covered[i, x]:
            limit = np.int64(x)
        low = max(np.int64(x + solid), last_in + 1)
        high = limit
        if divided or x > first_in:
            low, high = np.int64(1), np.int64(0)
        cells.base[span, x], cells.low[span, x], cells.high[span, x] = item, low, high
        for y in range(low, high + 1):
            if item < len(cells.bispan):
                bispan = cells.bispan[item]
                bispan[0], bispan[1], bispan[2], bispan[3] = i, j, x, y
            item += 1
            cells.filled[span] = True
    return item


@njit
def number_items(fixed, empty_sides, cells):
    """Assign topologically sorted numbers to items under a mask. Returns their count, even without room."""
    n = len(fixed)
    _read_mask(fixed, cells)
    item = np.int64(0)
    for width in range(n + 1):
        for i in range(n + 1 - width):
            if width > 0:
                item = _number_span_items(i, i + width, 0 if empty_sides else 1, item, cells)
            elif empty_sides:
                item = _number_span_items(i, i, 1, item, cells)
            else:
                cells.filled[span_of(i, i)] = False
    return item
