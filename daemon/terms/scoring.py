"""Which candidates are terms: log-likelihood ratios [Dunning 1993], consistency, and phrases within longer ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.terms.candidates import Candidates
from hierogram.daemon.terms.counting import places_among
from hierogram.daemon.terms.options import TermOptions
from hierogram.daemon.terms.phrases import grown
from hierogram.daemon.terms.vocabulary import Flags, Hashes, Numbers, Vocabulary

Reals = NDArray[np.float64]

_INSIDE = 0.8
"""A phrase is left out where a longer term with it has so large a share of its pairs."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Terms, best first, with their scores, log-likelihood ratios and cohesions, float64[n] each."""

    terms: Candidates
    scores: Reals
    ratios: Reals
    cohesions: Reals


def likelihood_ratio(both: Numbers, first: Numbers, second: Numbers, pairs: int) -> Reals:
    """2 ln λ of the dependence of two things [Dunning 1993], natural, at least 0; 0 where they repel each other.

    `both` counts pairs with both, `first` and `second` those with each, of `pairs` in all.
    """
    cells = np.stack((both, first - both, second - both, pairs - first - second + both)).astype(np.float64)
    cells = np.maximum(cells, 0)
    expected = np.stack((first * second, first * (pairs - second), (pairs - first) * second,
                         (pairs - first) * (pairs - second))).astype(np.float64) / max(pairs, 1)  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where((cells > 0) & (expected > 0), cells * np.log(cells / expected), 0.0)
    ratio: Reals = np.where(cells[0] > expected[0], np.maximum(2 * terms.sum(axis=0), 0.0), 0.0)
    return ratio


def best_terms(found: Candidates, pairs: int, options: TermOptions, source: Vocabulary, target: Vocabulary) -> Scored:
    """The best terms of so many pairs, those with the highest score first.

    The score of a term is its ratio by the cohesion of its less coherent side.
    """
    found = found.at((found.both >= options.min_count) & (found.both >= options.consistency * found.with_source))
    found = found.at(~_within_longer(found, source, target))
    ratios = likelihood_ratio(found.both, found.with_source, found.with_target, pairs)
    cohesions = np.minimum(
        cohesion(found.source_words, found.with_source, source), cohesion(found.target_words, found.with_target, target)
    )
    scores = ratios * np.maximum(cohesions, 0)
    order = np.lexsort((found.sources, -found.both, -scores))[: options.top]
    return Scored(found.at(order), scores[order], ratios[order], cohesions[order])


def cohesion(words: Numbers, counts: Numbers, known: Vocabulary) -> Reals:
    """Normalized pointwise mutual information of each phrase's first and last word [Bouma 2009]: 1 if neither is ever
    without the other, 0 if they meet as if by chance. 1 for single words.

    `counts` are the phrases' own.
    """
    lengths = (words >= 0).sum(axis=1)
    first = known.counts[words[:, 0]]
    last = known.counts[words[np.arange(len(words)), lengths - 1]]
    # As by chance, the first and the last word would meet at this distance so many times.
    total = float(known.total())
    expected = first.astype(np.float64) * last / total
    information = np.log(np.maximum(counts, 1) / np.maximum(expected, 1e-9))
    most = np.log(total / np.maximum(counts, 1))
    found: Reals = np.where(lengths > 1, np.minimum(information / np.maximum(most, 1e-9), 1), 1.0)
    return found


def _within_longer(found: Candidates, source: Vocabulary, target: Vocabulary) -> Flags:
    """Whether each lies on both sides within a longer term that has most of its pairs."""
    order = np.argsort(found.sources)
    ordered = found.sources[order]
    target_parts = list(_parts(found.target_words, target))
    inside = np.zeros(len(found), np.bool_)
    for hashes, rows, whole in _parts(found.source_words, source):
        if whole:
            continue
        places = places_among(ordered, hashes)
        shorter, longer = order[places[places >= 0]], rows[places >= 0]
        frequent = found.both[longer] >= _INSIDE * found.both[shorter]
        shorter, longer = shorter[frequent], longer[frequent]
        for others, other_rows, _ in target_parts:
            place = np.full(len(found), -1)
            place[other_rows] = np.arange(len(other_rows))
            there = place[longer] >= 0
            same = others[place[longer[there]]] == found.targets[shorter[there]]
            inside[shorter[there][same]] = True
    return inside


def _parts(words: Numbers, known: Vocabulary) -> "list[tuple[Hashes, Numbers, bool]]":
    """All parts of phrases: by begin and length, their hashes, the phrases' rows, whether they are all of these."""
    lengths = (words >= 0).sum(axis=1)
    parts = []
    values = known.values[np.maximum(words, 0)]
    for begin in range(words.shape[1]):
        hashes = np.zeros(len(words), np.uint64)
        for length in range(1, words.shape[1] - begin + 1):
            column = values[:, begin + length - 1]
            hashes = column if length == 1 else grown(hashes, column)
            longer = np.flatnonzero(lengths >= begin + length)
            whole = longer[lengths[longer] == length] if begin == 0 else longer[:0]
            part = np.setdiff1d(longer, whole)
            parts += [(hashes[rows], rows, rows is whole) for rows in (part, whole) if len(rows)]
    return parts
