"""Parallel text: the words of the emitted side are generated from the conditioning side.

Words are numbered from 0 on each side.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.keys import numbering

MAX_WORDS = 2**15 - 1
"""Maximum sentence length: positions are 16-bit integers."""


class Side(NamedTuple):
    """Sentences of one language: word numbers int32[N], `offset` int64[P + 1], and the `vocabulary` by number."""

    words: NDArray[np.int32]
    offset: NDArray[np.int64]
    vocabulary: tuple[str, ...]


class Sides(NamedTuple):
    """Sentence pairs of one direction."""

    # int32[N], int64[P + 1]: emitted words, and the start of each pair's.
    emitted: NDArray[np.int32]
    emitted_offset: NDArray[np.int64]
    # int32[M], int64[P + 1]: conditioning words, and the start of each pair's.
    conditioning: NDArray[np.int32]
    conditioning_offset: NDArray[np.int64]

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.emitted_offset) - 1

    @property
    def longest_emitted(self) -> int:
        """Length of the longest emitted sentence."""
        return int((self.emitted_offset[1:] - self.emitted_offset[:-1]).max(initial=0))

    @property
    def longest_conditioning(self) -> int:
        """Length of the longest conditioning sentence."""
        return int((self.conditioning_offset[1:] - self.conditioning_offset[:-1]).max(initial=0))


_MAX_FOLDED_LENGTH = 1024
"""Maximum size in bytes of a word to lowercase. Longer words keep their case; stores reject longer words."""


def split_tokens(sentence: str) -> list[str]:
    """Split a sentence at spaces and tabs, and at no other character."""
    if "\t" in sentence or "\r" in sentence:
        sentence = sentence.rstrip("\r").replace("\t", " ")
    words = sentence.split(" ")
    return [word for word in words if word] if "" in words else words


def fold(word: str) -> str:
    """Return the word in lower case."""
    folded = word.lower()
    return folded if len(folded) < _MAX_FOLDED_LENGTH // 4 or len(folded.encode()) <= _MAX_FOLDED_LENGTH else word


def read_side(sentences: Iterable[str], keep_case: bool = False) -> Side:
    """Assign numbers to the words of sentences. Raises `AlignmentInputError` for more than `MAX_WORDS` words."""
    numbers = numbering()
    words, offset = array("i"), array("q", [0])
    for number, sentence in enumerate(sentences, 1):
        # Lowercase each word separately: lowercasing may change the number of characters but not the number of words.
        words_here = split_tokens(sentence)
        folded = words_here if keep_case else [fold(word) for word in words_here]
        if len(folded) > MAX_WORDS:
            raise AlignmentInputError(f"line {number}: {len(folded):,} words, the limit is {MAX_WORDS:,}")
        words.extend(map(numbers.__getitem__, folded))
        offset.append(len(words))
    return Side(np.asarray(words, np.int32), np.asarray(offset, np.int64), tuple(numbers))


def make_sides(emitted: Side, conditioning: Side) -> Sides:
    """Return the direction that generates `emitted` from `conditioning`. Raises `AlignmentInputError`."""
    if len(emitted.offset) != len(conditioning.offset):
        raise AlignmentInputError(
            f"one side has {len(emitted.offset) - 1:,} lines, the other {len(conditioning.offset) - 1:,}: sentences "
            "and translations must be aligned line by line"
        )
    return Sides(emitted.words, emitted.offset, conditioning.words, conditioning.offset)


_WORDS_AT_ONCE = 1_000_000
STEM = 4
"""Length of a stem in letters; a shorter word is its own stem."""


def stem_side(side: Side) -> Side:
    """Return the side with each word replaced by its stem."""
    numbers = numbering()
    of_word = np.array([numbers[word[:STEM]] for word in side.vocabulary], np.int32)
    words = np.empty_like(side.words)
    # numpy converts indices to 64 bits, so look up some words at a time.
    for first in range(0, len(words), _WORDS_AT_ONCE):
        part = slice(first, first + _WORDS_AT_ONCE)
        words[part] = of_word[side.words[part]]
    return Side(words, side.offset, tuple(numbers))


class Direction(NamedTuple):
    """One direction of a corpus: its arrays and both vocabularies."""

    sides: Sides
    emitted: Side
    conditioning: Side


def make_direction(emitted: Side, conditioning: Side) -> Direction:
    """Return the direction that emits the words of `emitted`. Raises `AlignmentInputError` if lengths differ."""
    return Direction(make_sides(emitted, conditioning), emitted, conditioning)


def number_bigrams(emitted: Side) -> tuple[NDArray[np.int32], int]:
    """Assign numbers to the (previous word, word) bigrams of emitted positions. Returns int32[N] and their count."""
    before = np.roll(emitted.words, 1).astype(np.int64)
    before[emitted.offset[:-1][np.diff(emitted.offset) > 0]] = len(emitted.vocabulary)
    distinct, numbers = np.unique(before << 32 | emitted.words, return_inverse=True)
    return numbers.astype(np.int32), len(distinct)
