"""Pruning of heuristic grammars by mass, by significance, or by entropy.

Significance [Johnson et al. 2007]: Fisher's exact test of the number of joint extractions of a rule's sides, against
random pairs of source and target sides.

Entropy [Zens, Stanton & Xu 2012]: the loss p(f, e) (ln p(e|f) - ln p'(e|f)) if other rules replace a rule. p' is the
probability of the best two rules that compose the same sides, nested or in sequence.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, probe, table_mask
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
MIN_LOG_PROBABILITY = -23.0
"""Minimum of ln p', about ln 1e-10. Also ln p' if no two rules compose the same sides."""
_EMPTY = np.uint64(0)
_MAX_SYMBOLS = 32
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Pruning(NamedTuple):
    """Selection of the best `rules` rules of a heuristic grammar up to a scope, by a criterion."""

    by: str
    rules: int
    max_scope: int = 2


def select_rules(grammar: HeuristicGrammar, pruning: Pruning) -> NDArray[np.bool_]:
    """Return a mask of the selected rules of `grammar.blocks()`, bool[n]. A hash of the rule breaks ties."""
    shape = grammar.shape
    # For each block: True up to the maximum scope, mass, occurrences, and hashes of both sides.
    columns: list[tuple[NDArray[Any], ...]] = []
    for block in grammar.blocks():
        _, scopes, _ = read_sources(block, shape)
        sides = hash_rows(block[:, : shape.source_width]), hash_rows(block[:, shape.source_width : shape.symbol_width])
        columns.append((scopes <= pruning.max_scope, block[:, shape.mass], block[:, shape.occurrences], *sides))
    is_within_scope, mass, occurrences, source, target = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    source_groups = _number_groups(source)
    if pruning.by == MASS:
        goodness = mass.astype(np.float64)
    elif pruning.by == SIGNIFICANCE:
        sums = (
            np.bincount(groups, weights=occurrences)[groups].astype(np.int64)
            for groups in (source_groups, _number_groups(target))
        )
        goodness = significance(occurrences.astype(np.int64), *sums)
    else:
        share = mass.astype(np.float64) / mass.sum(dtype=np.float64)
        p = share / np.bincount(source_groups, weights=share)[source_groups]
        goodness = share * (np.log(p) - composition_logs(np.concatenate(list(grammar.blocks())), np.log(p), shape))
    hashes = hash_rows(np.stack([source, target], axis=1))
    best = np.lexsort((hashes, -goodness, ~is_within_scope))
    is_kept = np.zeros(len(best), np.bool_)
    is_kept[best[: min(pruning.rules, int(is_within_scope.sum()))]] = True
    return is_kept


def hash_rows(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each row, uint64[n], given rows uint64[n, k]."""
    value = np.zeros(len(words), np.uint64)
    for column in words.T:
        value = (value ^ column) * _MULTIPLIER
        value ^= value >> np.uint64(32)
    return value


