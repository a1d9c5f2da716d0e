"""Heuristic grammars made smaller: which of their rules stay, by mass, by significance, or by entropy.

Significance [Johnson et al. 2007]: Fisher's exact test of how improbable it is that a rule's sides are extracted
together as often as they are, if extraction put source and target sides together by chance.

Entropy [Zens, Stanton & Xu 2012]: what is lost where a rule leaves and others do its work,
p(f, e) (ln p(e|f) - ln p'(e|f)). p' is the probability of the best two rules that make the same sides: one that stands
in the place of a nonterminal of the other, or one beside the other, in order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, mask_of, probe
from hierogram.samplers.compiled.streams import GOLDEN, mix
from hierogram.tools.lab.comparison.extraction import (
    FIRST_WORD,
    SECOND_NONTERMINAL,
    HeuristicGrammar,
    RowShape,
    read_sources,
    symbol_at,
)

MASS, SIGNIFICANCE, ENTROPY = "mass", "significance", "entropy"
LEAST = -23.0
"""ln p' where no two rules make the same sides: about ln 1e-10."""
_EMPTY = np.uint64(0)
_ROOM = 32
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Pruning(NamedTuple):
    """The best `rules` of a heuristic grammar up to a scope, by what is named."""

    by: str
    rules: int
    max_scope: int = 2


def chosen_rules(grammar: HeuristicGrammar, pruning: Pruning) -> NDArray[np.bool_]:
    """Return which of a grammar's rules, in their order, stay; of those that are as good some that are evenly drawn."""
    shape = grammar.shape
    columns: list[tuple[NDArray[Any], ...]] = []
    for block in grammar.blocks():
        _, scopes, _ = read_sources(block, shape)
        sides = hashed(block[:, : shape.source_words]), hashed(block[:, shape.source_words : shape.symbol_words])
        columns.append((scopes <= pruning.max_scope, block[:, shape.mass], block[:, shape.occurrences], *sides))
    within, mass, seen, source, target = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    of_source = _places(source)
    if pruning.by == MASS:
        goodness = mass.astype(np.float64)
    elif pruning.by == SIGNIFICANCE:
        sums = (np.bincount(places, weights=seen)[places].astype(np.int64) for places in (of_source, _places(target)))
        goodness = significance(seen.astype(np.int64), *sums)
    else:
        share = mass.astype(np.float64) / mass.sum(dtype=np.float64)
        p = share / np.bincount(of_source, weights=share)[of_source]
        goodness = share * (np.log(p) - composed(np.concatenate(list(grammar.blocks())), np.log(p), shape))
    drawn = hashed(np.stack([source, target], axis=1))
    best = np.lexsort((drawn, -goodness, ~within))
    kept = np.zeros(len(best), np.bool_)
    kept[best[: min(pruning.rules, int(within.sum()))]] = True
    return kept


def hashed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each row."""
    value = np.zeros(len(words), np.uint64)
    for column in words.T:
        value = (value ^ column) * _MULTIPLIER
        value ^= value >> np.uint64(32)
    return value


def _places(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the place of each value among the different ones."""
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1), np.int64)


