"""Minimum Bayes risk decoding: of the likeliest translations of a sentence, take the one that is most like all of them.

It has the least expected loss [Kumar & Byrne 2004], where the loss is 1 less chrF++ [Popović 2017]. Where
little was learned, the single likeliest translation often owes its place to a word or two that are badly known.
A class model, which n-grams that nobody has seen do not stop, has its say in what is likely.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.language_models.classes import ClassModel

CANDIDATES, MORE_CANDIDATES = 50, 150
"""Translations, of different words, among which there is one to be found; and of which they are the likeliest, where a
class model says what is likely, too."""
_LETTERS, _WORDS = 6, 2
"""The longest n-grams of chrF++, of letters and of words."""
_RECALL = 2.0
"""Weight of recall beside precision: β."""
_SHARP = 0.5
"""The power to which likelihoods are taken: those of weights that nobody has tuned are too sure of themselves."""
_OF_CLASSES, _PER_LETTER = 0.5, 0.8
"""Weight of a class model's log-likelihood, and the share of its mean by letter that a text gets for each of its own.
Without such a share short texts would win; by the whole of it texts become longer by 3 %, and BLEU falls."""


def with_classes(
    texts: Sequence[Sequence[str]], scores: NDArray[np.float64], classes: ClassModel
) -> NDArray[np.float64]:
    """Return log-likelihoods (natural) of texts, of words each, float64[k], with a class model's share in them.

    That is without most of what it owes to lengths; docs/model.md, section 9.
    """
    found = math.log(10) * classes.scores(texts)
    letters = np.array([sum(map(len, text)) for text in texts])
    mean: float = found.sum() / max(int(letters.sum()), 1)
    return scores + _OF_CLASSES * (found - _PER_LETTER * mean * letters)


def most_agreed(texts: Sequence[Sequence[str]], scores: NDArray[np.float64]) -> int:
    """Return the place of the text, of words each, whose expected chrF++ is the highest; the first of equals.

    `scores` are log-likelihoods, float64[k], but for a constant. Only the likeliest texts are looked at.
    """
    likeliest = np.argsort(-scores, kind="stable")[:CANDIDATES]
    likely = np.exp(_SHARP * (scores[likeliest] - scores.max()))
    return int(likeliest[np.argmax(likenesses([texts[k] for k in likeliest]) @ likely)])


def likenesses(texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return chrF++ of each text, from 0 to 1, where each is the reference, float64[text, reference]."""
    number = len(texts)
    precision, recall, orders = np.zeros((3, number, number))
    letters = [[ord(letter) for word in text for letter in word] for text in texts]
    known: dict[str, int] = {}
    words = [[known.setdefault(word, len(known)) for word in text] for text in texts]
    for units, longest in ((letters, _LETTERS), (words, _WORDS)):
        for counts in _ngram_counts(units, longest):
            totals = counts.sum(axis=1)
            shared = np.array([np.minimum(own, counts).sum(axis=1) for own in counts])
            both = np.minimum.outer(totals, totals) > 0
            precision += np.where(both, shared / np.maximum(totals, 1)[:, None], 0)
            recall += np.where(both, shared / np.maximum(totals, 1)[None, :], 0)
            orders += both
    weighed = _RECALL**2 * precision + recall
    likeness = (1 + _RECALL**2) * precision * recall / np.where(weighed, weighed, 1)
    return likeness / np.maximum(orders, 1)


def _ngram_counts(units: Sequence[Sequence[int]], longest: int) -> list[NDArray[np.int32]]:
    """Return how often each text has each n-gram of its units, int32[text, n-gram], for each length up to a longest."""
    _, flat = np.unique(np.array([unit for own in units for unit in own], np.int64), return_inverse=True)
    bounds = [0, *accumulate(map(len, units))]
    singles = [flat[start:stop] for start, stop in pairwise(bounds)]
    different = int(flat.max(initial=0)) + 1
    grams, found = singles, []
    for length in range(1, longest + 1):
        if length > 1:
            # An n-gram is one that is shorter by a unit, and the unit behind it.
            grams = [own[:-1] * different + single[length - 1 :] for own, single in zip(grams, singles, strict=True)]
        _, flat = np.unique(np.concatenate(grams), return_inverse=True)
        bounds = [0, *accumulate(map(len, grams))]
        grams = [flat[start:stop] for start, stop in pairwise(bounds)]
        width = int(flat.max(initial=0)) + 1
        found.append(np.array([np.bincount(own, minlength=width) for own in grams], np.int32))
    return found
