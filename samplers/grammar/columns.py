"""Columns of byte strings and of texts: one array of bytes and where each ends, in place of an object for each."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_LINE_FEED = 10


class Blobs(NamedTuple):
    """Byte strings one after the other: number i is `content[offsets[i] : offsets[i + 1]]`.

    `content` uint8[offsets[-1]]; `offsets` int64[n + 1], from 0 on.
    """

    content: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Return how many strings there are."""
        return len(self.offsets) - 1


def join_blobs(blobs: Sequence[bytes]) -> Blobs:
    """The byte strings as a column."""
    offsets = np.zeros(len(blobs) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, blobs), np.int64, len(blobs)), out=offsets[1:])
    # A copy, because kernels are compiled anew for arrays that cannot be written to.
    return Blobs(np.frombuffer(b"".join(blobs), np.uint8).copy(), offsets)


def split_blobs(blobs: Blobs) -> list[bytes]:
    """The byte strings one by one, for who cannot take a column."""
    joined = blobs.content.tobytes()
    return [joined[first:last] for first, last in pairwise(blobs.offsets.tolist())]


def part_of(blobs: Blobs, first: int, last: int) -> Blobs:
    """Strings first..last, without a copy of their bytes."""
    offsets = blobs.offsets[first : last + 1]
    return Blobs(blobs.content[offsets[0] : offsets[-1]], offsets - offsets[0])


def no_blobs(size: int) -> Blobs:
    """So many empty strings."""
    return Blobs(np.zeros(0, np.uint8), np.zeros(size + 1, np.int64))


class Texts(NamedTuple):
    """Texts without line feeds one after the other, as UTF-8, each followed by a line feed.

    Number i, with its line feed, is `content[offsets[i] : offsets[i + 1]]`: uint8[offsets[-1]], int64[n + 1].
    """

    content: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Return how many texts there are."""
        return len(self.offsets) - 1

    def strings(self) -> list[str]:
        """The texts one by one."""
        return self.content.tobytes().decode().split("\n")[:-1]

    def at(self, numbers: NDArray[np.int64]) -> list[str]:
        """Some of the texts, one by one; fast where most of those between the first and the last are among them."""
        if not len(numbers):
            return []
        first, last = int(numbers.min()), int(numbers.max()) + 1
        start = self.offsets[first]
        between = Texts(self.content[start : self.offsets[last]], self.offsets[first : last + 1] - start).strings()
        return [between[number] for number in (numbers - first).tolist()]

    def string(self, number: int) -> str:
        """One of the texts."""
        return self.content[self.offsets[number] : self.offsets[number + 1] - 1].tobytes().decode()


def join_texts(texts: Sequence[str]) -> Texts:
    """The texts as a column."""
    return lines_of("".join(f"{text}\n" for text in texts).encode())


def lines_of(content: bytes) -> Texts:
    """The lines of UTF-8 as a column; each of them, the last one too, has a line feed at its end."""
    letters = np.frombuffer(content, np.uint8).copy()
    return Texts(letters, np.concatenate(([0], np.flatnonzero(letters == _LINE_FEED) + 1)))


def concatenated(parts: Sequence[Texts]) -> Texts:
    """The texts of all parts."""
    shifts = np.cumsum([0, *(len(part.content) for part in parts)], dtype=np.int64)
    ends = [part.offsets[1:] + shift for part, shift in zip(parts, shifts.tolist(), strict=False)]
    return Texts(
        np.concatenate([np.zeros(0, np.uint8), *(part.content for part in parts)]),
        np.concatenate([np.zeros(1, np.int64), *ends]),
    )
