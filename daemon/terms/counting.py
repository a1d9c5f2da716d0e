"""Counting what is frequent among very many things, in bounded memory [Park, Chen & Yu 1995]."""

import numpy as np

from hierogram.daemon.terms.vocabulary import Flags, Hashes, Numbers

_CELLS_BITS = 22
_ROWS = 1 << 20


class Sketch:
    """Counts of hashes in a table of fixed size, whose cells are shared: no count is too small."""

    def __init__(self, bits: int = _CELLS_BITS) -> None:
        self._shift = np.uint64(64 - bits)
        self._cells = np.zeros(1 << bits, np.uint32)

    def add(self, hashes: Hashes) -> None:
        """Counts each of them once."""
        np.add.at(self._cells, hashes >> self._shift, 1)

    def may_reach(self, hashes: Hashes, count: int) -> Flags:
        """Whether each may have been counted so often; False for none that has."""
        found: Flags = self._cells[hashes >> self._shift] >= count
        return found


class Tally:
    """Exact counts of hashes, each with `width` numbers that say what it is: those that came with it first."""

    def __init__(self, width: int, rows: int = _ROWS) -> None:
        self._width = width
        self._rows = rows
        self._waiting: list[tuple[Hashes, Numbers, Numbers]] = []
        self._number = 0

    def add(self, hashes: Hashes, counts: Numbers, what: Numbers) -> None:
        """Adds counts, int64[n] or int64[n, k]; `what` is int64[n, width]."""
        if not len(hashes):
            return
        self._waiting.append((hashes, counts.reshape(len(hashes), -1), what))
        self._number += len(hashes)
        if self._number > self._rows:
            kept = self._merge()
            # Twice as many, so that merging again costs no more than adding did.
            self._rows = max(self._rows, 2 * kept)

    def found(self) -> tuple[Hashes, Numbers, Numbers]:
        """Hashes, ascending; their counts, int64[n, k]; what they are."""
        self._merge()
        if not self._waiting:
            return np.zeros(0, np.uint64), np.zeros((0, 1), np.int64), np.zeros((0, self._width), np.int64)
        return self._waiting[0]

    def _merge(self) -> int:
        if not self._waiting:
            return 0
        columns = [np.concatenate(column) for column in zip(*self._waiting, strict=True)]
        hashes, first, number = np.unique(columns[0].astype(np.uint64), return_index=True, return_inverse=True)
        counts = np.zeros((len(hashes), columns[1].shape[1]), np.int64)
        np.add.at(counts, number, columns[1])
        self._waiting = [(hashes, counts, columns[2][first])]
        self._number = len(hashes)
        return self._number


def places_among(sorted_hashes: Hashes, hashes: Hashes) -> Numbers:
    """The place of each hash among sorted ones; -1 where it is none of them."""
    if not len(sorted_hashes):
        return np.full(len(hashes), -1)
    places = np.minimum(np.searchsorted(sorted_hashes, hashes), len(sorted_hashes) - 1)
    return np.where(sorted_hashes[places] == hashes, places, -1)
