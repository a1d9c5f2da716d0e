"""The memory of a chart whose cells are sparse."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.itg.derivations import NODE
from hierogram.samplers.itg.slices import Emissions, Own
from hierogram.samplers.itg.viability import Viability, make_viability

SMALLEST = 1 << 13
"""Cells that a chart has room for at first."""


class SparseChart(NamedTuple):
    """Scratch memory of one visit.

    `column` int16[capacity] and `inside` float64[capacity] are the cells: those of the source span number s and target
    position x are numbers `begins[s, m - x]` to `begins[s, m - x + 1]`, int32[spans, m + 2], by their target end; its
    cells begin at target positions `rows[s, 0]` to `rows[s, 1]`, int16[spans, 2]. `limit` int16[m + 1] is the last
    target end with which a cell of the source span at hand can be part of a derivation, by its first target position.
    `nulls` float64[m + 1, m + 1] are the sums of target spans without source words. `straight` and `inverted`
    float64[m + 1, m + 1] add up a source span's splits, `touched` int16[m + 1, 2] the first and last column in each
    row. `scale` float64[n + m] levels out emissions. `rules` uint8, `stack` int32[…, 4]: the new derivation.
    `registers` int64[2].
    """

    column: NDArray[np.int16]
    inside: NDArray[np.float64]
    begins: NDArray[np.int32]
    rows: NDArray[np.int16]
    limit: NDArray[np.int16]
    nulls: NDArray[np.float64]
    straight: NDArray[np.float64]
    inverted: NDArray[np.float64]
    touched: NDArray[np.int16]
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
    spans = (n + 1) * (n + 2) // 2
    most = 2 * (n + m)
    return SparseChart(
        np.zeros(capacity, np.int16),
        np.zeros(capacity),
        np.zeros((spans, m + 2), np.int32),
        np.zeros((spans, 2), np.int16),
        np.zeros(m + 1, np.int16),
        np.zeros((m + 1, m + 1)),
        np.zeros((m + 1, m + 1)),
        np.zeros((m + 1, m + 1)),
        np.zeros((m + 1, 2), np.int16),
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
    return chart._replace(column=np.zeros(capacity, np.int16), inside=np.zeros(capacity))


@njit_inline
def row_of(chart, span, x, m):
    """The cells of a source span that begin at a target position: first and last + 1."""
    return np.int64(chart.begins[span, m - x]), np.int64(chart.begins[span, m - x + 1])
