"""Lexicon: what other pairs say of a pair's words: alone, linked, without a link, and beside their neighbours."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.scoring.learned import Learned, Own, Report, Sides
from hierogram.daemon.scoring.misfits import Classifier, Fit, features_of, learn, spoil

_LINK_DISCOUNT = 0.5
_UNSEEN_WORD = 0.5
_REPORTED = 100

Both = tuple[NDArray[np.float64], NDArray[np.float64]]
"""An array of each side."""


class Lexicon:
    """The words of pairs, less what a pair itself has added."""

    def __init__(self, learned: Learned) -> None:
        self._learned = learned
        self._totals = [float(counts.sum()) for counts in learned.word_counts]

    def alone(self, sides: Sides, own: Own) -> Both:
        """Return the probability of each word on its own: its relative frequency in all other pairs, smoothed."""
        found = []
        for side, words in enumerate(sides):
            counts = self._learned.word_counts[side]
            less = own.words[side]
            seen = np.array([counts[word] - less[word] if word >= 0 else 0 for word in words], np.float64)
            left = self._totals[side] - less.total() + _UNSEEN_WORD * (len(counts) + 1)
            found.append((seen + _UNSEEN_WORD) / left)
        return found[0], found[1]

    def nulls(self, sides: Sides, alone: Both, own: Own) -> Both:
        """Return the probability of each word without a link, by how often it has none in other pairs."""
        found = np.zeros(len(sides[0])), np.zeros(len(sides[1]))
        for side, words in enumerate(sides):
            counts, linked = self._learned.word_counts[side], self._learned.linked_counts[side]
            rate = 1 - float(linked.sum()) / max(self._totals[side], 1)
            for k, word in enumerate(words):
                seen = float(counts[word]) - own.words[side][word] if word >= 0 else 0.0
                free = max(seen - (float(linked[word]) - own.linked[side][word] if word >= 0 else 0.0), 0)
                found[side][k] = alone[side][k] * (free + rate) / (seen + 1) / max(rate, 1e-6)
        return found

    def linked(self, sides: Sides, own: Own) -> NDArray[np.float64]:
        """Return how often each two words are linked in other pairs, float64[n, m]."""
        known = self._learned.links
        seen = np.array([[known[(f, e)] - own.links[(f, e)] for e in sides[1]] for f in sides[0]], np.float64)
        return np.maximum(seen, 0)

    def pairs(self, sides: Sides, linked: NDArray[np.float64], alone: Both, own: Own) -> NDArray[np.float64]:
        """Return the base's probability of each two words, [P(f) P(e|f) P(e) P(f|e)]^½, from other pairs' links."""
        kept = np.maximum(linked - _LINK_DISCOUNT, 0)
        forward, backward = self._given(0, sides[0], own)[:, None], self._given(1, sides[1], own)[None, :]
        given_source = kept * forward[..., 0] + forward[..., 1] * alone[1][None, :]
        given_target = kept * backward[..., 0] + backward[..., 1] * alone[0][:, None]
        found: NDArray[np.float64] = np.sqrt(alone[0][:, None] * given_source * alone[1][None, :] * given_target)
        return found

    def fit(self, sides: Sides, linked: NDArray[np.float64], alone: Both, own: Own) -> Fit:
        """Return how each word fits its neighbours and the other side."""
        contexts = self._learned.contexts
        return Fit(
            linked,
            (self._links(0, sides[0], own)[0], self._links(1, sides[1], own)[0]),
            alone,
            (contexts[0].fit(sides[0], own.sides[0], alone[0]), contexts[1].fit(sides[1], own.sides[1], alone[1])),
        )

    def classifier(self, side: int, report: Report) -> Classifier | None:
        """Learn what tells words of a side that do not belong from others, by stored pairs with some replaced."""
        random = np.random.default_rng([self._learned.settings.seed, side])
        kept, replaced = [], []
        for done, (sides, alignment) in enumerate(self._learned.examples):
            if done % _REPORTED == 0:
                report("learning which words belong", done, len(self._learned.examples))
            own = Own.of_links(alignment, sides)
            kept.append(self._features(sides, own, side))
            spoiled, places = spoil(sides[side], self._learned.tokens[side], random)
            changed = (sides[0], spoiled) if side else (spoiled, sides[1])
            replaced.append(self._features(changed, own, side)[places])
        return learn(kept, replaced)

    def _features(self, sides: Sides, own: Own, side: int) -> NDArray[np.float64]:
        return features_of(self.fit(sides, self.linked(sides, own), self.alone(sides, own), own), side)

    def _given(self, side: int, words: list[int], own: Own) -> NDArray[np.float64]:
        """Return factors that make probabilities of words' discounted links, and what is left for words without one."""
        totals, types = self._links(side, words, own)
        return np.stack([1 / (totals + 1), (_LINK_DISCOUNT * types + 1) / (totals + 1)], axis=1)

    def _links(self, side: int, words: list[int], own: Own) -> Both:
        """Return how many links each word has in other pairs, and with how many different words."""
        learned = self._learned
        totals, partners = learned.link_totals[side], learned.partners[side]
        less: Counter[int] = Counter()
        gone: Counter[int] = Counter()
        for link, times in own.links.items():
            less[link[side]] += times
            gone[link[side]] += learned.links[link] <= times
        found = np.zeros((2, len(words)))
        for k, word in enumerate(words):
            if word >= 0:
                # What is learned may be older than the pair's present links.
                found[:, k] = max(float(totals[word]) - less[word], 0), max(float(partners[word]) - gone[word], 0)
        return found[0], found[1]
