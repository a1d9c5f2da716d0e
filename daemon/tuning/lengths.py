"""The weight of target words: with it alone, translations are made as long as their references."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_HALVINGS = 30
_FURTHEST = 0.5
"""The weight changes by at most this share of the largest weight at once: lists tell of what is near."""


class Ranked(NamedTuple):
    """The candidates of one sentence: scores, words, and words of the closest reference, float64[k] each."""

    scores: NDArray[np.float64]
    words: NDArray[np.float64]
    references: NDArray[np.float64]


def length_ratio(lists: Sequence[Ranked], change: float) -> float:
    """Words of the best candidates to those of their references, if each word's weight were changed by this much."""
    words = references = 0.0
    for own in lists:
        best = int(np.argmax(own.scores + change * own.words))
        words += own.words[best]
        references += own.references[best]
    return float(words / references) if references else 1.0


def fit_length(lists: Sequence[Ranked], largest: float, ratio: float) -> float:
    """The change of the words' weight by which the best candidates have `ratio` times the words of their references.

    Where the lists cannot show it, it goes as far as half the `largest` weight; 0 where they have it already.
    """
    if length_ratio(lists, 0.0) == ratio:
        return 0.0
    low, high = -_FURTHEST * largest, _FURTHEST * largest
    # The more a word weighs, the longer is the best candidate of each list.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if length_ratio(lists, middle) < ratio:
            low = middle
        else:
            high = middle
    return (low + high) / 2
