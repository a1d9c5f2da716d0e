"""Slice sampling of ITG derivations: slice variables, charts of surviving cells, and draws [BC10 §2].

A *cell* is a source span [i, j) with a target span [x, y). A *corner* is the start (i, x) of cells. docs/model.md,
section 7, has the target distribution and the order of cells. A new cell is combined with lists of adjacent cells, so
pruned cells are never visited [Klein & Manning 2004]. `unit` is the uniform number in (0, 1] of a cell in a visit.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.intrinsics import lowest_bit
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.powers import Powers, make_powers, raise_to_power
from hierogram.samplers.compiled.streams import GOLDEN, mix, uniform
from hierogram.samplers.itg.batch import phrase_offset
from hierogram.samplers.itg.charts import (
    RuleWeights,
    SampledDerivation,
    draw_derivation,
    emission,
    make_sampled_derivation,
    make_weights,
    phrase_weight,
    scale_emissions,
)
from hierogram.samplers.itg.derivations import (
    INVERTED,
    NODE,
    PAIR,
    SOURCE_NULL,
    STRAIGHT,
    TARGET_NULL,
    source_words,
    target_words,
)
from hierogram.samplers.itg.model import frozen_weight

UNSLICED = 0.0
"""Value of the shape a if only emissions have slice variables."""

_NOWHERE = 0xFFFF
_16, _32, _48 = np.uint64(16), np.uint64(32), np.uint64(48)
_ONE = np.uint64(1)
_FRACTION, _EXPONENT_OF_ONE, _ABOVE_LINE = 2.0**-52, 1023, 0.0862
"""Layout of float64: the bits of x ≥ 0 as an integer, times 2^-52, are exponent + 1023 + fraction."""


class CurrentCells(NamedTuple):
    """Cells of the current derivation."""

    # int32[spans], int32[nodes]: linked lists of the nodes with each source span: 1 + first node of the span, and 1 +
    # next node, or 0 at the end. All are empty between visits.
    first: NDArray[np.int32]
    next: NDArray[np.int32]
    # NODE[nodes]: nodes of the derivation.
    nodes: NDArray[np.void]


class Slices(NamedTuple):
    """Inputs that determine the slice variables of a visit to a pair."""

    # Parameter a of Beta(a, 1), or `UNSLICED`, and tables for powers of exponent 1/a - 1.
    shape: float
    powers: Powers
    # State of the visit's random stream.
    key: np.uint64
    # Number of source words and of target words.
    height: int
    width: int
    # Probabilities p of the straight rule and the inverted rule, and p^a, with which each survives in a cell outside
    # the current derivation.
    straight: float
    inverted: float
    straight_survives: float
    inverted_survives: float
    # Cells of the current derivation, and frozen weights of all rules, before slicing.
    current: CurrentCells
    weights: RuleWeights


@njit_inline
def _span_index(i, j):
    return j * (j + 1) // 2 + i


@njit_inline
def _cell_uniform(visit, i, j, x, y):
    """Return the uniform number in (0, 1] that determines the slice variable of a cell in one visit."""
    cell = np.uint64(i) << _48 | np.uint64(j) << _32 | np.uint64(x) << _16 | np.uint64(y)
    return 1.0 - uniform(visit + mix(cell + _ONE))


@njit_inline
def _may_survive(unit, p, shape):
    """Check cheaply if unit ≤ p^shape is possible, which rejects most cells.

    Between powers of two, log2 p is at most 0.0861 above its linear interpolation, and 2^s is below its interpolation.
    """
    log2 = np.float64(p).view(np.int64) * _FRACTION - _EXPONENT_OF_ONE + _ABOVE_LINE
    return unit <= np.int64((shape * log2 + _EXPONENT_OF_ONE) / _FRACTION).view(np.float64)


@njit_inline
def _inverse_slice_density(u, shape):
    """Return 1 / Beta(u; a, 1), which is the weight of every surviving rule in a cell."""
    return u ** (1.0 - shape) / shape


@njit_inline
def _slice_weight(slices, unit):
    """Return a weight outside the derivation, 1 / Beta(u; a, 1) with u = unit^(1/a) [BC10 eq. 4]."""
    return raise_to_power(slices.powers, unit) / slices.shape


@njit
def _mark_current(current, length, present):
    for at in range(length):
        node = current.nodes[at]
        if node["i"] < node["j"] and node["x"] < node["y"]:
            span = _span_index(np.int64(node["i"]), np.int64(node["j"]))
            if present:
                current.next[at] = current.first[span]
                current.first[span] = at + 1
            else:
                current.first[span] = 0


@njit_inline
def _current_probability(slices, i, j, x, y):
    at = slices.current.first[_span_index(i, j)]
    while at > 0:
        node = slices.current.nodes[at - 1]
        if node["x"] == x and node["y"] == y:
            if node["rule"] >= PAIR:
                return frozen_weight(slices.weights, np.int64(node["rule"]), i, x)
            return slices.straight if node["rule"] == STRAIGHT else slices.inverted
        at = slices.current.next[at - 1]
    return 0.0


@njit_inline
def _rule_weights(slices, i, j, x, y):
    """Return the weights of the straight and the inverted rule in a cell, or 0 for a pruned rule."""
    if i == j or x == y or slices.shape == UNSLICED:
        return slices.straight, slices.inverted
    unit = _cell_uniform(slices.key, i, j, x, y)
    p = _current_probability(slices, i, j, x, y)
    if p > 0.0:
        weight = _inverse_slice_density(p * unit, slices.shape)
        return weight if p * unit <= slices.straight else 0.0, weight if p * unit <= slices.inverted else 0.0
    straight, inverted = unit <= slices.straight_survives, unit <= slices.inverted_survives
    if not (straight or inverted):
        return 0.0, 0.0
    weight = _slice_weight(slices, unit)
    return weight if straight else 0.0, weight if inverted else 0.0


@njit
def _weigh_current_emissions(to, slices, length):
    shape, weights, longest = slices.shape, slices.weights, slices.weights.size[2]
    for at in range(length):
        node = slices.current.nodes[at]
        i, j, x, y = np.int64(node["i"]), np.int64(node["j"]), np.int64(node["x"]), np.int64(node["y"])
        p = frozen_weight(weights, np.int64(node["rule"]), i, x)
        if node["rule"] == SOURCE_NULL:
            u = p * _cell_uniform(slices.key, i, j, _NOWHERE, _NOWHERE)
            to.source_nulls[i] = _inverse_slice_density(u, shape)
        elif node["rule"] == TARGET_NULL:
            u = p * _cell_uniform(slices.key, _NOWHERE, _NOWHERE, x, y)
            to.target_nulls[x] = _inverse_slice_density(u, shape)
        elif 0 < j - i <= longest and 0 < y - x <= longest:
            u = p * _cell_uniform(slices.key, i, j, x, y)
            phrase = phrase_offset(longest, j - i, y - x)
            to.pairs[i, x, phrase] = _inverse_slice_density(u, shape) if u <= weights.pairs[i, x, phrase] else 0.0


@njit_inline
def _weight_outside(slices, unit, p):
    shape = slices.shape
    if not _may_survive(unit, p, shape):
        return 0.0
    return _slice_weight(slices, unit) if unit <= p**shape else 0.0


@njit_inline
def _weigh_emissions(to, weights, n, m, key, weigh, parameters):
    """Draw the slice variables of all emissions of n source and m target words."""
    longest = weights.size[2]
    for x in range(m):
        unit = _cell_uniform(key, _NOWHERE, _NOWHERE, x, x + 1)
        to.target_nulls[x] = weigh(parameters, unit, weights.target_nulls[x])
    for i in range(n):
        unit = _cell_uniform(key, i, i + 1, _NOWHERE, _NOWHERE)
        to.source_nulls[i] = weigh(parameters, unit, weights.source_nulls[i])
        for x in range(m):
            for s in range(1, min(longest, n - i) + 1):
                for t in range(1, min(longest, m - x) + 1):
                    phrase = phrase_offset(longest, s, t)
                    unit = _cell_uniform(key, i, i + s, x, x + t)
                    to.pairs[i, x, phrase] = weigh(parameters, unit, weights.pairs[i, x, phrase])


@njit_inline
def _flat_weight(shape, unit, p):
    if not _may_survive(unit, p, shape):
        return 0.0
    survives = p**shape
    return p / survives if unit <= survives else 0.0


@njit
def _weigh_flat_emissions(to, weights, shape, nodes, length, key):
    """Draw the flat slice variables of all emissions, and set the emission weights `to`.

    An emission of the current derivation always survives. Other emissions survive with probability p^a. Surviving
    emissions have the weight p^(1 - a).
    """
    _weigh_emissions(to, weights, np.int64(nodes[0]["j"]), np.int64(nodes[0]["y"]), key, _flat_weight, shape)
    for node in range(length):
        rule, i, x = nodes[node]["rule"], np.int64(nodes[node]["i"]), np.int64(nodes[node]["x"])
        if rule == SOURCE_NULL:
            to.source_nulls[i] = _flat_weight(shape, 0.0, weights.source_nulls[i])
        elif rule == TARGET_NULL:
            to.target_nulls[x] = _flat_weight(shape, 0.0, weights.target_nulls[x])
        elif rule >= PAIR:
            phrase = phrase_offset(weights.size[2], source_words(np.int64(rule)), target_words(np.int64(rule)))
            to.pairs[i, x, phrase] = _flat_weight(shape, 0.0, weights.pairs[i, x, phrase])


class Viability(NamedTuple):
    """Possible partners of the n source and m target words that must be linked, because nulls are pruned."""

    # int16[n, 2], int16[m, 2]: first and last word of the other side to which each word can be linked. A word that can
    # be null has the length of the other side and -1.
    source: NDArray[np.int16]
    target: NDArray[np.int16]
    # int16[m+1, m+1, 2], int16[n+1, n+1, 2]: first and last word of the other side that must be linked within each
    # span, or the length of the other side and -1 for no word.
    in_target: NDArray[np.int16]
    in_source: NDArray[np.int16]


@njit
def _find_required_in_spans(within, spans, length, other):
    for x in range(length + 1):
        for y in range(x, length + 1):
            within[x, y, 0], within[x, y, 1] = other, -1
    for i in range(other):
        if spans[i, 0] <= spans[i, 1]:
            x, y = spans[i, 0], spans[i, 1] + 1
            within[x, y, 0] = min(within[x, y, 0], i)
            within[x, y, 1] = max(within[x, y, 1], i)
    for size in range(1, length + 1):
        for x in range(length + 1 - size):
            y = x + size
            within[x, y, 0] = min(within[x, y, 0], within[x + 1, y, 0], within[x, y - 1, 0])
            within[x, y, 1] = max(within[x, y, 1], within[x + 1, y, 1], within[x, y - 1, 1])


@njit
def find_required(to, emissions, n, m):
    """Write the words that must be linked and their possible links to `to`, given the surviving emissions."""
    for i in range(n):
        to.source[i, 0], to.source[i, 1] = m, -1
    for x in range(m):
        to.target[x, 0], to.target[x, 1] = n, -1
    for i in range(n):
        for x in range(m):
            for s in range(1, min(emissions.size[2], n - i) + 1):
                for t in range(1, min(emissions.size[2], m - x) + 1):
                    if phrase_weight(emissions, i, x, s, t) > 0.0:
                        for k in range(i, i + s):
                            to.source[k, 0], to.source[k, 1] = min(to.source[k, 0], x), max(to.source[k, 1], x + t - 1)
                        for z in range(x, x + t):
                            to.target[z, 0], to.target[z, 1] = min(to.target[z, 0], i), max(to.target[z, 1], i + s - 1)
    for i in range(n):
        if emissions.source_nulls[i] > 0.0:
            to.source[i, 0], to.source[i, 1] = m, -1
    for x in range(m):
        if emissions.target_nulls[x] > 0.0:
            to.target[x, 0], to.target[x, 1] = n, -1
    _find_required_in_spans(to.in_target, to.source, m, n)
    _find_required_in_spans(to.in_source, to.target, n, m)


@njit_inline
def _is_viable(viability, i, j, x, y):
    """Check if a cell contains all words that must be linked within its source span or its target span."""
    return (
        viability.in_target[x, y, 0] >= i
        and viability.in_target[x, y, 1] < j
        and viability.in_source[i, j, 0] >= x
        and viability.in_source[i, j, 1] < y
    )


MAX_COMBINATIONS = 1 << 29
"""Maximum number of combinations of two cells. A larger chart is given up, to limit the time per pair."""
INITIAL_CELLS = 1 << 13
"""Initial capacity of a chart in cells."""


class SparseChart(NamedTuple):
    """Scratch memory of a visit to a pair of n source and m target words."""

    # int16[capacity], float64[capacity]: target end and inside sum of each cell, in the order of creation.
    column: NDArray[np.int16]
    inside: NDArray[np.float64]
    # int32[spans, m + 1, 2]: half-open range of the cells with each source span and target start x, sorted by target
    # end.
    rows: NDArray[np.int32]
    # int16[capacity, 2]: source start and target start of each cell.
    begin: NDArray[np.int16]
    # int32[n + 1, m + 2, 2]: start of each list of cells. List [j, y, STRAIGHT] has the cells with source end j and
    # target end y, and list [j, x, INVERTED] the cells with source end j and target start x. The newest cell is first.
    # A list ends where the next list starts.
    lists: NDArray[np.int32]
    # float64[capacity], int32[capacity]: inside sum and corner i (m + 1) + x of each cell in the STRAIGHT lists.
    ending_sums: NDArray[np.float64]
    ending_corners: NDArray[np.int32]
    # float64[capacity], int16[capacity, 2]: inside sum, and source start and target end, of each cell in the INVERTED
    # lists.
    starting_sums: NDArray[np.float64]
    starting_ends: NDArray[np.int16]
    # float64[2, n (m + 1)²]: sums over splits of the cells with the current source end, without rule weights. Straight
    # splits have the index y n (m + 1) + corner, inverted splits x n (m + 1) + i (m + 1) + y. A new cell adds to the
    # sums of larger cells. All sums are 0 between visits.
    sums: NDArray[np.float64]
    # uint64[n (m + 1), words]: bit set for each corner. Bit y is set if the cell with the current source end and target
    # end y has sums or an emission, and has not been created yet.
    columns: NDArray[np.uint64]
    # float64[m + 1, m + 1]: inside sum of each target span without source words.
    nulls: NDArray[np.float64]
    # Weights of the surviving emissions. Its other fields are unused.
    emissions: RuleWeights
    # float64[n + m]: scale factor of each word.
    scale: NDArray[np.float64]
    viability: Viability
    current: CurrentCells
    powers: Powers
    drawn: SampledDerivation
    # int64[3]: see `CELLS`, `COMBINATIONS` and `LIMIT`.
    registers: NDArray[np.int64]


def make_chart(n: int, m: int, exponent: float, longest_phrase: int) -> SparseChart:
    """Allocate a chart for up to n source and m target words. `exponent` is 1/a - 1 of the slices."""
    capacity = INITIAL_CELLS
    spans, words = (n + 1) * (n + 2) // 2, (m >> 6) + 1
    max_nodes = 2 * (n + m)
    return SparseChart(
        np.zeros(capacity, np.int16),
        np.zeros(capacity),
        np.zeros((spans, m + 1, 2), np.int32),
        np.zeros((capacity, 2), np.int16),
        np.zeros((n + 1, m + 2, 2), np.int32),
        np.zeros(capacity),
        np.zeros(capacity, np.int32),
        np.zeros(capacity),
        np.zeros((capacity, 2), np.int16),
        np.zeros((2, n * (m + 1) ** 2)),
        np.zeros((n * (m + 1), words), np.uint64),
        np.zeros((m + 1, m + 1)),
        make_weights(n, m, longest_phrase),
        np.zeros(n + m),
        Viability(*(np.zeros((*size, 2), np.int16) for size in ((n,), (m,), (m + 1, m + 1), (n + 1, n + 1)))),
        CurrentCells(np.zeros(spans, np.int32), np.zeros(max_nodes, np.int32), np.zeros(max_nodes, NODE)),
        make_powers(exponent),
        make_sampled_derivation(n, m),
        np.array([0, 0, MAX_COMBINATIONS]),
    )


def larger_chart(chart: SparseChart) -> SparseChart:
    """Return a chart of twice the capacity in cells, to retry a visit that returned `NO_ROOM`."""
    names = "column", "inside", "begin", "ending_sums", "ending_corners", "starting_sums", "starting_ends"
    arrays = ((name, getattr(chart, name)) for name in names)
    larger: dict[str, Any] = {name: np.zeros((2 * len(old), *old.shape[1:]), old.dtype) for name, old in arrays}
    return chart._replace(**larger)


@njit_inline
def _bitset_word(x):
    return x >> 6


@njit_inline
def _bitset_bit(x):
    return _ONE << np.uint64(x & 63)


@njit_inline
def _cell_range(chart, span, x):
    return np.int64(chart.rows[span, x, 0]), np.int64(chart.rows[span, x, 1])


MAX_CELLS = 1 << 22
"""Maximum number of cells. A larger chart is given up, to limit the memory per pair."""
GIVEN_UP, NO_ROOM = -1, -2
"""Failures of a visit, instead of the length of a drawn derivation.