def significance(
    together: NDArray[np.int64], of_source: NDArray[np.int64], of_target: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return -ln of the probability that sides that come so often come together so often, or more, by chance."""
    from scipy.stats import hypergeom

    total = int(together.sum())
    different, places = np.unique(np.stack([together, of_source, of_target], axis=1), axis=0, return_inverse=True)
    values = -hypergeom.logsf(different[:, 0] - 1, total, different[:, 1], different[:, 2])
    return np.asarray(values[places.reshape(-1)], np.float64)


class _Table(NamedTuple):
    """Rules by a hash of their symbols, 0 for none, and ln p of each."""

    codes: NDArray[np.uint64]
    logs: NDArray[np.float64]


class _Sides(NamedTuple):
    """Room for a rule at hand: its symbols, and those of a part of it; `sizes` int64[2] of source and target side."""

    symbols: NDArray[np.int64]
    sizes: NDArray[np.int64]
    numbers: NDArray[np.int64]


def composed(rows: NDArray[np.uint64], logs: NDArray[np.float64], shape: RowShape) -> NDArray[np.float64]:
    """Return ln p' of each row, by ln p of all rows, float64[n]: `LEAST` where no two rows make it."""
    slots = capacity_for(len(rows), 16)
    table = _Table(np.zeros(slots, np.uint64), np.zeros(slots))
    room = _Sides(np.zeros((2, _ROOM), np.int64), np.zeros(2, np.int64), np.zeros(3, np.int64))
    found = np.full(len(rows), LEAST)
    _fill(rows, logs, shape, table, room)
    _compose(rows, shape, table, room, found)
    return found


@njit_inline
def _ends_at(table, slot, code):
    return table.codes[slot] == _EMPTY or table.codes[slot] == code


@njit
def _fill(rows, logs, shape, table, room):
    mask = mask_of(table.codes)
    for k in range(len(rows)):
        _unpack(rows[k], shape, room)
        code = _part(room, (0, room.sizes[0]), (0, room.sizes[1]), (-1, -1), (-1, -1))
        slot = probe(code & mask, mask, _ends_at, table, code)
        table.codes[slot] = code
        table.logs[slot] = logs[k]


@njit
def _unpack(row, shape, room):
    """Put the symbols of a row into `symbols`, source and target side."""
    for side in range(2):
        first = 0 if side == 0 else shape.source_words
        last = shape.source_words if side == 0 else shape.symbol_words
        room.sizes[side] = 0
        for place in range(2 * (last - first)):
            symbol = symbol_at(row, first, place)
            if symbol == 0:
                break
            room.symbols[side, place] = symbol
            room.sizes[side] = place + 1


@njit
def _part(room, source, target, source_gap, target_gap):
    """Return the code of the rule that spans of the rule at hand make, a span within each being a nonterminal.

    Nonterminals are numbered in source order, as in grammars. 0: it has none of them on one side alone, or too many.
    """
    numbers = room.numbers
    numbers[:] = 0
    code = GOLDEN
    gaps = 0
    at = source[0]
    while at < source[1]:
        symbol = room.symbols[0, at]
        step = 1
        if at == source_gap[0]:
            gaps += 1
            numbers[0] = gaps
            symbol = np.int64(gaps)
            step = source_gap[1] - source_gap[0]
        elif symbol < FIRST_WORD:
            gaps += 1
            numbers[symbol] = gaps
            symbol = np.int64(gaps)
        if gaps > SECOND_NONTERMINAL:
            return _EMPTY
        code = mix(code + np.uint64(symbol) + GOLDEN)
        at += step
    code = mix(code)
    filled = 0
    at = target[0]
    while at < target[1]:
        symbol = room.symbols[1, at]
        step = 1
        if at == target_gap[0]:
            symbol = numbers[0]
            step = target_gap[1] - target_gap[0]
            filled += 1
        elif symbol < FIRST_WORD:
            symbol = numbers[symbol]
            filled += 1
            if symbol == 0:
                return _EMPTY
        code = mix(code + np.uint64(symbol) + GOLDEN)
        at += step
    return code if filled == gaps else _EMPTY


@njit_inline
def _log_of(table, code):
    """Return ln p of the rule with the code; 1 where there is none."""
    if code == _EMPTY:
        return 1.0
    mask = mask_of(table.codes)
    slot = probe(code & mask, mask, _ends_at, table, code)
    return table.logs[slot] if table.codes[slot] == code else 1.0


@njit
def _compose(rows, shape, table, room, found):
    none = (-1, -1)
    for k in range(len(rows)):
        _unpack(rows[k], shape, room)
        words, target_words = room.sizes[0], room.sizes[1]
        for i in range(words):
            for j in range(i + 1, words + 1):
                if j - i == words or (j - i == 1 and room.symbols[0, i] < FIRST_WORD):
                    continue
                for first in range(target_words):
                    for last in range(first + 1, target_words + 1):
                        if last - first == target_words and target_words > 1:
                            continue
                        inner = _log_of(table, _part(room, (i, j), (first, last), none, none))
                        if inner > 0:
                            continue
                        whole = (0, words), (0, target_words)
                        outer = _log_of(table, _part(room, whole[0], whole[1], (i, j), (first, last)))
                        if outer <= 0:
                            found[k] = max(found[k], inner + outer)
                        if i == 0 and first == 0:
                            rest = _part(room, (j, words), (last, target_words), none, none)
                            beside = _log_of(table, rest) if last < target_words else 1.0
                            if beside <= 0:
                                found[k] = max(found[k], inner + beside)
