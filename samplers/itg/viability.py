"""Which cells can be part of a whole derivation, told from the emissions that live, before any cell is made.

A word whose null emission is pruned must be linked to one of the words that it can be linked to. Where all of those
lie within a cell's span and the word itself beyond the cell, no derivation has that cell.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline


class Viability(NamedTuple):
    """`source` int16[n, 2] and `target` int16[m, 2] hold, of each word that must be linked, the first and last word
    that it can be linked to. `in_target` int16[m+1, m+1, 2] holds the first and last source word that must be linked
    within a target span (n and -1 for none), `in_source` int16[n+1, n+1, 2] the first and last target word within a
    source span.
    """

    source: NDArray[np.int16]
    target: NDArray[np.int16]
    in_target: NDArray[np.int16]
    in_source: NDArray[np.int16]


def make_viability(longest_source: int, longest_target: int) -> Viability:
    """Room for pairs of so many words."""
    n, m = longest_source, longest_target
    return Viability(
        np.zeros((n, 2), np.int16),
        np.zeros((m, 2), np.int16),
        np.zeros((m + 1, m + 1, 2), np.int16),
        np.zeros((n + 1, n + 1, 2), np.int16),
    )


@njit
def _spread(within, spans, length, other):
    """From the spans that words must be linked within, to the first and last such word of every span.

    `within` [length + 1, length + 1, 2] is that of the side with `length` words; `spans` those of `other` words.
    """
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
    """Find which words must be linked within which spans; of `emissions`, those above 0 live."""
    for i in range(n):
        to.source[i, 0], to.source[i, 1] = m, -1
    for x in range(m):
        to.target[x, 0], to.target[x, 1] = n, -1
    for i in range(n):
        for x in range(m):
            if emissions.pairs[i, x] > 0.0:
                to.source[i, 0] = min(to.source[i, 0], x)
                to.source[i, 1] = x
                to.target[x, 0] = min(to.target[x, 0], i)
                to.target[x, 1] = i
    for i in range(n):
        if emissions.source_nulls[i] > 0.0:
            to.source[i, 0], to.source[i, 1] = m, -1
    for x in range(m):
        if emissions.target_nulls[x] > 0.0:
            to.target[x, 0], to.target[x, 1] = n, -1
    _spread(to.in_target, to.source, m, n)
    _spread(to.in_source, to.target, n, m)


@njit_inline
def is_viable(of, i, j, x, y):
    """Whether all words beyond the cell that must be linked can be linked beyond it."""
    return (
        of.in_target[x, y, 0] >= i
        and of.in_target[x, y, 1] < j
        and of.in_source[i, j, 0] >= x
        and of.in_source[i, j, 1] < y
    )
