"""The memory of a chart whose cells are sparse."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.itg.derivations import NODE
from hierogram.samplers.itg.slices import Emissions, Own
from hierogram.samplers.itg.viability import Viability, make_viability

_ONE = np.uint64(1)

SMALLEST = 1 << 13
"""Cells that a chart has room for at first."""


class SparseChart(NamedTuple):
    """Scratch memory of one visit.

    The cells are numbered as they are made. `column` int16[capacity] and `inside` float64[capacity] are their target
    ends and sums; those of the source span number s and target position x are `rows[s, x, 0]` to `rows[s, x, 1]`,
    int32[spans, m + 1, 2], by their target end, where bit x is set in `has_row` uint64[spans, words].
    Cells that end at a source position are listed twice, for what stands right of them: by their target end and by
    their target beginning. `first` int32[n + 1, m + 1, 2] are the lists' first cells, -1 for none. `ending`
    int32[capacity, 2] holds a cell's corner, i (m + 1) + x, and the next cell of the first list, `starting`
    int32[capacity, 3] its source beginning, its target end, and the next of the second.
    Of the source spans that end at the position at hand, `sums` float64[n (m + 1)², 2] add up straight and inverted
    splits, by corner (m + 1) + y; the bits of `columns` uint64[n (m + 1), words] say of each corner which are not 0.
    `nulls` float64[m + 1, m + 1] are the sums of target spans without source words. `scale` float64[n + m] levels out
    emissions. `rules` uint8, `stack` int32[…, 4]: the new derivation. `registers` int64[2].
    """

    column: NDArray[np.int16]
    inside: NDArray[np.float64]
    rows: NDArray[np.int32]
    has_row: NDArray[np.uint64]
    first: NDArray[np.int32]
    ending: NDArray[np.int32]
    starting: NDArray[np.int32]
    sums: NDArray[np.float64]
    columns: NDArray[np.uint64]
    nulls: NDArray[np.float64]
    emissions: Emissions
    scale: NDArray[np.float64]
    viability: Viability
    own: Own
    rules: NDArray[np.uint8]
    stack: NDArray[np.int32]
    registers: NDArray[np.int64]


def make_chart(longest_source: int, longest_target: int, capacity: int = SMALLEST) -> SparseChart:
    """Scratch memory for pairs of so many words, with room for so many cells."""
    n, m = longest_source, longest_target
    spans, words = (n + 1) * (n + 2) // 2, (m >> 6) + 1
    most = 2 * (n + m)
    return SparseChart(
        np.zeros(capacity, np.int16),
        np.zeros(capacity),
        np.zeros((spans, m + 1, 2), np.int32),
        np.zeros((spans, words), np.uint64),
        np.zeros((n + 1, m + 1, 2), np.int32),
        np.zeros((capacity, 2), np.int32),
        np.zeros((capacity, 3), np.int32),
        np.zeros((n * (m + 1) ** 2, 2)),
        np.zeros((n * (m + 1), words), np.uint64),
        np.zeros((m + 1, m + 1)),
        Emissions(np.zeros((n, m)), np.zeros(n), np.zeros(m)),
        np.zeros(n + m),
        make_viability(n, m),
        Own(np.zeros(spans, np.int32), np.zeros(most, np.int32), np.zeros(most, NODE)),
        np.zeros(most, np.uint8),
        np.zeros((most, 4), np.int32),
        np.zeros(2, np.int64),
    )


def larger_chart(chart: SparseChart) -> SparseChart:
    """The same with twice the room for cells."""
    capacity = 2 * len(chart.inside)
    return chart._replace(
        column=np.zeros(capacity, np.int16),
        inside=np.zeros(capacity),
        ending=np.zeros((capacity, 2), np.int32),
        starting=np.zeros((capacity, 3), np.int32),
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
