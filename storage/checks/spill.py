"""Rows spilled to a temporary file and read back in parts, so that any number of rows can be compared.

Rows that must be compared have the same slice, a number below `SLICES` derived from their key, text or id. A part is a
range of slices.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedRandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.columns import Blobs, join_blobs

SLICES = 1 << 10

Rows = NDArray[Any]


@contextmanager
def open_spill(dtype: np.dtype[Any], text_columns: int = 0) -> Iterator["Spill"]:
    """Open a temporary file for rows with `text_columns` texts each. The file is deleted on exit."""
    with tempfile.TemporaryFile(prefix="hierogram-") as file:
        yield Spill(file, dtype, text_columns)


class Spill:
    """Rows of one dtype in a temporary file, each with the same number of texts."""

    def __init__(self, file: BufferedRandom, dtype: np.dtype[Any], text_columns: int) -> None:
        self._rows = _Column(file, dtype)
        self._lengths = [_Column(file, np.dtype(np.int32)) for _ in range(text_columns)]
        self._contents = [_Column(file, np.dtype(np.uint8)) for _ in range(text_columns)]
        self.sizes = np.zeros(SLICES, np.int64)

    def add(self, slices: NDArray[np.int64], rows: Rows, *texts: Blobs) -> None:
        """Add rows, sorted by slice, with a column for each of their texts."""
        bounds = np.searchsorted(slices, np.arange(SLICES + 1)).astype(np.uint32)
        self.sizes += np.diff(bounds)
        self._rows.add(rows, bounds)
        for column, lengths, contents in zip(texts, self._lengths, self._contents, strict=True):
            lengths.add(np.diff(column.offsets), bounds)
            contents.add(column.content, column.offsets[bounds].astype(np.uint32))

    def add_by_text(self, rows: Rows, texts: Sequence[str]) -> None:
        """Add rows with one text each, in any order. Rows with equal texts get the same slice in every spill."""
        slices = np.fromiter((hash(text) % SLICES for text in texts), np.int64, len(texts))
        order = np.argsort(slices, kind="stable")
        self.add(slices[order], rows[order], join_blobs([texts[k].encode() for k in order.tolist()]))

    def read(self, first: int, last: int) -> tuple[Rows, list[Blobs]]:
        """Return the rows of the slices `first` to `last` - 1 and their texts, by `add` call, then by slice."""
        rows = self._rows.read(first, last)
        texts = []
        for lengths, contents in zip(self._lengths, self._contents, strict=True):
            offsets = np.zeros(len(rows) + 1, np.int64)
            np.cumsum(lengths.read(first, last), out=offsets[1:])
            texts.append(Blobs(contents.read(first, last), offsets))
        return rows, texts


class _Column:
    """Items of one dtype in a file, in batches. Each batch is sorted by slice."""

    def __init__(self, file: BufferedRandom, dtype: np.dtype[Any]) -> None:
        self._file = file
        self._dtype = dtype
        # Offset of each batch in the file, and index of the first item of each slice in the batch.
        self._batches: list[tuple[int, NDArray[np.uint32]]] = []

    def add(self, items: Rows, bounds: NDArray[np.uint32]) -> None:
        """Add a batch. The items `bounds[k]` to `bounds[k + 1]` - 1 are in slice k."""
        self._batches.append((self._file.seek(0, os.SEEK_END), bounds))
        self._file.write(np.ascontiguousarray(items, self._dtype).view(np.uint8).data)

    def read(self, first: int, last: int) -> Rows:
        numbers = [int(bounds[last]) - int(bounds[first]) for _, bounds in self._batches]
        items = np.empty(sum(numbers), self._dtype)
        start = 0
        for (offset, bounds), number in zip(self._batches, numbers, strict=True):
            self._file.seek(offset + int(bounds[first]) * self._dtype.itemsize)
            # Read into the result, because joining separate arrays would take twice the memory.
            part = items[start : start + number].view(np.uint8).data
            if self._file.readinto(part) != len(part):
                raise OSError(f"{self._file.name}: read fewer bytes than were written")
            start += number
        return items


def slice_ranges(spills: Sequence[Spill], max_rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of slices with up to `max_rows` rows. A larger slice is a range of its own."""
    sizes = np.sum([spill.sizes for spill in spills], axis=0).tolist()
    first = count = 0
    for number, size in enumerate(sizes):
        if count and count + size > max_rows:
            yield first, number
            first, count = number, 0
        count += size
    yield first, SLICES