`GIVEN_UP`: the total weight is 0 or infinite, or a limit is exceeded (`MAX_CELLS`, `LIMIT`). `NO_ROOM`: the chart is
too small, see `larger_chart`.
"""

CELLS, COMBINATIONS, LIMIT = 0, 1, 2
"""Indices of `SparseChart.registers`: cells, combinations of two cells, and limit of combinations."""


@njit_inline
def _centering_factor(null, pairs):
    least = greatest = null * null
    for p in pairs:
        if p > 0.0:
            greatest = max(greatest, p)
            least = p if least == 0.0 else min(least, p)
    return (least * greatest) ** -0.25 if least > 0.0 else 1.0


@njit
def _sum_nulls(chart, slices):
    """Compute the sums of target spans without source words, which are the same at all source positions."""
    m = slices.width
    weight = slices.straight + slices.inverted
    nulls = chart.nulls
    for size in range(m + 1):
        for x in range(m + 1 - size):
            y = x + size
            total = chart.emissions.target_nulls[x] if size == 1 else 0.0
            if size > 1 and nulls[x, y - 1] > 0.0 and nulls[x + 1, y] > 0.0:
                for z in range(x + 1, y):
                    total += weight * nulls[x, z] * nulls[z, y]
            nulls[x, y] = total


@njit_inline
def _join(chart, i, x, y, value, size):
    """Add the products of a new cell [i, j) by [x, y) and adjacent cells to `sums`. Returns their number."""
    width, corners = size
    word, bit = _bitset_word(y), _bitset_bit(y)
    offset = y * corners
    first, last = np.int64(chart.lists[i, x, STRAIGHT]), np.int64(chart.lists[i, x + 1, STRAIGHT])
    for at in range(first, last):
        corner = np.int64(chart.ending_corners[at])
        chart.sums[STRAIGHT, offset + corner] += chart.ending_sums[at] * value
        chart.columns[corner, word] |= bit
    work = last - first
    first, last = np.int64(chart.lists[i, y, INVERTED]), np.int64(chart.lists[i, y + 1, INVERTED])
    offset = x * corners
    for at in range(first, last):
        row, end = np.int64(chart.starting_ends[at, 0]) * width, np.int64(chart.starting_ends[at, 1])
        chart.sums[INVERTED, offset + row + end] += chart.starting_sums[at] * value
        chart.columns[row + x, _bitset_word(end)] |= _bitset_bit(end)
    return work + last - first


@njit_inline
def _join_nulls(chart, i, x, y, value, size):
    width, corners = size
    row = i * width
    for z in range(x - 1, -1, -1):
        nulls = chart.nulls[z, x]
        if nulls == 0.0:
            break
        chart.sums[STRAIGHT, y * corners + row + z] += nulls * value
        chart.sums[INVERTED, z * corners + row + y] += nulls * value
        chart.columns[row + z, _bitset_word(y)] |= _bitset_bit(y)
    for z in range(y + 1, width):
        nulls = chart.nulls[y, z]
        if nulls == 0.0:
            break
        chart.sums[STRAIGHT, z * corners + row + x] += value * nulls
        chart.sums[INVERTED, x * corners + row + z] += value * nulls
        chart.columns[row + x, _bitset_word(z)] |= _bitset_bit(z)


@njit_inline
def _mark_emissions(chart, i, m):
    longest = chart.emissions.size[2]
    if chart.emissions.source_nulls[i] > 0.0:
        for x in range(m + 1):
            chart.columns[i * (m + 1) + x, _bitset_word(x)] |= _bitset_bit(x)
    for s in range(1, min(longest, i + 1) + 1):
        for x in range(m):
            corner = (i + 1 - s) * (m + 1) + x
            for t in range(1, min(longest, m - x) + 1):
                if phrase_weight(chart.emissions, i + 1 - s, x, s, t) > 0.0:
                    chart.columns[corner, _bitset_word(x + t)] |= _bitset_bit(x + t)


@njit_inline
def _list_cells(chart, j, first, width):
    last = chart.registers[CELLS]
    lists = chart.lists
    lists[j, : width + 1] = 0
    for at in range(first, last):
        lists[j, np.int64(chart.column[at]), STRAIGHT] += 1
        lists[j, np.int64(chart.begin[at, 1]), INVERTED] += 1
    straight = inverted = first
    for x in range(width + 1):
        straight += lists[j, x, STRAIGHT]
        inverted += lists[j, x, INVERTED]
        lists[j, x, STRAIGHT], lists[j, x, INVERTED] = straight, inverted
    # Fill each list from its end, so that the newest cell is first.
    for at in range(first, last):
        i, x, y = np.int64(chart.begin[at, 0]), np.int64(chart.begin[at, 1]), np.int64(chart.column[at])
        lists[j, y, STRAIGHT] -= 1
        lists[j, x, INVERTED] -= 1
        entry = np.int64(lists[j, y, STRAIGHT])
        chart.ending_sums[entry], chart.ending_corners[entry] = chart.inside[at], i * width + x
        entry = np.int64(lists[j, x, INVERTED])
        chart.starting_sums[entry] = chart.inside[at]
        chart.starting_ends[entry, 0], chart.starting_ends[entry, 1] = i, y


@njit_inline
def _make_row(chart, slices, i, j, x):
    width = slices.width + 1
    corners = slices.height * width
    corner = i * width + x
    at = chart.registers[CELLS]
    for word in range(_bitset_word(slices.width) + 1):
        # Reread the bits after each cell, since `_join_nulls` may add cells to this row.
        while chart.columns[corner, word]:
            y = (word << 6) + lowest_bit(chart.columns[corner, word])
            chart.columns[corner, word] &= chart.columns[corner, word] - _ONE
            by_end, by_beginning = y * corners + corner, x * corners + i * width + y
            straight, inverted = chart.sums[STRAIGHT, by_end], chart.sums[INVERTED, by_beginning]
            chart.sums[STRAIGHT, by_end] = chart.sums[INVERTED, by_beginning] = 0.0
            if _is_viable(chart.viability, i, j, x, y):
                value = emission(chart.emissions, i, j, x, y)[1]
                if straight + inverted > 0.0:
                    by_straight, by_inverted = _rule_weights(slices, i, j, x, y)
                    value += by_straight * straight + by_inverted * inverted
                if value > 0.0:
                    chart.column[at], chart.inside[at] = y, value
                    chart.begin[at, 0], chart.begin[at, 1] = i, x
                    chart.registers[COMBINATIONS] += _join(chart, i, x, y, value, (width, corners))
                    _join_nulls(chart, i, x, y, value, (width, corners))
                    at += 1
    return at


@njit_inline
def _marked_row(columns, first, x, words):
    """Return the last target start <= x with a set bit in `columns`, or -1. Start 0 is row `first`."""
    if words == 1:
        while x >= 0 and columns[first + x, 0] == np.uint64(0):
            x -= 1
        return x
    while x >= 0:
        for word in range(words):
            if columns[first + x, word] != np.uint64(0):
                return x
        x -= 1
    return x


@njit_inline
def _make_span(chart, slices, i, j):
    """Create the cells of source span [i, j). Returns False if the chart lacks room or exceeds `LIMIT`."""
    m, span = slices.width, _span_index(i, j)
    words = _bitset_word(m) + 1
    chart.rows[span, : m + 1] = 0
    x = m + 1
    while True:
        x = _marked_row(chart.columns, i * (m + 1), x - 1, words)
        if x < 0:
            break
        first = chart.registers[CELLS]
        if first + m + 1 > len(chart.inside):
            return False
        last = _make_row(chart, slices, i, j, x)
        if first < last:
            chart.rows[span, x, 0], chart.rows[span, x, 1] = first, last
            chart.registers[CELLS] = last
    return chart.registers[COMBINATIONS] <= chart.registers[LIMIT]


@njit
def sum_inside(chart, slices):
    """Compute the inside sums of all cells. Returns False if the chart lacks room or exceeds `LIMIT`."""
    n, m = slices.height, slices.width
    _sum_nulls(chart, slices)
    chart.registers[CELLS] = chart.registers[COMBINATIONS] = 0
    chart.lists[0, : m + 2] = 0
    for j in range(1, n + 1):
        first = chart.registers[CELLS]
        _mark_emissions(chart, j - 1, m)
        for i in range(j - 1, -1, -1):
            if not _make_span(chart, slices, i, j):
                chart.sums[:] = 0.0
                chart.columns[:] = np.uint64(0)
                return False
        _list_cells(chart, j, first, m + 1)
    return True


@njit
def _inside(chart, i, j, x, y):
    if x > y:
        return 0.0
    if i == j:
        return chart.nulls[x, y]
    at, end = _cell_range(chart, _span_index(i, j), x)
    while at < end and chart.column[at] < y:
        at += 1
    return chart.inside[at] if at < end and chart.column[at] == y else 0.0


@njit
def _split(sliced_chart, cell, u):
    """Return the same values as `charts.split_cell`. `sliced_chart` is (chart, slices)."""
    chart, slices = sliced_chart
    i, j, x, y = cell
    leaf, weight = emission(chart.emissions, i, j, x, y)
    best = (leaf, i, x)
    left = u * _inside(chart, i, j, x, y) - weight
    if left < 0.0:
        return best
    straight, inverted = _rule_weights(slices, i, j, x, y)
    for rule in (STRAIGHT, INVERTED):
        weight = straight if rule == STRAIGHT else inverted
        if weight == 0.0:
            continue
        for k in range(i, j + 1):
            # Search only cells of the child that begins at x, since these cells are in one row.
            low, high = (i, k) if rule == STRAIGHT else (k, j)
            here, end = _cell_range(chart, _span_index(low, high), x) if low < high else (x, y + 1)
            while here < end:
                z = np.int64(chart.column[here]) if low < high else here
                if z > y:
                    break
                share = chart.inside[here] if low < high else chart.nulls[x, z]
                if share > 0.0:
                    share *= _inside(chart, k, j, z, y) if rule == STRAIGHT else _inside(chart, i, k, z, y)
                if share > 0.0:
                    best = (rule, k, z)
                    left -= weight * share
                    if left < 0.0:
                        return best
                here += 1
    return best


@njit
def _parse(chart, slices):
    """Draw a derivation from `chart.emissions` into `chart.drawn`. Returns its length or a failure."""
    n, m = slices.height, slices.width
    emissions, scale = chart.emissions, chart.scale
    find_required(chart.viability, emissions, n, m)
    # Scale emissions so that the range of each word's weights is centered on 1, which scales all derivations alike.
    for i in range(n):
        scale[i] = _centering_factor(emissions.source_nulls[i], emissions.pairs[i, :m, 0])
    for x in range(m):
        scale[n + x] = _centering_factor(emissions.target_nulls[x], emissions.pairs[:n, x, 0])
    scale_emissions(emissions, n, m, scale)
    if not sum_inside(chart, slices):
        too_large = chart.registers[COMBINATIONS] > chart.registers[LIMIT] or len(chart.inside) >= MAX_CELLS
        return GIVEN_UP if too_large else NO_ROOM
    if not 0.0 < _inside(chart, 0, n, 0, m) < np.inf:
        return GIVEN_UP
    length, _ = draw_derivation(_split, (chart, slices), (n, m), slices.key + GOLDEN, chart.drawn)
    return length


@njit
def draw_by_slices(chart, weights, shape, nodes, length, key):
    """Draw slice variables given the current derivation, then a derivation given the slice variables.

    `weights` are the frozen weights of all rules, `shape` is a, and `nodes[:length]` are the nodes of the current
    derivation. `key` is the state of the visit's random stream. Returns the length of the derivation in `chart.drawn`,
    `GIVEN_UP` or `NO_ROOM`. Failures depend only on the slice variables, so keeping the current derivation leaves the
    posterior invariant.
    """
    n, m = np.int64(nodes[0]["j"]), np.int64(nodes[0]["y"])
    straight, inverted = weights.rules[STRAIGHT], weights.rules[INVERTED]
    current = CurrentCells(chart.current.first, chart.current.next, nodes)
    slices = Slices(
        shape, chart.powers, key, n, m, straight, inverted, straight**shape, inverted**shape, current, weights
    )
    _mark_current(current, length, True)
    _weigh_emissions(chart.emissions, weights, n, m, key, _weight_outside, slices)
    _weigh_current_emissions(chart.emissions, slices, length)
    drawn = _parse(chart, slices)
    _mark_current(current, length, False)
    return drawn


@njit
def draw_by_flat_slices(chart, weights, shape, nodes, length, key):
    """Draw a derivation like `draw_by_slices`, but with flat slice variables, of emissions only."""
    _weigh_flat_emissions(chart.emissions, weights, shape, nodes, length, key)
    return draw_from_emissions(chart, weights, np.int64(nodes[0]["j"]), np.int64(nodes[0]["y"]), key)


@njit
def draw_from_emissions(chart, weights, n, m, key):
    """Draw a derivation from the emissions of `chart` and unsliced rules, like `draw_by_slices`."""
    straight, inverted = weights.rules[STRAIGHT], weights.rules[INVERTED]
    slices = Slices(UNSLICED, chart.powers, key, n, m, straight, inverted, 1.0, 1.0, chart.current, weights)
    return _parse(chart, slices)
