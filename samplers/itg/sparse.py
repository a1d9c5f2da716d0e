"""The chart of a visit by slices: inside sums of those cells alone whose children live, and draws from them [BC10 §2].

A cell is made when all its splits are known: cells of shorter source spans come first, then longer ones; within a
source span rows come from the last target position on, and a row's cells from the shortest on. The cells of a source
span are rows of a sparse matrix, and the sum over a split is a product of two such matrices [Klein & Manning 2004].
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import GOLDEN, advance, uniform
from hierogram.samplers.itg.cells import row_of
from hierogram.samplers.itg.derivations import INVERTED, PAIR, SOURCE_NULL, STRAIGHT, TARGET_NULL
from hierogram.samplers.itg.model import copy_emissions
from hierogram.samplers.itg.slices import (
    UNSLICED,
    Own,
    Slices,
    cut_emissions,
    enter_own,
    rule_weights,
    span_of,
)
from hierogram.samplers.itg.viability import find_required, is_viable

MOST_CELLS = 1 << 22
"""A chart with more cells is given up, and the pair's derivation stays for this visit: what a pair takes is bounded."""
MOST_COMBINATIONS = 1 << 29
"""As `MOST_CELLS`: for pairs of cells that are put together."""

GIVEN_UP, NO_ROOM = -1, -2
"""What a draw returns instead of a length."""

CELLS, COMBINATIONS = 0, 1
"""Registers of a chart."""


@njit
def _level(emissions, n, m, scale):
    """Scale what lives, word by word, so that each word's least and greatest weight lie about 1: sums stay finite.

    Every derivation has each word once, so all are scaled alike.
    """
    for i in range(n):
        least = greatest = emissions.source_nulls[i] * emissions.source_nulls[i]
        for x in range(m):
            if emissions.pairs[i, x] > 0.0:
                greatest = max(greatest, emissions.pairs[i, x])
                least = emissions.pairs[i, x] if least == 0.0 else min(least, emissions.pairs[i, x])
        scale[i] = (least * greatest) ** -0.25 if least > 0.0 else 1.0
    for x in range(m):
        least = greatest = emissions.target_nulls[x] * emissions.target_nulls[x]
        for i in range(n):
            if emissions.pairs[i, x] > 0.0:
                greatest = max(greatest, emissions.pairs[i, x])
                least = emissions.pairs[i, x] if least == 0.0 else min(least, emissions.pairs[i, x])
        scale[n + x] = (least * greatest) ** -0.25 if least > 0.0 else 1.0
    for i in range(n):
        emissions.source_nulls[i] *= scale[i]
        for x in range(m):
            emissions.pairs[i, x] *= scale[i] * scale[n + x]
    for x in range(m):
        emissions.target_nulls[x] *= scale[n + x]


@njit
def _sum_nulls(chart, slices):
    """Fill the sums of target spans without source words: they are the same between any two source words."""
    m = slices.width
    weight = slices.straight + slices.inverted
    for size in range(m + 1):
        for x in range(m + 1 - size):
            y = x + size
            total = chart.emissions.target_nulls[x] if size == 1 else 0.0
            for z in range(x + 1, y):
                total += weight * chart.nulls[x, z] * chart.nulls[z, y]
            chart.nulls[x, y] = total


@njit_inline
def _touch(chart, x, low, high):
    """Widen the columns of a row that are not 0."""
    chart.touched[x, 0] = min(chart.touched[x, 0], low)
    chart.touched[x, 1] = max(chart.touched[x, 1], high)


@njit
def _find_limits(chart, i, j, m):
    """Fill the limits of a source span: the further on a cell begins, the further on it may end; the least target end.

    What lies beyond has no place in a derivation; see `hierogram.samplers.itg.viability`.
    """
    within = chart.viability.in_target
    y = m
    for x in range(m, -1, -1):
        while y >= x and (within[x, y, 0] < i or within[x, y, 1] >= j):
            y -= 1
        chart.limit[x] = y
    return np.int64(chart.viability.in_source[i, j, 1]) + 1


@njit
def _multiply(chart, left, right, m, to, ends):
    """Add the product of the matrices of two source spans, as far as a derivation may use it; how many products.

    `ends` are the last row and the least column.
    """
    work = 0
    last, least = ends
    for x in range(np.int64(chart.rows[left, 0]), min(np.int64(chart.rows[left, 1]), last) + 1):
        limit = np.int64(chart.limit[x])
        if limit < least:
            continue
        here, end = row_of(chart, left, x, m)
        while here < end and chart.column[here] <= limit:
            value = chart.inside[here]
            first, stop = row_of(chart, right, np.int64(chart.column[here]), m)
            while first < stop and chart.column[first] < least:
                first += 1
            at = first
            while at < stop and chart.column[at] <= limit:
                to[x, chart.column[at]] += value * chart.inside[at]
                at += 1
            if first < at:
                _touch(chart, x, chart.column[first], chart.column[at - 1])
                work += at - first
            here += 1
    return work


