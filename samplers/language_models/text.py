"""Tokenised text as the numbers of its words, and the n-grams that end at each word."""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.language_models.arpa import AT, ENOUGH, LINE, MORE, NO_ROOM, ROWS, field
from hierogram.samplers.language_models.model import BEGIN, END, FREE
from hierogram.samplers.language_models.vocabulary import GrowingVocabulary, add

MARK = -1
"""How reading ends where <s> or </s> stands in a line."""

_LINE_FEED = 10


@njit
def _read_words(text, cursor, vocabulary, size, numbers):
    """See `read_words`."""
    while True:
        at = cursor[AT]
        end = at
        while end < len(text) and text[end] != _LINE_FEED:
            end += 1
        if end == len(text):
            return MORE
        filled = cursor[ROWS]
        while True:
            start, at = field(text, at, end)
            if start == end:
                break
            if filled + 1 >= len(numbers):
                return ENOUGH
            number = add(vocabulary, size, text, start, at)
            if number == FREE:
                return NO_ROOM
            if number in (BEGIN, END):
                return MARK
            numbers[filled] = number
            filled += 1
        if filled > cursor[ROWS]:
            numbers[filled] = END
            cursor[ROWS] = filled + 1
        cursor[AT] = end + 1
        cursor[LINE] += 1


def read_words(
    text: NDArray[np.uint8], cursor: NDArray[np.int64], vocabulary: GrowingVocabulary, numbers: NDArray[np.int32]
) -> int:
    """Number the words of whole lines, END behind each line that is not empty; how that ended: `MORE` text is needed,
    there are `ENOUGH` numbers, the vocabulary has `NO_ROOM`, or `MARK`. The cursor is on that line.
    """
    return int(_read_words(text, cursor, vocabulary.arrays, vocabulary.size, numbers))


@njit
def _fill_ngrams(numbers, ngrams):
    """See `ngrams_at`."""
    order = len(ngrams)
    for k in range(len(numbers)):
        inside = True
        ngrams[order - 1, k] = numbers[k]
        for back in range(1, order):
            inside = inside and back <= k and numbers[k - back] != END
            ngrams[order - 1 - back, k] = numbers[k - back] if inside else BEGIN


def ngrams_at(numbers: NDArray[np.int32], order: int) -> NDArray[np.int32]:
    """The n-gram that ends at each word, a column each, int32[order, n]; numbers int32[n] begin a sentence.

    Before the first word of a sentence stands BEGIN, as often as needed.
    """
    ngrams = np.empty((order, len(numbers)), np.int32)
    _fill_ngrams(numbers, ngrams)
    return ngrams
