"""Minimum Bayes risk decoding: choose the translation that is most similar to the likeliest translations of a sentence.

This translation has the least expected loss [Kumar & Byrne 2004], 1 − chrF++ [Popović 2017]. With little training data,
the single likeliest translation often ranks first because of a few poorly estimated words. A class model, which also
scores unseen n-grams, contributes to the likelihoods.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.language_models.classes import ClassModel

CANDIDATES, MORE_CANDIDATES = 50, 150
"""Number of candidates to choose from, and number of decoded translations with a class model.

All candidates have different words. The class model selects the likeliest decoded translations.
"""
_LETTERS, _WORDS = 6, 2
"""Lengths of the longest n-grams of chrF++: letters and words."""
_RECALL = 2.0
"""Weight β of recall relative to precision."""
_SHARP = 0.5
"""Exponent of the likelihoods. Likelihoods under untuned weights are overconfident."""
_OF_CLASSES, _PER_LETTER = 0.5, 0.8
"""Weight of the class model's log-likelihood, and the share of its mean per letter to subtract.

The share is subtracted for each letter of a text, because otherwise short texts would win. With the whole mean, texts
become 3 % longer and BLEU falls.
"""


def add_class_scores(
    texts: Sequence[Sequence[str]], scores: NDArray[np.float64], classes: ClassModel
) -> NDArray[np.float64]:
    """Return natural log-likelihoods float64[k] of tokenized texts, with the class model's score added.

    Most of the class model's length bias is removed; see docs/model.md, section 9.
    """
    class_scores = math.log(10) * classes.scores(texts)
    letters = np.array([sum(map(len, text)) for text in texts])
    mean: float = class_scores.sum() / max(int(letters.sum()), 1)
    return scores + _OF_CLASSES * (class_scores - _PER_LETTER * mean * letters)


def choose_consensus(texts: Sequence[Sequence[str]], scores: NDArray[np.float64]) -> int:
    """Return the index of the tokenized text with the highest expected chrF++, the first one in a tie.

    `scores` are log-likelihoods float64[k] up to a constant. Only the likeliest texts are considered.
    """
    likeliest = np.argsort(-scores, kind="stable")[:CANDIDATES]
    likely = np.exp(_SHARP * (scores[likeliest] - scores.max()))
    return int(likeliest[np.argmax(pairwise_chrf([texts[k] for k in likeliest]) @ likely)])


def pairwise_chrf(texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return chrF++ (0 to 1) of each text against each text as reference, float64[text, reference]."""
    number = len(texts)
    precision, recall, orders = np.zeros((3, number, number))
    letters = [[ord(letter) for word in text for letter in word] for text in texts]
    numbers: dict[str, int] = {}
    words = [[numbers.setdefault(word, len(numbers)) for word in text] for text in texts]
    for units, longest in ((letters, _LETTERS), (words, _WORDS)):
        for counts in _ngram_counts(units, longest):
            totals = counts.sum(axis=1)
            shared = np.array([np.minimum(candidate_counts, counts).sum(axis=1) for candidate_counts in counts])
            are_nonempty = np.minimum.outer(totals, totals) > 0
            precision += np.where(are_nonempty, shared / np.maximum(totals, 1)[:, None], 0)
            recall += np.where(are_nonempty, shared / np.maximum(totals, 1)[None, :], 0)
            orders += are_nonempty
    weighed = _RECALL**2 * precision + recall
    likeness = (1 + _RECALL**2) * precision * recall / np.where(weighed, weighed, 1)
    return likeness / np.maximum(orders, 1)


def _ngram_counts(units: Sequence[Sequence[int]], longest: int) -> list[NDArray[np.int32]]:
    """Return the n-gram counts of each text, int32[text, n-gram], for each length up to `longest`."""
    _, flat = np.unique(
        np.array([unit for candidate_units in units for unit in candidate_units], np.int64), return_inverse=True
    )
    bounds = [0, *accumulate(map(len, units))]
    singles = [flat[start:stop] for start, stop in pairwise(bounds)]
    different = int(flat.max(initial=0)) + 1
    grams, counts = singles, []
    for length in range(1, longest + 1):
        if length > 1:
            # Extend each n-gram by the unit after it.
            grams = [
                candidate_units[:-1] * different + single[length - 1 :]
                for candidate_units, single in zip(grams, singles, strict=True)
            ]
        _, flat = np.unique(np.concatenate(grams), return_inverse=True)
        bounds = [0, *accumulate(map(len, grams))]
        grams = [flat[start:stop] for start, stop in pairwise(bounds)]
        width = int(flat.max(initial=0)) + 1
        counts.append(np.array([np.bincount(candidate_units, minlength=width) for candidate_units in grams], np.int32))
    return counts
