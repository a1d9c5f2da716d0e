"""Words that do not belong: found by what the store itself teaches.

Of stored pairs some words are replaced by others of the corpus. A logistic regression learns which words were, from how
each fits its neighbours (`Contexts`) and the other side. docs/model.md, section 8, has the equations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_STRENGTH = 2.0
"""Of a word's probability beside a neighbour, so many uses follow its probability anywhere."""


def _times(
    met: NDArray[np.uint64], times: NDArray[np.int64], codes: NDArray[np.uint64], own: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Return how often each of these codes was met (different ones, ascending), without a sentence's own."""
    found = np.zeros(len(codes))
    if len(met):
        place = np.minimum(np.searchsorted(met, codes), len(met) - 1)
        found = np.where(met[place] == codes, times[place], 0) - (codes[:, None] == own).sum(axis=1)
    return np.maximum(found, 0)


class Contexts:
    """Counts of neighbouring words of one side."""

    def __init__(self, tokens: NDArray[np.int32], first: NDArray[np.int64], words: int) -> None:
        """Count those of sentences: sentence k is `tokens[first[k] : first[k + 1]]`, all below `words`."""
        self._base = np.uint64(words + 3)
        self._met = [np.unique(codes, return_counts=True) for codes in self._codes(tokens, first)]

    def _codes(self, tokens: NDArray[np.int32], first: NDArray[np.int64]) -> list[NDArray[np.uint64]]:
        """Return codes of words' neighbours: before and itself, itself and after, all three, around, before, after."""
        # Unknown words are -1: all numbers go up by one; two more stand for the edges of a sentence.
        base = self._base
        sizes = np.diff(first)
        padded = np.full(len(tokens) + 2 * len(sizes), base - np.uint64(1))
        padded[first[:-1] + 2 * np.arange(len(sizes))] = base - np.uint64(2)
        place = np.arange(len(tokens)) + 2 * np.repeat(np.arange(len(sizes)), sizes) + 1
        padded[place] = tokens + 1
        left, here, right = padded[place - 1], padded[place], padded[place + 1]
        return [
            left * base + here, here * base + right, (left * base + here) * base + right, left * base + right, left,
            right,
        ]  # fmt: skip

    def _codes_of(self, sentence: list[int]) -> list[NDArray[np.uint64]]:
        return self._codes(np.array(sentence, np.int32), np.array([0, len(sentence)]))

    def fit(self, sentence: list[int], own: list[int], alone: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much more probable each word is after that before it, before that after it, and between both, than
        anywhere: natural logs, float64[words, 3].

        `own` is the stored sentence whose counts are left out, perhaps none; `alone` each word's probability anywhere.
        """
        codes, less = self._codes_of(sentence), self._codes_of(own)
        before, after, both, around, first, last = (
            _times(*met, asked, own_codes) for met, asked, own_codes in zip(self._met, codes, less, strict=True)
        )
        strength = _STRENGTH * alone
        left = (before + strength) / (first + _STRENGTH)
        right = (after + strength) / (last + _STRENGTH)
        between = (both + (left + right) / 2) / (around + 1)
        found: NDArray[np.float64] = np.log(np.stack([left, right, between], axis=1) / alone[:, None])
        return found


_LARGEST = 4.0
"""Standard deviations from the mean beyond which a feature says no more."""
_RIDGE = 1.0
_STEPS = 25
_FEWEST = 5


class Fit(NamedTuple):
    """Facts of a pair's words: `together` float64[n, m], how often two are linked in other pairs, how many
    links the words of either side have, their probabilities anywhere, and how they fit their neighbours
    (float64[words, 3], see `Contexts.fit`)."""

    together: NDArray[np.float64]
    links: tuple[NDArray[np.float64], NDArray[np.float64]]
    alone: tuple[NDArray[np.float64], NDArray[np.float64]]
    neighbours: tuple[NDArray[np.float64], NDArray[np.float64]]


def features_of(fit: Fit, side: int) -> NDArray[np.float64]:
    """Return what tells whether each word of a side (0: source, 1: target) belongs, float64[words, 9]."""
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
        """Learn from the features of words that belong, and of words that were put in the place of others."""
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
        """Return features, their negative parts, products of each two, and 1."""
        scaled = np.clip((features - self._mean) / self._deviation, -_LARGEST, _LARGEST)
        first, second = np.triu_indices(scaled.shape[1])
        return np.hstack(
            [scaled, np.minimum(scaled, 0), scaled[:, first] * scaled[:, second], np.ones((len(scaled), 1))]
        )

    def odds(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the natural log of the odds of each word, float64[words]."""
        found: NDArray[np.float64] = self._expanded(features) @ self._weights - self._prior
        return found


def learn(kept: list[NDArray[np.float64]], replaced: list[NDArray[np.float64]]) -> Classifier | None:
    """Return a classifier of these words; None where there are too few."""
    if sum(map(len, kept)) < _FEWEST or sum(map(len, replaced)) < _FEWEST:
        return None
    return Classifier(np.vstack(kept), np.vstack(replaced))


def spoil(words: list[int], tokens: NDArray[np.int32], random: np.random.Generator) -> tuple[list[int], list[int]]:
    """Replace a fifth of the words, one at least, by words of the corpus; return all words and the positions.

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
