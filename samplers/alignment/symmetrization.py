"""Symmetrization of both directions: intersection, union, and grow-diag (Koehn et al. 2003)."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.options import EXPECTED, POSTERIOR, SYMMETRIZATIONS
from hierogram.samplers.compiled.jit import njit, njit_inline

_INTERSECTION, _UNION, _GROW_DIAG, _GROW_DIAG_FINAL, _GROW_DIAG_FINAL_AND = range(5)
METHODS = {
    name: number for number, name in enumerate(name for name in SYMMETRIZATIONS if name not in (EXPECTED, POSTERIOR))
}
"""Numbers of the symmetrizations that need only links, from `_INTERSECTION` on, by name."""

_FORWARD, _BACKWARD, _SELECTED = 1, 2, 4
"""Bits of a cell: linked in the forward direction, linked in the backward direction, selected."""
_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class LinkList(NamedTuple):
    """Sorted links of P pairs, positions int16[L]: pair k has links `offset[k]` to `offset[k + 1]` - 1."""

    source: NDArray[np.int16]
    target: NDArray[np.int16]
    offset: NDArray[np.int64]


class LinkGrid(NamedTuple):
    """Scratch memory: cells (source, target) of a pair, row by row, and 1 for each unlinked word."""

    cells: NDArray[Any]
    source_free: NDArray[np.uint8]
    target_free: NDArray[np.uint8]


def allocate_links(
    max_links: int, source_offset: NDArray[np.int64], target_offset: NDArray[np.int64], dtype: type[Any]
) -> tuple[LinkList, LinkGrid]:
    """Allocate a list of up to `max_links` links, and a grid of `dtype` for the largest pair."""
    heights, widths = np.diff(source_offset), np.diff(target_offset)
    links = LinkList(
        np.zeros(max_links, np.int16), np.zeros(max_links, np.int16), np.zeros(len(source_offset), np.int64)
    )
    return links, LinkGrid(
        np.zeros(int((heights * widths).max(initial=0)), dtype),
        np.zeros(int(heights.max(initial=0)), np.uint8),
        np.zeros(int(widths.max(initial=0)), np.uint8),
    )


@njit_inline
def _select(s, t, width, grid):
    grid.cells[s * width + t] |= _SELECTED
    grid.source_free[s] = 0
    grid.target_free[t] = 0


@njit_inline
def _grow(height, width, grid):
    grown = True
    while grown:
        grown = False
        for s in range(height):
            for t in range(width):
                if not grid.cells[s * width + t] & _SELECTED:
                    continue
                for step in _NEIGHBORS:
                    y, x = s + step[0], t + step[1]
                    if y < 0 or x < 0 or y >= height or x >= width or not (grid.source_free[y] or grid.target_free[x]):
                        continue
                    cell = grid.cells[y * width + x]
                    if cell != 0 and not cell & _SELECTED:
                        _select(y, x, width, grid)
                        grown = True


@njit_inline
def _add_final_links(direction, both_free, height, width, grid):
    for s in range(height):
        for t in range(width):
            cell = grid.cells[s * width + t]
            if not cell & direction or cell & _SELECTED:
                continue
            source_is_free, target_is_free = grid.source_free[s], grid.target_free[t]
            if (source_is_free and target_is_free) if both_free else (source_is_free or target_is_free):
                _select(s, t, width, grid)


@njit
def _symmetrize(method, forward, backward, source_offset, target_offset, grid, links):
    written = 0
    for pair in range(len(source_offset) - 1):
        s_start, t_start = source_offset[pair], target_offset[pair]
        height, width = source_offset[pair + 1] - s_start, target_offset[pair + 1] - t_start
        grid.cells[: height * width] = 0
        for s in range(height):
            grid.source_free[s] = 1
            if backward[s_start + s] >= 0:
                grid.cells[s * width + backward[s_start + s]] |= _BACKWARD
        for t in range(width):
            grid.target_free[t] = 1
            if forward[t_start + t] >= 0:
                grid.cells[forward[t_start + t] * width + t] |= _FORWARD
        for s in range(height):
            for t in range(width):
                cell = grid.cells[s * width + t]
                if cell == (_FORWARD | _BACKWARD) or (method == _UNION and cell != 0):
                    _select(s, t, width, grid)
        if method >= _GROW_DIAG:
            _grow(height, width, grid)
        if method >= _GROW_DIAG_FINAL:
            both_free = method == _GROW_DIAG_FINAL_AND
            _add_final_links(_FORWARD, both_free, height, width, grid)
            _add_final_links(_BACKWARD, both_free, height, width, grid)
        for s in range(height):
            for t in range(width):
                if grid.cells[s * width + t] & _SELECTED:
                    links.source[written] = s
                    links.target[written] = t
                    written += 1
        links.offset[pair + 1] = written


def symmetrize(
    method: str,
    forward: NDArray[np.int16],
    backward: NDArray[np.int16],
    source_offset: NDArray[np.int64],
    target_offset: NDArray[np.int64],
) -> LinkList:
    """Combine links by a method: `forward` of target words, `backward` of source words, or -1."""
    links, grid = allocate_links(len(forward) + len(backward), source_offset, target_offset, np.uint8)
    _symmetrize(METHODS[method], forward, backward, source_offset, target_offset, grid, links)
    return trim(links)


def trim(padded: LinkList) -> LinkList:
    """Shorten the positions of a list in place to the number of links. Returns the list."""
    for positions in (padded.source, padded.target):
        positions.resize(padded.offset[-1], refcheck=False)
    return padded


def one_to_one(links: LinkList, score: NDArray[np.floating], source_offset: NDArray[np.int64]) -> NDArray[np.int32]:
    """Select one-to-one links greedily by score. Returns each source word's target or -1, int32[N]."""
    chosen = np.full(int(source_offset[-1]), -1, np.int32)
    for pair, (first, last) in enumerate(pairwise(links.offset.tolist())):
        linked_targets: set[int] = set()
        for k in (first + np.argsort(-score[first:last], kind="stable")).tolist():
            i, x = int(source_offset[pair]) + int(links.source[k]), int(links.target[k])
            if chosen[i] < 0 and x not in linked_targets:
                chosen[i] = x
                linked_targets.add(x)
    return chosen