@njit
def _spread_nulls(chart, x, y, value, m):
    """Add what a cell makes together with target nulls beside it, to the rows that come later in its source span."""
    for z in range(x - 1, -1, -1):
        nulls = chart.nulls[z, x]
        if nulls == 0.0:
            break
        chart.straight[z, y] += nulls * value
        chart.inverted[z, y] += nulls * value
        _touch(chart, z, y, y)
    for z in range(y + 1, m + 1):
        nulls = chart.nulls[y, z]
        if nulls == 0.0:
            break
        chart.straight[x, z] += value * nulls
        chart.inverted[x, z] += value * nulls
        _touch(chart, x, z, z)


@njit_inline
def _emission(chart, i, j, x, y):
    """The weight of the emission of a cell with source words, 0 for none."""
    if j - i != 1 or y - x > 1:
        return 0.0
    return chart.emissions.source_nulls[i] if x == y else chart.emissions.pairs[i, x]


@njit
def _make_row(chart, slices, i, j, x):
    """Make the cells of a source span that begin at a target position; whether there was room."""
    m = slices.width
    first = x
    if j - i > 1:
        first = max(first, np.int64(chart.touched[x, 0]))
    at = chart.registers[CELLS]
    if at + m + 1 > len(chart.inside):
        return False
    y = first
    # Cells on the way may widen the row.
    while y <= max(np.int64(chart.touched[x, 1]), min(x + 1, m) if j - i == 1 else -1):
        straight, inverted = chart.straight[x, y], chart.inverted[x, y]
        chart.straight[x, y] = chart.inverted[x, y] = 0.0
        value = _emission(chart, i, j, x, y)
        if (straight + inverted + value > 0.0) and is_viable(chart.viability, i, j, x, y):
            if straight + inverted > 0.0:
                by_straight, by_inverted = rule_weights(slices, i, j, x, y)
                value += by_straight * straight + by_inverted * inverted
            if value > 0.0:
                chart.column[at], chart.inside[at] = y, value
                at += 1
                _spread_nulls(chart, x, y, value, m)
        y += 1
    chart.registers[CELLS] = at
    return True


@njit
def sum_inside(chart, slices):
    """Fill the sums of all cells that live, those of shorter source spans first; whether there was room."""
    n, m = slices.height, slices.width
    _sum_nulls(chart, slices)
    chart.registers[CELLS] = chart.registers[COMBINATIONS] = 0
    for x in range(m + 1):
        chart.touched[x, 0], chart.touched[x, 1] = m + 1, -1
        for y in range(m + 1):
            chart.straight[x, y] = chart.inverted[x, y] = 0.0
    for size in range(1, n + 1):
        for i in range(n + 1 - size):
            j = i + size
            # Words that must be linked within the source span lie in all its cells.
            last = np.int64(min(chart.viability.in_source[i, j, 0], m))
            ends = last, _find_limits(chart, i, j, m)
            for k in range(i + 1, j):
                left, right = span_of(i, k), span_of(k, j)
                if chart.rows[left, 1] >= 0 and chart.rows[right, 1] >= 0:
                    work = _multiply(chart, left, right, m, chart.straight, ends)
                    work += _multiply(chart, right, left, m, chart.inverted, ends)
                    chart.registers[COMBINATIONS] += work
            span = span_of(i, j)
            chart.rows[span, 0], chart.rows[span, 1] = m + 1, -1
            for x in range(m, -1, -1):
                chart.begins[span, m - x] = before = chart.registers[CELLS]
                if x <= last and not _make_row(chart, slices, i, j, x):
                    return False
                if chart.registers[CELLS] > before:
                    chart.rows[span, 0], chart.rows[span, 1] = x, max(np.int64(chart.rows[span, 1]), x)
                chart.touched[x, 0], chart.touched[x, 1] = m + 1, -1
            chart.begins[span, m + 1] = chart.registers[CELLS]
            if chart.registers[COMBINATIONS] > MOST_COMBINATIONS:
                return False
    return True


@njit
def _inside(chart, i, j, x, y, m):
    """The sum of a cell, 0 where there is none."""
    if x > y:
        return 0.0
    if i == j:
        return chart.nulls[x, y]
    at, end = row_of(chart, span_of(i, j), x, m)
    while at < end and chart.column[at] < y:
        at += 1
    return chart.inside[at] if at < end and chart.column[at] == y else 0.0


