"""Pairs for the tests of charts, in the formats of the kernels and of the enumeration."""

import numpy as np
from tests.reference.charts.enumeration import ANY, Pair

from hierogram.samplers.charts.pairs import PairWords, Rules, make_rules

X1, X2, X3 = -1, -2, -3
ITG = [([ANY], [ANY], 1.0), ([ANY], [], 1.0), ([], [ANY], 1.0), ([X1, X2], [X1, X2], 0.4), ([X1, X2], [X2, X1], 0.15)]
MIXED = [
    ([ANY], [ANY], 0.5),
    ([ANY, X1], [X1], 0.3),
    ([X1], [ANY, X1], 0.25),
    ([X1, X2], [X1, X2], 0.2),
    ([X1, 1, X2], [X2, 2, X1], 0.6),
    ([1, 2], [0], 0.4),
    ([X1, X2, X3], [X3, X1, X2], 0.3),
    ([X1, ANY, X2, X3], [X2, X1, ANY, X3], 0.35),
    ([0, X1, 2], [1, X1], 0.7),
]
"""Rules of one to three nonterminals, most of them mixed with words, and two rules of words only."""


def random_pair(rules: list, size: tuple[int, int], seed: int, empty_sides: bool = True) -> Pair:
    """Return a pair of random words 0 to 2 with random weights of emissions."""
    random = np.random.default_rng(seed)
    n, m = size
    return Pair(
        random.integers(0, 3, n).tolist(),
        random.integers(0, 3, m).tolist(),
        rules,
        random.random((n, m)),
        0.3 * random.random(n),
        0.3 * random.random(m),
        empty_sides,
    )


def to_kernels(pair: Pair, scaled: bool = True) -> tuple[Rules, PairWords]:
    """Return the pair in the kernels' format. If `scaled` is True, each word has a random scale."""
    random = np.random.default_rng(len(pair.source))
    n, m = len(pair.source), len(pair.target)
    rules = make_rules([rule[:2] for rule in pair.rules], np.array([rule[2] for rule in pair.rules]), pair.empty_sides)
    return rules, PairWords(
        np.array(pair.source, np.int32),
        np.array(pair.target, np.int32),
        pair.pairs,
        pair.source_nulls,
        pair.target_nulls,
        np.exp(random.normal(size=n)) if scaled else np.ones(n),
        np.exp(random.normal(size=m)) if scaled else np.ones(m),
    )


def all_links(pair: Pair) -> np.ndarray:
    """Return every word pair as a variable, int32[n · m, 2]."""
    return np.argwhere(np.ones(pair.pairs.shape, bool)).astype(np.int32)


def log_scale(words: PairWords) -> float:
    """Return the natural log of the common factor of all derivations."""
    return float(np.log(words.source_scale).sum() + np.log(words.target_scale).sum())
