"""The memory of a chart whose cells are sparse."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.powers import Powers, make_powers
from hierogram.samplers.itg.derivations import NODE
from hierogram.samplers.itg.slices import Emissions, Own
from hierogram.samplers.itg.viability import Viability, make_viability

_ONE = np.uint64(1)

MOST_COMBINATIONS = 1 << 29
"""A chart is given up when more pairs of cells are put together: so much time does a pair take at most, seconds."""
SMALLEST = 1 << 13
"""Cells that a chart has room for at first."""


class SparseChart(NamedTuple):
    """Scratch memory of one visit.

    The cells are numbered as they are made. `column` int16[capacity] and `inside` float64[capacity] are their target
    ends and sums; those of the source span number s and target position x are `rows[s, x, 0]` to `rows[s, x, 1]`,
    int32[spans, m + 1, 2], by their target end, where bit x is set in `has_row` uint64[spans, words].
    Cells that end at a source position are listed twice, for what stands right of them: by their target end and by
    their target beginning, in each list the last one made first. `begin` int16[capacity, 2] holds where a cell begins
    on both sides. `lists` int32[n + 1, m + 2, 2] are the lists' first places; each ends where the next begins.
    `ending_sums` float64[capacity] and `ending_corners` int32[capacity] hold the sums and corners, i (m + 1) + x, of
    the cells of the first lists; `starting_sums` float64[capacity] and `starting_ends` int16[capacity, 2] the sums,
    source beginnings and target ends of those of the second.
    Of the source spans that end at the position at hand, `sums` float64[2, n (m + 1)²] add up straight splits, by
    y n (m + 1) + corner, and inverted ones, by x n (m + 1) + i (m + 1) + y: those that a new cell adds to lie near one
    another; the bits of `columns` uint64[n (m + 1), words] say of each corner which are not 0.
    `nulls` float64[m + 1, m + 1] are the sums of target spans without source words. `scale` float64[n + m] levels out
    emissions. `powers` are those of what cells weigh. `rules` uint8, `stack` int32[…, 4]: the new derivation.
    `registers` int64[3].
    """

    column: NDArray[np.int16]
    inside: NDArray[np.float64]
    rows: NDArray[np.int32]
    has_row: NDArray[np.uint64]
    begin: NDArray[np.int16]
    lists: NDArray[np.int32]
    ending_sums: NDArray[np.float64]
    ending_corners: NDArray[np.int32]
    starting_sums: NDArray[np.float64]
    starting_ends: NDArray[np.int16]
    sums: NDArray[np.float64]
    columns: NDArray[np.uint64]
    nulls: NDArray[np.float64]
    emissions: Emissions
    scale: NDArray[np.float64]
    viability: Viability
    own: Own
    powers: Powers
    rules: NDArray[np.uint8]
    stack: NDArray[np.int32]
    registers: NDArray[np.int64]


def make_chart(
    longest_source: int, longest_target: int, capacity: int = SMALLEST, exponent: float = 0.0
) -> SparseChart:
    """Scratch memory for pairs of so many words, with room for so many cells; `exponent` is 1/a - 1 of its slices."""
    n, m = longest_source, longest_target
    spans, words = (n + 1) * (n + 2) // 2, (m >> 6) + 1
    most = 2 * (n + m)
    return SparseChart(
        np.zeros(capacity, np.int16),
        np.zeros(capacity),
        np.zeros((spans, m + 1, 2), np.int32),
        np.zeros((spans, words), np.uint64),
        np.zeros((capacity, 2), np.int16),
        np.zeros((n + 1, m + 2, 2), np.int32),
        np.zeros(capacity),
        np.zeros(capacity, np.int32),
        np.zeros(capacity),
        np.zeros((capacity, 2), np.int16),
        np.zeros((2, n * (m + 1) ** 2)),
        np.zeros((n * (m + 1), words), np.uint64),
        np.zeros((m + 1, m + 1)),
        Emissions(np.zeros((n, m)), np.zeros(n), np.zeros(m)),
        np.zeros(n + m),
        make_viability(n, m),
        Own(np.zeros(spans, np.int32), np.zeros(most, np.int32), np.zeros(most, NODE)),
        make_powers(exponent),
        np.zeros(most, np.uint8),
        np.zeros((most, 4), np.int32),
        np.array([0, 0, MOST_COMBINATIONS]),
    )


def larger_chart(chart: SparseChart) -> SparseChart:
    """The same with twice the room for cells."""
    capacity = 2 * len(chart.inside)
    return chart._replace(
        column=np.zeros(capacity, np.int16),
        inside=np.zeros(capacity),
        begin=np.zeros((capacity, 2), np.int16),
        ending_sums=np.zeros(capacity),
        ending_corners=np.zeros(capacity, np.int32),
        starting_sums=np.zeros(capacity),
        starting_ends=np.zeros((capacity, 2), np.int16),
    )


@njit_inline
def word_of(x):
    """Which word of a set a target position's bit is in."""
    return x >> 6


@njit_inline
def bit_of(x):
    """The bit of a target position in its word."""
    return _ONE << np.uint64(x & 63)


@njit_inline
def row_of(chart, span, x):
    """The cells of a source span that begin at a target position: first and last + 1; none: both 0."""
    if chart.has_row[span, word_of(x)] & bit_of(x):
        return np.int64(chart.rows[span, x, 0]), np.int64(chart.rows[span, x, 1])
    return 0, 0
