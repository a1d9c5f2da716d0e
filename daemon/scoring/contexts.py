"""How often words of one side stand beside others: counts of neighbours, less what a sentence itself has added."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_STRENGTH = 2.0
"""Of a word's probability beside a neighbour, so many uses follow its probability anywhere."""


class _Counts(NamedTuple):
    """Different codes, ascending, and how often each was met."""

    codes: NDArray[np.uint64]
    times: NDArray[np.int64]

    @classmethod
    def of(cls, codes: NDArray[np.uint64]) -> "_Counts":
        """Of codes that were met."""
        return cls(*np.unique(codes, return_counts=True))

    def without(self, codes: NDArray[np.uint64], own: NDArray[np.uint64]) -> NDArray[np.float64]:
        """How often each of these was met, not counting the codes of a sentence's own."""
        found = np.zeros(len(codes))
        if len(self.codes):
            place = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
            found = np.where(self.codes[place] == codes, self.times[place], 0) - (codes[:, None] == own).sum(axis=1)
        return np.maximum(found, 0)


class _Codes(NamedTuple):
    """Codes of each word's neighbours: before it and itself, itself and after it, all three, and those around it."""

    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    all: NDArray[np.uint64]
    around: NDArray[np.uint64]
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


class Contexts:
    """Counts of neighbouring words of one side."""

    def __init__(self, tokens: NDArray[np.int32], first: NDArray[np.int64], words: int) -> None:
        """Of sentences one after the other: sentence k is `tokens[first[k] : first[k + 1]]`, all below `words`."""
        self._base = np.uint64(words + 3)
        met = self._codes(tokens, first)
        self._before, self._after, self._all, self._around, self._first, self._last = map(_Counts.of, met)

    def _codes(self, tokens: NDArray[np.int32], first: NDArray[np.int64]) -> _Codes:
        # Unknown words are -1: all numbers go up by one; two more stand for the edges of a sentence.
        base = self._base
        sizes = np.diff(first)
        padded = np.full(len(tokens) + 2 * len(sizes), base - np.uint64(1))
        padded[first[:-1] + 2 * np.arange(len(sizes))] = base - np.uint64(2)
        place = np.arange(len(tokens)) + 2 * np.repeat(np.arange(len(sizes)), sizes) + 1
        padded[place] = tokens + 1
        left, here, right = padded[place - 1], padded[place], padded[place + 1]
        return _Codes(
            left * base + here, here * base + right, (left * base + here) * base + right, left * base + right, left,
            right,
        )  # fmt: skip

    def _codes_of(self, sentence: list[int]) -> _Codes:
        return self._codes(np.array(sentence, np.int32), np.array([0, len(sentence)]))

    def fit(self, sentence: list[int], own: list[int], alone: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much more probable each word is after the word before it, before the word after it, and between both,
        than anywhere: natural logs, float64[words, 3].

        `own` is the stored sentence whose counts are left out, perhaps none; `alone` each word's probability anywhere.
        """
        codes, less = self._codes_of(sentence), self._codes_of(own)
        strength = _STRENGTH * alone
        left = (self._before.without(codes.before, less.before) + strength) / (
            self._first.without(codes.first, less.first) + _STRENGTH
        )
        right = (self._after.without(codes.after, less.after) + strength) / (
            self._last.without(codes.last, less.last) + _STRENGTH
        )
        between = (self._all.without(codes.all, less.all) + (left + right) / 2) / (
            self._around.without(codes.around, less.around) + 1
        )
        found: NDArray[np.float64] = np.log(np.stack([left, right, between], axis=1) / alone[:, None])
        return found
