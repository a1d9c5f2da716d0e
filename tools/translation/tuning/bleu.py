"""BLEU of tokenized text, from additive statistics, and sentence BLEU.

A candidate's statistics are float64[10]: matching n-grams of 1 to 4 words, n-grams of 1 to 4 words, its length in
words, and the length of the closest reference (the shorter one in a tie).
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = tuple[str, ...]

ORDER = 4
"""Length of the longest n-grams, in words."""
SIZE = 2 * ORDER + 2
LENGTH, REFERENCE = 2 * ORDER, 2 * ORDER + 1
"""Columns of the candidate's length and of its reference's length."""


class References:
    """References of one sentence."""

    def __init__(self, references: Sequence[Words]) -> None:
        """Count the n-grams of at least one reference."""
        self._lengths = sorted({len(reference) for reference in references})
        self._most: Counter[Words] = Counter()
        for reference in references:
            self._most |= _ngrams(reference)

    def statistics(self, words: Words) -> NDArray[np.float64]:
        """Return a candidate's statistics."""
        found = np.zeros(SIZE)
        for ngram, number in _ngrams(words).items():
            found[len(ngram) - 1] += min(number, self._most[ngram])
        found[ORDER:LENGTH] = [max(0, len(words) - n) for n in range(ORDER)]
        found[LENGTH] = len(words)
        found[REFERENCE] = min(self._lengths, key=lambda length: (abs(length - len(words)), length))
        return found


def _ngrams(words: Words) -> Counter[Words]:
    return Counter(words[k : k + n] for n in range(1, ORDER + 1) for k in range(len(words) - n + 1))


class Bleu(NamedTuple):
    """BLEU of a text, 0 to 100, and its length divided by the length of its references."""

    score: float
    ratio: float


def bleu_of(statistics: NDArray[np.float64]) -> Bleu:
    """Return BLEU from the summed statistics of all sentences [Papineni et al. 2002], without smoothing."""
    matches, totals = statistics[:ORDER], statistics[ORDER:LENGTH]
    length, reference = statistics[LENGTH], statistics[REFERENCE]
    ratio = float(length / reference) if reference else 1.0
    if not matches.all():
        return Bleu(0.0, ratio)
    penalty = min(0.0, 1 - reference / length)
    return Bleu(100 * float(np.exp(np.log(matches / totals).mean() + penalty)), ratio)


def sentence_bleu(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return BLEU+1 (0 to 1) of candidates, from statistics float64[k, 10].

    One is added to the counts of n-grams of two or more words [Lin & Och 2004], and to the reference length in the
    brevity penalty. Without the latter, tuning makes translations too short [Nakov, Guzmán & Vogel 2012].
    """
    added = np.array([0.0, 1.0, 1.0, 1.0])
    matches, totals = statistics[:, :ORDER] + added, statistics[:, ORDER:LENGTH] + added
    lengths = np.maximum(statistics[:, LENGTH], 1)
    with np.errstate(divide="ignore"):
        precision = np.log(matches / np.maximum(totals, 1)).mean(axis=1)
    penalty = np.minimum(0.0, 1 - (statistics[:, REFERENCE] + 1) / lengths)
    return np.asarray(np.exp(precision + penalty), np.float64)