def _number_groups(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return a number for each value, int64[n]. Equal values have the same number."""
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1), np.int64)


def significance(
    together: NDArray[np.int64], source_count: NDArray[np.int64], target_count: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return -ln P(at least `together` joint occurrences by chance), float64[n], for a whole grammar."""
    from scipy.stats import hypergeom

    total = int(together.sum())
    different, inverse = np.unique(
        np.stack([together, source_count, target_count], axis=1), axis=0, return_inverse=True
    )
    values = -hypergeom.logsf(different[:, 0] - 1, total, different[:, 1], different[:, 2])
    return np.asarray(values[inverse.reshape(-1)], np.float64)


class _Table(NamedTuple):
    """Hash table of rules: hashes of their symbols (0 in free slots), and ln p."""

    codes: NDArray[np.uint64]
    logs: NDArray[np.float64]


class _Scratch(NamedTuple):
    """Sides of the current rule, their lengths, and new numbers of a part's nonterminals, the gap first."""

    symbols: NDArray[np.int64]
    sizes: NDArray[np.int64]
    numbers: NDArray[np.int64]


def composition_logs(rows: NDArray[np.uint64], logs: NDArray[np.float64], shape: RowShape) -> NDArray[np.float64]:
    """Return ln p' float64[n] of all rules of a grammar, given ln p: at least `MIN_LOG_PROBABILITY`."""
    slots = capacity_for(len(rows), 16)
    table = _Table(np.zeros(slots, np.uint64), np.zeros(slots))
    scratch = _Scratch(np.zeros((2, _MAX_SYMBOLS), np.int64), np.zeros(2, np.int64), np.zeros(3, np.int64))
    best = np.full(len(rows), MIN_LOG_PROBABILITY)
    _fill(rows, logs, shape, table, scratch)
    _compose(rows, shape, table, scratch, best)
    return best


@njit_inline
def _ends_at(table, slot, code):
    return table.codes[slot] == _EMPTY or table.codes[slot] == code


@njit
def _fill(rows, logs, shape, table, scratch):
    mask = table_mask(table.codes)
    for k in range(len(rows)):
        _unpack(rows[k], shape, scratch)
        code = _hash_part(scratch, (0, scratch.sizes[0]), (0, scratch.sizes[1]), (-1, -1), (-1, -1))
        slot = probe(code & mask, mask, _ends_at, table, code)
        table.codes[slot] = code
        table.logs[slot] = logs[k]


@njit
def _unpack(row, shape, scratch):
    """Fill `symbols` and `sizes` with the sides of a rule."""
    for side in range(2):
        first = 0 if side == 0 else shape.source_width
        last = shape.source_width if side == 0 else shape.symbol_width
        scratch.sizes[side] = 0
        for position in range(2 * (last - first)):
            symbol = symbol_at(row, first, position)
            if symbol == 0:
                break
            scratch.symbols[side, position] = symbol
            scratch.sizes[side] = position + 1


@njit
def _hash_part(scratch, source, target, source_gap, target_gap):
    """Return the hash of a part of the current rule: two spans, with a nonterminal for the gap.

    Numbers nonterminals in source order. Returns 0 for too many nonterminals, or a nonterminal on only one side.
    """
    numbers = scratch.numbers
    numbers[:] = 0
    code = GOLDEN
    gaps = 0
    at = source[0]
    while at < source[1]:
        symbol = scratch.symbols[0, at]
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
        symbol = scratch.symbols[1, at]
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
def _look_up_log(table, code):
    """Return ln p of the rule with this hash, or 1 if the hash is 0 or the rule does not exist."""
    if code == _EMPTY:
        return 1.0
    mask = table_mask(table.codes)
    slot = probe(code & mask, mask, _ends_at, table, code)
    return table.logs[slot] if table.codes[slot] == code else 1.0


@njit
def _compose(rows, shape, table, scratch, best):
    """Raise `best` float64[n] to ln p' of each rule."""
    for k in range(len(rows)):
        _unpack(rows[k], shape, scratch)
        words = scratch.sizes[0]
        for i in range(words):
            for j in range(i + 1, words + 1):
                is_nonterminal = j - i == 1 and scratch.symbols[0, i] < FIRST_WORD
                if j - i < words and not is_nonterminal:
                    best[k] = max(best[k], _compose_at(table, scratch, i, j))


@njit
def _compose_at(table, scratch, i, j):
    """Return ln p of the best two rules that compose the current rule, one of them over [i, j)."""
    none = (-1, -1)
    words, target_words = scratch.sizes[0], scratch.sizes[1]
    best = MIN_LOG_PROBABILITY
    for first in range(target_words):
        for last in range(first + 1, target_words + 1):
            if last - first == target_words and target_words > 1:
                continue
            inner = _look_up_log(table, _hash_part(scratch, (i, j), (first, last), none, none))
            if inner > 0:
                continue
            outer = _look_up_log(table, _hash_part(scratch, (0, words), (0, target_words), (i, j), (first, last)))
            if outer <= 0:
                best = max(best, inner + outer)
            if i == 0 and first == 0 and last < target_words:
                after = _look_up_log(table, _hash_part(scratch, (j, words), (last, target_words), none, none))
                if after <= 0:
                    best = max(best, inner + after)
    return best
