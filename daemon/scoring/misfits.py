"""Words that do not belong: found by what the store itself teaches.

Of stored pairs some words are replaced by others of the corpus. A logistic regression learns which words were, from how
each fits its neighbours (`Contexts`) and the other side. docs/model.md, section 8, has the equations.
"""

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


_FEATURES = 9
_LARGEST = 4.0
"""Standard deviations from the mean beyond which a feature says no more."""
_RIDGE = 1.0
_STEPS = 25
_FEWEST = 5


class Fit(NamedTuple):
    """What is known of a pair's words: `together` float64[n, m], how often two are linked in other pairs, how many
    links the words of either side have, their probabilities anywhere, and how they fit their neighbours
    (float64[words, 3], see `Contexts.fit`)."""

    together: NDArray[np.float64]
    links: tuple[NDArray[np.float64], NDArray[np.float64]]
    alone: tuple[NDArray[np.float64], NDArray[np.float64]]
    neighbours: tuple[NDArray[np.float64], NDArray[np.float64]]


def features_of(fit: Fit, side: int) -> NDArray[np.float64]:
    """What tells whether each word of a side (0: source, 1: target) belongs, float64[words, 9]."""
    other = 1 - side
    together = fit.together if side else fit.together.T
    own, others = fit.alone[side], fit.alone[other]
    given = (together + own) / (fit.links[other][:, None] + 1)
    back = (together + others[:, None]) / (fit.links[side] + 1)
    share = (back / back.sum(axis=1, keepdims=True)).sum(axis=0)
    words = np.column_stack(
        [
            np.log(given.mean(axis=0) / own),
            np.log(given.max(axis=0) / own),
            np.log((back / others[:, None]).max(axis=0)),
            np.log(share + 0.02),
            np.log(own),
            np.full(len(own), np.log(len(own))),
        ]
    )
    return np.hstack([fit.neighbours[side], words])


class Classifier:
    """Log-odds that a word was replaced, as if one in two were."""

    def __init__(self, kept: NDArray[np.float64], replaced: NDArray[np.float64]) -> None:
        """Learns from the features of words that belong, and of words that were put in the place of others."""
        both = np.vstack([kept, replaced])
        self._mean, self._deviation = both.mean(axis=0), both.std(axis=0) + 1e-9
        rows = self._expanded(both)
        wanted = np.concatenate([np.zeros(len(kept)), np.ones(len(replaced))])
        ridge = np.full(rows.shape[1], _RIDGE)
        ridge[-1] = 1e-6
        weights = np.zeros(rows.shape[1])
        for _ in range(_STEPS):
            odds = np.clip(rows @ weights, -30, 30)
            said = 1 / (1 + np.exp(-odds))
            slope = rows.T @ (wanted - said) - ridge * weights
            curve = (rows * (said * (1 - said))[:, None]).T @ rows + np.diag(ridge)
            step = np.linalg.solve(curve, slope)
            weights += step
            if np.abs(step).max() < 1e-6:
                break
        self._weights = weights
        self._prior = np.log(len(replaced) / len(kept))

    def _expanded(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features, their negative parts, products of each two, and 1."""
        scaled = np.clip((features - self._mean) / self._deviation, -_LARGEST, _LARGEST)
        first, second = np.triu_indices(scaled.shape[1])
        return np.hstack(
            [scaled, np.minimum(scaled, 0), scaled[:, first] * scaled[:, second], np.ones((len(scaled), 1))]
        )

    def odds(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Natural log of the odds of each word, float64[words]."""
        found: NDArray[np.float64] = self._expanded(features) @ self._weights - self._prior
        return found


def learn(kept: list[NDArray[np.float64]], replaced: list[NDArray[np.float64]]) -> Classifier | None:
    """A classifier of these words; None where there are too few."""
    if sum(map(len, kept)) < _FEWEST or sum(map(len, replaced)) < _FEWEST:
        return None
    return Classifier(np.vstack(kept), np.vstack(replaced))


def spoil(words: list[int], tokens: NDArray[np.int32], random: np.random.Generator) -> tuple[list[int], list[int]]:
    """A fifth of the words, one at least, replaced by words of the corpus; and their positions.

    `tokens` are all words of the side, one by one; nothing is replaced where they are all the same.
    """
    spoiled = list(words)
    places = random.permutation(len(words))[: max(1, round(len(words) / 5))].tolist()
    done = []
    for place in places:
        for word in tokens[random.integers(len(tokens), size=8)].tolist():
            if word != spoiled[place]:
                spoiled[place] = word
                done.append(place)
                break
    return spoiled, done
