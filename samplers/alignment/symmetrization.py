"""Links of both directions made one alignment: intersection, union, and the grow-diag family (Koehn et al. 2003)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import AlignmentInputError

INTERSECTION, UNION, GROW_DIAG, GROW_DIAG_FINAL, GROW_DIAG_FINAL_AND = range(5)
METHODS = {
    "intersect": INTERSECTION,
    "union": UNION,
    "gd": GROW_DIAG,
    "gdf": GROW_DIAG_FINAL,
    "gdfa": GROW_DIAG_FINAL_AND,
}
"""Symmetrisations by the field's names for them."""

_FORWARD, _BACKWARD, _KEPT = 1, 2, 4
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class LinkList(NamedTuple):
    """Links of many pairs, sorted: `source`, `target` int16[L], `offset` int64[P + 1]."""

    source: NDArray[np.int16]
    target: NDArray[np.int16]
    offset: NDArray[np.int64]


@njit_inline
def _keep(s, t, width, grid, source_free, target_free):
    grid[s * width + t] |= _KEPT
    source_free[s] = 0
    target_free[t] = 0


@njit_inline
def _grow(height, width, grid, source_free, target_free):
    """Add links of the union beside kept ones where a word is still free, until none is left."""
    grown = True
    while grown:
        grown = False
        for s in range(height):
            for t in range(width):
                if not grid[s * width + t] & _KEPT:
                    continue
                for step in _NEIGHBOURS:
                    y, x = s + step[0], t + step[1]
                    if y < 0 or x < 0 or y >= height or x >= width or not (source_free[y] or target_free[x]):
                        continue
                    cell = grid[y * width + x]
                    if cell != 0 and not cell & _KEPT:
                        _keep(y, x, width, grid, source_free, target_free)
                        grown = True


@njit_inline
def _finish(direction, both_free, height, width, grid, source_free, target_free):
    """Add a direction's links where a word (`both_free`: both words) is still free."""
    for s in range(height):
        for t in range(width):
            cell = grid[s * width + t]
            if not cell & direction or cell & _KEPT:
                continue
            if (source_free[s] and target_free[t]) if both_free else (source_free[s] or target_free[t]):
                _keep(s, t, width, grid, source_free, target_free)


@njit
def _symmetrize(
    method, forward, backward, source_offset, target_offset, grid, source_free, target_free, source, target, offset
):
    written = 0
    for pair in range(len(source_offset) - 1):
        s_start, t_start = source_offset[pair], target_offset[pair]
        height, width = source_offset[pair + 1] - s_start, target_offset[pair + 1] - t_start
        for k in range(height * width):
            grid[k] = 0
        for s in range(height):
            source_free[s] = 1
            if backward[s_start + s] >= 0:
                grid[s * width + backward[s_start + s]] |= _BACKWARD
        for t in range(width):
            target_free[t] = 1
            if forward[t_start + t] >= 0:
                grid[forward[t_start + t] * width + t] |= _FORWARD
        for s in range(height):
            for t in range(width):
                cell = grid[s * width + t]
                if cell == (_FORWARD | _BACKWARD) or (method == UNION and cell != 0):
                    _keep(s, t, width, grid, source_free, target_free)
        if method >= GROW_DIAG:
            _grow(height, width, grid, source_free, target_free)
        if method >= GROW_DIAG_FINAL:
            both_free = method == GROW_DIAG_FINAL_AND
            _finish(_FORWARD, both_free, height, width, grid, source_free, target_free)
            _finish(_BACKWARD, both_free, height, width, grid, source_free, target_free)
        for s in range(height):
            for t in range(width):
                if grid[s * width + t] & _KEPT:
                    source[written] = s
                    target[written] = t
                    written += 1
        offset[pair + 1] = written


def symmetrize(
    method: str,
    forward: NDArray[np.int16],
    backward: NDArray[np.int16],
    source_offset: NDArray[np.int64],
    target_offset: NDArray[np.int64],
) -> LinkList:
    """One alignment of each pair from both directions.

    `forward` int16: for each target word its source position, or -1; `backward` int16: for each source word its target
    position, or -1. Raises `AlignmentInputError` where the method is none of METHODS.
    """
    if method not in METHODS:
        raise AlignmentInputError(f"no symmetrisation is called {method!r}: there are {', '.join(METHODS)}")
    most = len(forward) + len(backward)
    source, target = np.zeros(most, np.int16), np.zeros(most, np.int16)
    offset = np.zeros(len(source_offset), np.int64)
    heights, widths = np.diff(source_offset), np.diff(target_offset)
    grid = np.zeros(int((heights * widths).max(initial=0)), np.uint8)
    source_free = np.zeros(int(heights.max(initial=0)), np.uint8)
    target_free = np.zeros(int(widths.max(initial=0)), np.uint8)
    _symmetrize(
        METHODS[method], forward, backward, source_offset, target_offset, grid, source_free, target_free,
        source, target, offset,
    )  # fmt: skip
    return LinkList(source[: offset[-1]].copy(), target[: offset[-1]].copy(), offset)


@njit
def _list_forward(forward, source_offset, target_offset, order, source, target, offset):
    written = 0
    for pair in range(len(source_offset) - 1):
        height = source_offset[pair + 1] - source_offset[pair]
        begin = written
        # A counting sort by source position; targets stay in order.
        for s in range(height + 1):
            order[s] = 0
        for t in range(target_offset[pair], target_offset[pair + 1]):
            if forward[t] >= 0:
                order[forward[t] + 1] += 1
        for s in range(height):
            order[s + 1] += order[s]
        for t in range(target_offset[pair], target_offset[pair + 1]):
            s = forward[t]
            if s >= 0:
                source[begin + order[s]] = s
                target[begin + order[s]] = t - target_offset[pair]
                order[s] += 1
                written += 1
        offset[pair + 1] = written


def list_links(
    links: NDArray[np.int16], given_offset: NDArray[np.int64], generated_offset: NDArray[np.int64]
) -> LinkList:
    """One direction's links as a sorted list; `source` are the given positions, `target` the generated ones."""
    offset = np.zeros(len(given_offset), np.int64)
    source, target = np.zeros(len(links), np.int16), np.zeros(len(links), np.int16)
    order = np.zeros(int(np.diff(given_offset).max(initial=0)) + 1, np.int64)
    _list_forward(links, given_offset, generated_offset, order, source, target, offset)
    return LinkList(source[: offset[-1]].copy(), target[: offset[-1]].copy(), offset)
