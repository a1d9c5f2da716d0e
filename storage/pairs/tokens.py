"""How often each token occurs in many texts: most tokens are short enough to be counted as numbers."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SPACE = ord(" ")
_WIDTH = 8
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(_WIDTH + 1)], np.uint64)
"""The bytes of a word of so many bytes, where the word begins at the lowest."""


def count_tokens(texts: Sequence[str]) -> dict[str, int]:
    """How often each token occurs in the texts, tokens being what one or more spaces separate.

    A token of up to eight bytes of UTF-8 is one whole number, and numpy sorts numbers several times as fast as a
    dictionary takes texts in.
    """
    content = " ".join(texts).encode()
    if b"\0" in content:
        return _counted(content.split(b" "))
    # A space on both sides, and room for the number that begins at the last byte and for the one behind it.
    padded = b" %b %b" % (content, b"\0" * (3 * _WIDTH - (len(content) + 2) % _WIDTH))
    spaces = np.flatnonzero(np.frombuffer(padded, np.uint8) == _SPACE)
    starts, lengths = spaces[:-1] + 1, np.diff(spaces) - 1
    short = (lengths > 0) & (lengths <= _WIDTH)
    numbers, counts = np.unique(_numbers(padded, starts[short], lengths[short]), return_counts=True)
    words = numbers.astype("<u8").view(f"S{_WIDTH}").tolist()
    found = {word.decode(): count for word, count in zip(words, counts.tolist(), strict=True)}
    long = lengths > _WIDTH
    begins = starts[long]
    places = zip(begins.tolist(), (begins + lengths[long]).tolist(), strict=True)
    return found | _counted([padded[first:last] for first, last in places])


def _numbers(padded: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The bytes of each token, the first one lowest, as uint64; at most eight bytes."""
    aligned = np.frombuffer(padded, "<u8").astype(np.uint64)
    place = starts >> 3
    shift = ((starts & 7) << 3).astype(np.uint64)
    low = aligned[place] >> shift
    # In two steps, because a shift by all 64 bits is none.
    high = aligned[place + 1] << (np.uint64(63) - shift) << np.uint64(1)
    numbers: NDArray[np.uint64] = (low | high) & _MASKS[lengths]
    return numbers


def _counted(tokens: list[bytes]) -> dict[str, int]:
    return {token.decode(): count for token, count in Counter(tokens).items() if token}
