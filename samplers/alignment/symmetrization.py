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
"""Numbers of the symmetrizations that need only links, in the order above, by name."""

_FORWARD, _BACKWARD, _KEPT = 1, 2, 4
_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class LinkList(NamedTuple):
    """Sorted links of P pairs, positions int16[L]: pair k has links `offset[k]` to `offset[k + 1]` - 1."""

    source: NDArray[np.int16]
    target: NDArray[np.int16]
    offset: NDArray[np.int64]


class LinkGrid(NamedTuple):
    """Cells (source, target) of a pair, row by row. `source_free`, `target_free`: 1 for unlinked words."""

    cells: NDArray[Any]
    source_free: NDArray[np.uint8]
    target_free: NDArray[np.uint8]


def allocate_links(
    max_links: int, source_offset: NDArray[np.int64], target_offset: NDArray[np.int64], dtype: type[Any]
) -> tuple[LinkList, LinkGrid]:
    """Allocate a list of up to `max_links` links, and a grid for the largest pair."""
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
def _keep(s, t, width, work):
    work.cells[s * width + t] |= _KEPT
    work.source_free[s] = 0
    work.target_free[t] = 0


@njit_inline
def _grow(height, width, work):
    grown = True
    while grown:
        grown = False
        for s in range(height):
            for t in range(width):
                if not work.cells[s * width + t] & _KEPT:
                    continue
                for step in _NEIGHBORS:
                    y, x = s + step[0], t + step[1]
                    if y < 0 or x < 0 or y >= height or x >= width or not (work.source_free[y] or work.target_free[x]):
                        continue
                    cell = work.cells[y * width + x]
                    if cell != 0 and not cell & _KEPT:
                        _keep(y, x, width, work)
                        grown = True


@njit_inline
def _add_final_links(direction, both_free, height, width, work):
    for s in range(height):
        for t in range(width):
            cell = work.cells[s * width + t]
            if not cell & direction or cell & _KEPT:
                continue
            source_is_free, target_is_free = work.source_free[s], work.target_free[t]
            if (source_is_free and target_is_free) if both_free else (source_is_free or target_is_free):
                _keep(s, t, width, work)


@njit
def _symmetrize(method, forward, backward, source_offset, target_offset, work, links):
    written = 0
    for pair in range(len(source_offset) - 1):
        s_start, t_start = source_offset[pair], target_offset[pair]
        height, width = source_offset[pair + 1] - s_start, target_offset[pair + 1] - t_start
        work.cells[: height * width] = 0
        for s in range(height):
            work.source_free[s] = 1
            if backward[s_start + s] >= 0:
                work.cells[s * width + backward[s_start + s]] |= _BACKWARD
        for t in range(width):
            work.target_free[t] = 1
            if forward[t_start + t] >= 0:
                work.cells[forward[t_start + t] * width + t] |= _FORWARD
        for s in range(height):
            for t in range(width):
                cell = work.cells[s * width + t]
                if cell == (_FORWARD | _BACKWARD) or (method == _UNION and cell != 0):
                    _keep(s, t, width, work)
        if method >= _GROW_DIAG:
            _grow(height, width, work)
        if method >= _GROW_DIAG_FINAL:
            both_free = method == _GROW_DIAG_FINAL_AND
            _add_final_links(_FORWARD, both_free, height, width, work)
            _add_final_links(_BACKWARD, both_free, height, width, work)
        for s in range(height):
            for t in range(width):
                if work.cells[s * width + t] & _KEPT:
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
    """Symmetrize the links of both directions by a method of `METHODS`.

    `forward` int16[M] has the source position of each target word, `backward` int16[N] the target position of each
    source word, or -1 for words without a link.
    """
    links, work = allocate_links(len(forward) + len(backward), source_offset, target_offset, np.uint8)
    _symmetrize(METHODS[method], forward, backward, source_offset, target_offset, work, links)
    return trim(links)


def trim(padded: LinkList) -> LinkList:
    """Resize the positions of a list in place to their used part. Returns the list."""
    for positions in (padded.source, padded.target):
        positions.resize(padded.offset[-1], refcheck=False)
    return padded


def one_to_one(links: LinkList, score: NDArray[np.floating], source_offset: NDArray[np.int64]) -> NDArray[np.int32]:
    """Select one-to-one links greedily by score. Returns each source word's target or -1, int32[N]."""
    chosen = np.full(int(source_offset[-1]), -1, np.int32)
    for pair, (first, last) in enumerate(pairwise(links.offset.tolist())):
        taken: set[int] = set()
        for k in (first + np.argsort(-score[first:last], kind="stable")).tolist():
            i, x = int(source_offset[pair]) + int(links.source[k]), int(links.target[k])
            if chosen[i] < 0 and x not in taken:
                chosen[i] = x
                taken.add(x)
    return chosen
