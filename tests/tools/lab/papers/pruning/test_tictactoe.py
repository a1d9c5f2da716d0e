"""Figures of merit equal their definition. Every threshold keeps the whole pair and a bispan of each source span."""

import math

import numpy as np
import pytest

from hierogram.samplers.charts.pairs import span_index
from hierogram.tools.lab.papers.randomized_pruning import figures_of_merit, kept_bispans


def merit(target: np.ndarray, source: np.ndarray, bispan: tuple[int, int, int, int]) -> float:
    """Return ln of the product of the Model 1 probabilities of all words of both sides.

    A word inside the bispan is given the null word and the other side's words inside the bispan, a word outside is
    given the null word and the words outside.
    """
    n, m = len(source), target.shape[1]
    i, j, x, y = bispan
    total = 0.0
    for word in range(m):
        givers = [k for k in range(n) if (i <= k < j) == (x <= word < y)] + [n]
        total += math.log(sum(target[k, word] for k in givers) / len(givers))
    for word in range(n):
        givers = [k for k in range(m) if (x <= k < y) == (i <= word < j)] + [m]
        total += math.log(sum(source[word, k] for k in givers) / len(givers))
    return total


def test_figures_of_merit_equal_their_definition() -> None:
    random = np.random.default_rng(1)
    n, m = 3, 4
    target, source = random.random((n + 1, m)), random.random((n, m + 1))
    merits = figures_of_merit(target, source)
    for j in range(n + 1):
        for i in range(j + 1):
            for y in range(m + 1):
                for x in range(m + 1):
                    value = merits[span_index(i, j), x * (m + 1) + y]
                    if x > y:
                        assert value == -np.inf
                    else:
                        assert value == pytest.approx(merit(target, source, (i, j, x, y)), abs=1e-9)


def test_a_threshold_keeps_a_bispan_of_each_source_span_and_the_whole_pair() -> None:
    random = np.random.default_rng(2)
    merits = figures_of_merit(random.random((5, 3)), random.random((4, 4)))
    before = np.zeros_like(merits, bool)
    for ratio in (0.0, 1.0, 3.0, np.inf):
        kept = kept_bispans(merits, ratio)
        assert kept[span_index(0, 4), 3]
        assert (kept | ~before).all()
        assert kept.any(axis=1).all()
        before = kept
    assert kept_bispans(merits, 0.0).sum() <= len(merits) + 1
