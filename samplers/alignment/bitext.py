"""A parallel corpus as the aligner sees it: one side's words are emitted, those of the other are conditioning.

A word's number counts from 0 on its own side.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_allocating
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.keys import numbering

MOST_WORDS = 2**15 - 1
"""No sentence is longer: positions are 16-bit numbers."""


class Side(NamedTuple):
    """The sentences of one language: `words` int32[N], `offset` int64[P + 1], `vocabulary` the words by number."""

    words: NDArray[np.int32]
    offset: NDArray[np.int64]
    vocabulary: tuple[str, ...]


class Sides(NamedTuple):
    """The sentence pairs of one direction, in arrays.

    `emitted` int32[N], `emitted_offset` int64[P + 1]; `conditioning` int32[M], `conditioning_offset` int64[P + 1];
    `cell_offset` int64[P + 1] where a pair's (emitted, conditioning) positions begin in an array of all of them.
    """

    emitted: NDArray[np.int32]
    emitted_offset: NDArray[np.int64]
    conditioning: NDArray[np.int32]
    conditioning_offset: NDArray[np.int64]
    cell_offset: NDArray[np.int64]

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.emitted_offset) - 1

    @property
    def longest_emitted(self) -> int:
        """Most words of an emitted sentence."""
        return int((self.emitted_offset[1:] - self.emitted_offset[:-1]).max(initial=0))

    @property
    def longest_conditioning(self) -> int:
        """Most words of a conditioning sentence."""
        return int((self.conditioning_offset[1:] - self.conditioning_offset[:-1]).max(initial=0))


_LONGEST_FOLDED = 1024
"""A word that is longer than so many bytes in lower case stays as it is: stores take none that are longer."""


def tokens_of(sentence: str) -> list[str]:
    """The words of a sentence; spaces and tabs separate them, no other character does."""
    if "\t" in sentence or "\r" in sentence:
        sentence = sentence.rstrip("\r").replace("\t", " ")
    words = sentence.split(" ")
    return [word for word in words if word] if "" in words else words


def fold(word: str) -> str:
    """The word in lower case, as the aligner knows it."""
    folded = word.lower()
    return folded if len(folded) < _LONGEST_FOLDED // 4 or len(folded.encode()) <= _LONGEST_FOLDED else word


def read_side(sentences: Iterable[str], keep_case: bool = False) -> Side:
    """Number the words of sentences; without `keep_case` words that differ in case alone are one word.

    Raises `AlignmentInputError` where a sentence has more than `MOST_WORDS` words.
    """
    numbers = numbering()
    words: list[int] = []
    offset = [0]
    for number, sentence in enumerate(sentences, 1):
        # Lowered word by word: lowering may change the number of characters, never that of words.
        words_here = tokens_of(sentence)
        folded = words_here if keep_case else [fold(word) for word in words_here]
        if len(folded) > MOST_WORDS:
            raise AlignmentInputError(
                f"line {number} has {len(folded):,} words: no more than {MOST_WORDS:,} can be aligned"
            )
        words += map(numbers.__getitem__, folded)
        offset.append(len(words))
    return Side(np.array(words, np.int32), np.array(offset, np.int64), tuple(numbers))


def make_sides(emitted: Side, conditioning: Side) -> Sides:
    """The direction that generates one side from the other; raises `AlignmentInputError` if lengths differ."""
    if len(emitted.offset) != len(conditioning.offset):
        raise AlignmentInputError(
            f"one side has {len(emitted.offset) - 1:,} lines, the other {len(conditioning.offset) - 1:,}: "
            "a sentence and its translation must stand on the same line"
        )
    cells = np.diff(emitted.offset) * np.diff(conditioning.offset)
    cell_offset = np.zeros(len(emitted.offset), np.int64)
    np.cumsum(cells, out=cell_offset[1:])
    return Sides(emitted.words, emitted.offset, conditioning.words, conditioning.offset, cell_offset)


STEM = 4
"""So many letters of a word are its stem; a shorter word is its own."""


def stems_of(side: Side) -> Side:
    """The side with the stem of each word in its place."""
    numbers = numbering()
    of_word = [numbers[word[:STEM]] for word in side.vocabulary]
    return Side(np.array(of_word, np.int32)[side.words], side.offset, tuple(numbers))


class Direction(NamedTuple):
    """One direction of a corpus: its arrays, and both sides' words."""

    sides: Sides
    emitted: Side
    conditioning: Side


def make_direction(emitted: Side, conditioning: Side) -> Direction:
    """The direction that emits one side's words; raises `AlignmentInputError` where the sides' lengths differ."""
    return Direction(make_sides(emitted, conditioning), emitted, conditioning)


@njit_allocating
def _bigrams(words, offset, start):
    keys = np.empty(len(words), np.int64)
    for pair in range(len(offset) - 1):
        before = start
        for g in range(offset[pair], offset[pair + 1]):
            keys[g] = np.int64(before) << 32 | np.int64(words[g])
            before = words[g]
    return keys


def number_bigrams(emitted: Side) -> tuple[NDArray[np.int32], int]:
    """The number of the (word before, word) at each emitted position, int32[N], and how many there are.

    A start symbol, numbered after the last word, stands before the first word.
    """
    keys = _bigrams(emitted.words, emitted.offset, len(emitted.vocabulary))
    distinct, numbers = np.unique(keys, return_inverse=True)
    return numbers.astype(np.int32), len(distinct)
