"""Parallel text as word numbers.

In one direction of an aligner, words of the conditioning sentence generate the words of the emitted sentence.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.keys import numbering
from hierogram.samplers.grammar.rules import split_line

MAX_WORDS = 2**15 - 1
"""Maximum sentence length: positions are 16-bit integers."""


class Side(NamedTuple):
    """Sentences as indices into `vocabulary`. Sentence k is `words[offset[k] : offset[k + 1]]`."""

    words: NDArray[np.int32]
    offset: NDArray[np.int64]
    vocabulary: tuple[str, ...]


class DirectedBitext(NamedTuple):
    """Word numbers of P pairs for kernels, with N emitted and M conditioning words."""

    # int32[N], int64[P + 1]: emitted words of all pairs, and index of the first emitted word of each pair.
    emitted: NDArray[np.int32]
    emitted_offset: NDArray[np.int64]
    # int32[M], int64[P + 1]: the same for conditioning words.
    conditioning: NDArray[np.int32]
    conditioning_offset: NDArray[np.int64]

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.emitted_offset) - 1

    @property
    def longest_emitted(self) -> int:
        """Length of the longest emitted sentence."""
        return int(np.diff(self.emitted_offset).max(initial=0))

    @property
    def longest_conditioning(self) -> int:
        """Length of the longest conditioning sentence."""
        return int(np.diff(self.conditioning_offset).max(initial=0))


_MAX_FOLDED_BYTES = 1024
"""Maximum size of a lower-cased word in bytes. Stores have the same limit."""


def fold(word: str) -> str:
    """Lowercase a word, unless the result has more than `_MAX_FOLDED_BYTES` bytes."""
    folded = word.lower()
    return folded if len(folded) < _MAX_FOLDED_BYTES // 4 or len(folded.encode()) <= _MAX_FOLDED_BYTES else word


def read_side(sentences: Iterable[str]) -> Side:
    """Lowercase and number all words. Raises `AlignmentInputError` for over `MAX_WORDS` words."""
    numbers = numbering()
    words, offset = array("i"), array("q", [0])
    for number, sentence in enumerate(sentences, 1):
        folded = [fold(token) for token in split_line(sentence)]
        if len(folded) > MAX_WORDS:
            raise AlignmentInputError(f"line {number}: {len(folded):,} words, the limit is {MAX_WORDS:,}")
        words.extend(map(numbers.__getitem__, folded))
        offset.append(len(words))
    return Side(np.asarray(words, np.int32), np.asarray(offset, np.int64), tuple(numbers))


_WORDS_AT_ONCE = 1_000_000
STEM_LETTERS = 4
"""A stem is the first letters of a word, or the whole word if it is shorter."""


def stem_side(side: Side) -> Side:
    """Return the side with each word replaced by its stem, which has a number in a new vocabulary."""
    numbers = numbering()
    stem_of_word = np.array([numbers[word[:STEM_LETTERS]] for word in side.vocabulary], np.int32)
    words = np.empty_like(side.words)
    # numpy copies indices to 64 bits, so save memory by looking up a part of the words at a time.
    for first in range(0, len(words), _WORDS_AT_ONCE):
        part = slice(first, first + _WORDS_AT_ONCE)
        words[part] = stem_of_word[side.words[part]]
    return Side(words, side.offset, tuple(numbers))


class Direction(NamedTuple):
    """Both sides of a corpus, and which of them is emitted."""

    emitted: Side
    conditioning: Side

    @property
    def bitext(self) -> DirectedBitext:
        """Word numbers of both sides, without vocabularies."""
        emitted, conditioning = self
        return DirectedBitext(emitted.words, emitted.offset, conditioning.words, conditioning.offset)


def make_direction(emitted: Side, conditioning: Side) -> Direction:
    """Return the direction of two sides. Raises `AlignmentInputError` if their line counts differ."""
    if len(emitted.offset) != len(conditioning.offset):
        raise AlignmentInputError(
            f"one side has {len(emitted.offset) - 1:,} lines, the other {len(conditioning.offset) - 1:,}: sentences "
            "and translations must be aligned line by line"
        )
    return Direction(emitted, conditioning)


def number_bigrams(emitted: Side) -> tuple[NDArray[np.int32], int]:
    """Return the bigram number at each end position, int32[N], and the number of distinct bigrams."""
    before = np.roll(emitted.words, 1).astype(np.int64)
    before[emitted.offset[:-1][np.diff(emitted.offset) > 0]] = len(emitted.vocabulary)
    distinct, numbers = np.unique(before << 32 | emitted.words, return_inverse=True)
    return numbers.astype(np.int32), len(distinct)
