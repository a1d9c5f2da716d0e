"""Columns of byte strings and texts, each stored as one byte array with offsets."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Blobs(NamedTuple):
    """Column of n byte strings. String i is `content[offsets[i] : offsets[i + 1]]`."""

    content: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of strings."""
        return len(self.offsets) - 1


def join_blobs(blobs: Sequence[bytes]) -> Blobs:
    """Join byte strings into a column."""
    offsets = np.zeros(len(blobs) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, blobs), np.int64, len(blobs)), out=offsets[1:])
    # Copy, because numba compiles kernels separately for read-only arrays.
    return Blobs(np.frombuffer(b"".join(blobs), np.uint8).copy(), offsets)


def split_blobs(blobs: Blobs) -> list[bytes]:
    """Split a column into byte strings."""
    joined = blobs.content.tobytes()
    return [joined[first:last] for first, last in pairwise(blobs.offsets.tolist())]


def slice_blobs(blobs: Blobs, first: int, last: int) -> Blobs:
    """Return strings `first` to `last` - 1. The content is a view, not a copy."""
    offsets = blobs.offsets[first : last + 1]
    return Blobs(blobs.content[offsets[0] : offsets[-1]], offsets - offsets[0])


def empty_blobs(size: int) -> Blobs:
    """Return a column of `size` empty strings."""
    return Blobs(np.zeros(0, np.uint8), np.zeros(size + 1, np.int64))


class Texts(NamedTuple):
    """Column of n UTF-8 texts. Text i with its line feed is `content[offsets[i] : offsets[i + 1]]`."""

    content: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of texts."""
        return len(self.offsets) - 1

    def strings(self) -> list[str]:
        """Return all texts as strings."""
        return self.content.tobytes().decode().split("\n")[:-1]

    def at(self, indices: NDArray[np.int64]) -> list[str]:
        """Return the texts with these indices. Decodes all texts between the smallest and the largest index."""
        if not len(indices):
            return []
        first, last = int(indices.min()), int(indices.max()) + 1
        start = self.offsets[first]
        between = Texts(self.content[start : self.offsets[last]], self.offsets[first : last + 1] - start).strings()
        return [between[index] for index in (indices - first).tolist()]

    def string(self, index: int) -> str:
        """Return one text as a string."""
        return self.content[self.offsets[index] : self.offsets[index + 1] - 1].tobytes().decode()


def join_texts(texts: Sequence[str]) -> Texts:
    """Return texts, which must not contain line feeds, as a column."""
    return split_lines("".join(f"{text}\n" for text in texts).encode())


def split_lines(content: bytes) -> Texts:
    """Return the lines of UTF-8 text as a column. Every line must end with a line feed."""
    letters = np.frombuffer(content, np.uint8).copy()
    return Texts(letters, np.concatenate(([0], np.flatnonzero(letters == ord("\n")) + 1)))


def concatenate_texts(columns: Sequence[Texts]) -> Texts:
    """Concatenate columns of texts. Without columns, the result is an empty column."""
    shifts = np.cumsum([0, *(len(column.content) for column in columns)], dtype=np.int64)
    ends = [column.offsets[1:] + shift for column, shift in zip(columns, shifts.tolist(), strict=False)]
    return Texts(
        np.concatenate([np.zeros(0, np.uint8), *(column.content for column in columns)]),
        np.concatenate([np.zeros(1, np.int64), *ends]),
    )