@njit
def _split(chart, slices, cell, random):
    """Draw the rule of a cell and where it is split: (rule, k, z).

    The order: the emission, then straight splits, then inverted ones, each by source and then target position.
    """
    i, j, x, y = cell
    m = slices.width
    left = uniform(random) * _inside(chart, i, j, x, y, m)
    best = (PAIR, i, x)
    if j - i <= 1 and y - x <= 1:
        emission = chart.emissions.target_nulls[x] if i == j else _emission(chart, i, j, x, y)
        best = (TARGET_NULL if i == j else (SOURCE_NULL if x == y else PAIR), i, x)
        left -= emission
        if left < 0.0:
            return best
    straight, inverted = rule_weights(slices, i, j, x, y)
    for rule in (STRAIGHT, INVERTED):
        weight = straight if rule == STRAIGHT else inverted
        if weight == 0.0:
            continue
        for k in range(i, j + 1):
            # The child that begins at x has its cells in a row: only those are looked at.
            low, high = (i, k) if rule == STRAIGHT else (k, j)
            here, end = row_of(chart, span_of(low, high), x, m) if low < high else (x, y + 1)
            while here < end:
                z = np.int64(chart.column[here]) if low < high else here
                if z > y:
                    break
                share = chart.inside[here] if low < high else chart.nulls[x, z]
                if share > 0.0:
                    share *= _inside(chart, k, j, z, y, m) if rule == STRAIGHT else _inside(chart, i, k, z, y, m)
                if share > 0.0:
                    best = (rule, k, z)
                    left -= weight * share
                    if left < 0.0:
                        return best
                here += 1
    return best


@njit
def _draw(chart, slices):
    """Draw a derivation top-down; its length."""
    random = slices.key + GOLDEN
    stack = chart.stack
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, slices.height, 0, slices.width
    depth, length = 1, 0
    while depth > 0:
        depth -= 1
        i, j = np.int64(stack[depth, 0]), np.int64(stack[depth, 1])
        x, y = np.int64(stack[depth, 2]), np.int64(stack[depth, 3])
        random = advance(random)
        rule, k, z = _split(chart, slices, (i, j, x, y), random)
        chart.rules[length] = rule
        length += 1
        if rule in (STRAIGHT, INVERTED):
            low, high = (z, y) if rule == STRAIGHT else (x, z)
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = k, j, low, high
            low, high = (x, z) if rule == STRAIGHT else (z, y)
            depth += 1
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = i, k, low, high
            depth += 1
    return length


@njit
def _parse(chart, slices):
    """Draw a derivation from the emissions that live; as `draw_by_slices`, 0 where there is none."""
    n, m = slices.height, slices.width
    find_required(chart.viability, chart.emissions, n, m)
    _level(chart.emissions, n, m, chart.scale)
    if not sum_inside(chart, slices):
        tired = chart.registers[COMBINATIONS] > MOST_COMBINATIONS or len(chart.inside) >= MOST_CELLS
        return GIVEN_UP if tired else NO_ROOM
    total = _inside(chart, 0, n, 0, m, m)
    return _draw(chart, slices) if 0.0 < total < np.inf else 0


@njit
def draw_by_slices(chart, weights, shape, nodes, length, key):
    """Draw a derivation given slice variables, and those given the present one, into `chart.rules`; its length.

    `NO_ROOM` where a larger chart may do, `GIVEN_UP` where the chart is too large altogether or its sum is beyond all
    numbers. That follows from the slice variables alone, so to keep the derivation leaves the posterior as it is.
    """
    n, m = np.int64(nodes[0]["j"]), np.int64(nodes[0]["y"])
    straight, inverted = weights.rules[STRAIGHT], weights.rules[INVERTED]
    own = Own(chart.own.first, chart.own.next, nodes)
    slices = Slices(shape, key, n, m, straight, inverted, straight**shape, inverted**shape, own, weights.pairs)
    enter_own(own, nodes, length, True)
    cut_emissions(chart.emissions, slices, weights, length)
    drawn = _parse(chart, slices)
    enter_own(own, nodes, length, False)
    return drawn if drawn != 0 else GIVEN_UP


@njit
def draw_from_emissions(chart, weights, n, m, key):
    """As `draw_by_slices`, from all derivations of the emissions whose weights are above 0; 0 where there are none.

    `weights` are those of n source and m target words, and of the rules with children.
    """
    copy_emissions(weights, chart.emissions, n, m)
    straight, inverted = weights.rules[STRAIGHT], weights.rules[INVERTED]
    slices = Slices(UNSLICED, key, n, m, straight, inverted, 1.0, 1.0, chart.own, weights.pairs)
    return _parse(chart, slices)
