"""Words that do not belong: told from those that do by what the store itself teaches.

Of stored pairs some words are replaced by others of the corpus. A logistic regression learns which words were, from how
each fits its neighbours and the other side. docs/model.md, section 8, has the equations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
