"""Vocabularies: hash tables from words in UTF-8 to word numbers.

Words are numbered in the order of insertion. The first three words are <unk>, <s> and </s>.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, probe, table_mask
from hierogram.samplers.language_models.model import FREE, UNKNOWN

SPECIAL = ("<unk>", "<s>", "</s>")
"""Words with the numbers UNKNOWN, BEGIN and END."""

_SMALLEST = 1 << 10
_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class Vocabulary(NamedTuple):
    """Words in the order of their numbers, and a hash table of the numbers. `GrowingVocabulary` makes it."""

    # uint8[B]: concatenated words.
    letters: NDArray[np.uint8]
    # int64[V+1]: index into `letters` of the first byte of each word.
    starts: NDArray[np.int64]
    # int32[capacity]: hash table of word numbers. An empty slot is `FREE`. The capacity is a power of two.
    slots: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def numbers(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return the number of each word, int32[n], or UNKNOWN for unknown words."""
        encoded = [word.encode("utf-8", "surrogateescape") for word in words]
        starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        # Copy to a bytearray, because numba compiles kernels separately for read-only arrays.
        letters = np.frombuffer(bytearray(b"".join(encoded)), np.uint8)
        numbers = np.empty(len(words), np.int32)
        _find_all(self, letters, starts, numbers)
        return numbers

    def word(self, number: int) -> str:
        """Return the word with this number."""
        letters = self.letters[self.starts[number] : self.starts[number + 1]]
        return letters.tobytes().decode("utf-8", "surrogateescape")


@njit_inline
def _ends_at(vocabulary, slot, word):
    text, start, end = word
    number = vocabulary.slots[slot]
    if number == FREE:
        return True
    first = vocabulary.starts[number]
    if vocabulary.starts[number + 1] - first != end - start:
        return False
    same = True
    for k in range(end - start):
        same &= vocabulary.letters[first + k] == text[start + k]
    return same


@njit_inline
def find_word(vocabulary, text, start, end):
    """Return the slot of the word `text[start:end]`, `text` uint8[n], or the free slot for it."""
    mask = table_mask(vocabulary.slots)
    # Mix the bits of the FNV-1a hash of the bytes, because the low bits choose the slot.
    value = _BASIS
    for k in range(start, end):
        value = (value ^ np.uint64(text[k])) * _PRIME
    value = (value ^ (value >> _HALF)) * _MIX
    home = (value ^ (value >> _HALF)) & mask
    return np.int64(probe(home, mask, _ends_at, vocabulary, (text, start, end)))


@njit
def _find_all(vocabulary, text, starts, numbers):
    for k in range(len(numbers)):
        number = vocabulary.slots[find_word(vocabulary, text, starts[k], starts[k + 1])]
        numbers[k] = UNKNOWN if number == FREE else number


@njit
def add_word(vocabulary, size, text, start, end):
    """Return the number of the word `text[start:end]`. Adds a new word, or returns `FREE` if full."""
    slot = find_word(vocabulary, text, start, end)
    number = vocabulary.slots[slot]
    if number != FREE:
        return np.int64(number)
    number = size[0]
    first = vocabulary.starts[number]
    if (
        number + 2 > len(vocabulary.starts)
        or 2 * (number + 1) > len(vocabulary.slots)
        or first + end - start > len(vocabulary.letters)
    ):
        return np.int64(FREE)
    for k in range(end - start):
        vocabulary.letters[first + k] = text[start + k]
    vocabulary.starts[number + 1] = first + end - start
    vocabulary.slots[slot] = number
    size[0] = number + 1
    return np.int64(number)


@njit
def _fill(vocabulary, size):
    for number in range(size):
        first, end = vocabulary.starts[number], vocabulary.starts[number + 1]
        vocabulary.slots[find_word(vocabulary, vocabulary.letters, first, end)] = number


class GrowingVocabulary:
    """Vocabulary that can grow. Kernels call `add_word` with its `arrays`, which `grow` replaces."""

    def __init__(self) -> None:
        self.size = np.zeros(1, np.int64)
        self.arrays = Vocabulary(
            np.zeros(16 * _SMALLEST, np.uint8),
            np.zeros(_SMALLEST + 1, np.int64),
            np.full(2 * _SMALLEST, FREE, np.int32),
        )
        self.add(SPECIAL)

    def __len__(self) -> int:
        return int(self.size[0])

    def add(self, words: Iterable[str]) -> list[int]:
        """Add the new words among `words`. Returns the number of each word."""
        numbers = []
        for word in words:
            text = np.frombuffer(bytearray(word.encode("utf-8", "surrogateescape")), np.uint8)
            while (number := int(add_word(self.arrays, self.size, text, 0, len(text)))) == FREE:
                self.grow(len(text))
            numbers.append(number)
        return numbers

    def grow(self, letters: int) -> None:
        """Double the capacity for words, and allocate memory for at least one word of `letters` bytes."""
        old = self.arrays
        more = max(len(old.letters), 2 * letters)
        self.arrays = Vocabulary(
            np.concatenate([old.letters, np.zeros(more, np.uint8)]),
            np.concatenate([old.starts, np.zeros(len(old.starts), np.int64)]),
            np.full(capacity_for(2 * len(self), 2 * _SMALLEST), FREE, np.int32),
        )
        _fill(self.arrays, len(self))

    def finish(self) -> Vocabulary:
        """Return a copy of the vocabulary without spare capacity."""
        words = len(self)
        starts = self.arrays.starts[: words + 1].copy()
        made = Vocabulary(
            self.arrays.letters[: starts[-1]].copy(), starts, np.full(capacity_for(words, _SMALLEST), FREE, np.int32)
        )
        _fill(made, words)
        return made
