"""Tuning: decode, put the candidates into pools, train, decode again; the weights that translated best are taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.tuning.bleu import LENGTH, REFERENCE, SIZE, Bleu, References, Words, bleu_of, sentence_bleu
from hierogram.daemon.tuning.lengths import Ranked, fit_length
from hierogram.daemon.tuning.options import TuningOptions
from hierogram.daemon.tuning.pro import draw_pairs, interpolate, train

_SETTLED = 0.01
"""A smaller change, as a share of the largest weight that changes, is none."""


class Candidates(NamedTuple):
    """Translations of one sentence, best first: words, and features float64[k, F]."""

    words: Sequence[Words]
    features: NDArray[np.float64]


Decode = Callable[[NDArray[np.float64]], Sequence[Candidates]]
"""From weights float64[F] to the candidates of each sentence that is tuned on."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One round: the weights that were decoded with, what came of them, how many candidates were new."""

    weights: NDArray[np.float64]
    bleu: Bleu
    new: int


class Tuned(NamedTuple):
    """The weights that gave the best BLEU, and all rounds in order."""

    weights: NDArray[np.float64]
    history: list[Iteration]


class _Pool:
    """All candidates of one sentence so far."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._of_words: dict[Words, NDArray[np.float64]] = {}
        self._known: set[tuple[Words, bytes]] = set()
        self._features: list[NDArray[np.float64]] = []
        self._statistics: list[NDArray[np.float64]] = []

    def statistics(self, words: Words) -> NDArray[np.float64]:
        """What of the references is in these words."""
        if words not in self._of_words:
            self._of_words[words] = self._references.statistics(words)
        return self._of_words[words]

    def add(self, candidates: Candidates) -> int:
        """Take candidates; how many are new."""
        before = len(self._known)
        for words, features in zip(candidates.words, candidates.features, strict=True):
            # Sums in other orders differ in their last digits.
            key = (words, np.round(features, 6).tobytes())
            if key not in self._known:
                self._known.add(key)
                self._features.append(features)
                self._statistics.append(self.statistics(words))
        return len(self._known) - before

    def has_pairs(self) -> bool:
        """Whether there are two candidates."""
        return len(self._features) > 1

    def ranked(self, weights: NDArray[np.float64]) -> Ranked:
        """The candidates, of which there is one, under weights."""
        statistics = np.array(self._statistics)
        return Ranked(np.array(self._features) @ weights, statistics[:, LENGTH], statistics[:, REFERENCE])

    def has_any(self) -> bool:
        """Whether there is a candidate."""
        return bool(self._features)

    def differences(self, random: np.random.Generator, options: TuningOptions) -> NDArray[np.float64]:
        """Features of better candidates less those of worse ones, float64[n, F]."""
        features = np.array(self._features)
        better, worse = draw_pairs(random, sentence_bleu(np.array(self._statistics)), options)
        return features[better] - features[worse]


def tune(
    decode: Decode,
    references: Sequence[Sequence[Words]],
    weights: NDArray[np.float64],
    options: TuningOptions,
    words: int | None = None,
) -> Tuned:
    """Tune weights float64[F], from where they are, to BLEU against one or more references of each sentence.

    The weight of the feature `words` (its place; None: there is none) is fitted to the length of the references after
    each training, as the options say.

    The same arguments give the same weights. It ends early where no candidate is new and weights hardly
    change, or no two candidates differ enough.
    """
    pools = [_Pool(References(texts)) for texts in references]
    history: list[Iteration] = []
    while True:
        decoded = decode(weights)
        total = np.zeros(SIZE)
        new = 0
        for pool, candidates in zip(pools, decoded, strict=True):
            total += pool.statistics(candidates.words[0] if candidates.words else ())
            new += pool.add(candidates)
        history.append(Iteration(weights, bleu_of(total), new))
        number = len(history)
        if number > options.iterations:
            break
        random = [np.random.default_rng([options.seed, number, k]) for k in range(len(pools))]
        found = [pool.differences(own, options) for pool, own in zip(pools, random, strict=True) if pool.has_pairs()]
        if not sum(map(len, found)):
            break
        last = weights
        weights = interpolate(last, train(np.concatenate(found)), options.interpolation)
        if words is not None and options.length:
            lists = [pool.ranked(weights) for pool in pools if pool.has_any()]
            weights[words] += fit_length(lists, float(np.abs(weights).max()), options.length)
        if not new and _is_settled(last, weights):
            break
    best = max(history, key=lambda iteration: iteration.bleu.score)
    return Tuned(best.weights, history)


def _is_settled(last: NDArray[np.float64], weights: NDArray[np.float64]) -> bool:
    """Whether weights changed by next to nothing; those that are not trained do not count."""
    changed = weights != last
    if not changed.any():
        return True
    return bool(np.abs(weights - last).max() < _SETTLED * np.abs(weights[changed]).max())
