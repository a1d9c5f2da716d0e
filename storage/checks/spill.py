"""Rows spilled to a temporary file and read back in parts, so that any number of rows can be compared.

Rows that must be compared have the same slice, a number below `SLICES` derived from their key, text or id. A part is a
range of slices.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedRandom
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.columns import Blobs

SLICES = 1 << 10
_LENGTH = np.dtype(np.int32)

Rows = NDArray[Any]


class _Chunk(NamedTuple):
    """Batch of spilled rows: its offset in the file, and the first row and first text byte of each slice."""

    start: int
    rows: NDArray[np.uint32]
    texts: tuple[NDArray[np.uint32], ...]


@contextmanager
def open_spill(dtype: np.dtype[Any], text_columns: int = 0) -> Iterator["Spill"]:
    """Open a file for rows with `text_columns` texts each. The file is deleted on exit."""
    with tempfile.TemporaryFile(prefix="hierogram-") as file:
        yield Spill(file, dtype, text_columns)


class Spill:
    """Rows of one dtype in a temporary file, each with the same number of texts."""

    def __init__(self, file: BufferedRandom, dtype: np.dtype[Any], text_columns: int) -> None:
        self._file = file
        self._dtype = dtype
        self._text_columns = text_columns
        self._chunks: list[_Chunk] = []
        self.sizes = np.zeros(SLICES, np.int64)

    def add(self, slices: NDArray[np.int64], rows: Rows, *texts: Blobs) -> None:
        """Add rows in ascending order of their slices."""
        bounds = np.searchsorted(slices, np.arange(SLICES + 1))
        self.sizes += np.diff(bounds)
        start = self._file.seek(0, 2)
        self._write(rows.astype(self._dtype, copy=False))
        for column in texts:
            self._write(np.diff(column.offsets).astype(_LENGTH))
            self._write(column.content)
        ends = tuple(column.offsets[bounds].astype(np.uint32) for column in texts)
        self._chunks.append(_Chunk(start, bounds.astype(np.uint32), ends))

    def read(self, first: int, last: int) -> tuple[Rows, list[Blobs]]:
        """Return the rows of the slices `first` to `last` - 1 and their texts, in the order of insertion."""
        rows = [np.zeros(0, self._dtype)]
        lengths = [[np.zeros(1, np.int64)] for _ in range(self._text_columns)]
        contents = [[np.zeros(0, np.uint8)] for _ in range(self._text_columns)]
        for chunk in self._chunks:
            begin, number = int(chunk.rows[first]), int(chunk.rows[last]) - int(chunk.rows[first])
            if not number:
                continue
            chunk_size, offset = int(chunk.rows[-1]), chunk.start
            rows.append(self._read(offset + begin * self._dtype.itemsize, number, self._dtype))
            offset += chunk_size * self._dtype.itemsize
            for k, bounds in enumerate(chunk.texts):
                lengths[k].append(self._read(offset + begin * _LENGTH.itemsize, number, _LENGTH))
                offset += chunk_size * _LENGTH.itemsize
                size = int(bounds[last]) - int(bounds[first])
                contents[k].append(self._read(offset + int(bounds[first]), size, np.dtype(np.uint8)))
                offset += int(bounds[-1])
        texts = [
            Blobs(np.concatenate(content), np.cumsum(np.concatenate(ends)))
            for content, ends in zip(contents, lengths, strict=True)
        ]
        return np.concatenate(rows), texts

    def _write(self, column: Rows) -> None:
        self._file.write(np.ascontiguousarray(column).view(np.uint8).data)

    def _read(self, offset: int, number: int, dtype: np.dtype[Any]) -> Rows:
        self._file.seek(offset)
        return np.frombuffer(self._file.read(number * dtype.itemsize), dtype)


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
