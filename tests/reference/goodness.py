"""Goodness of fit: Pearson's chi-square test with small cells pooled."""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import TypeVar

from scipy.special import chdtrc

Key = TypeVar("Key")
MIN_EXPECTED = 10.0
"""Expected samples below which cells are pooled."""


def p_value(samples: Iterable[Key], expected: dict[Key, float]) -> float:
    """Return the probability of a chi-square at least as large as observed, or 0 if a sample is impossible."""
    observed = Counter(samples)
    if observed.keys() - {key for key, p in expected.items() if p > 0}:
        return 0.0
    n = observed.total()
    cells: list[tuple[float, float]] = []
    pooled_observed, pooled_expected = 0.0, 0.0
    for key, p in sorted(expected.items(), key=lambda item: item[1]):
        if n * p < MIN_EXPECTED or 0 < pooled_expected < MIN_EXPECTED:
            pooled_observed += observed[key]
            pooled_expected += n * p
        else:
            cells.append((observed[key], n * p))
    if pooled_expected > 0:
        cells.append((pooled_observed, pooled_expected))
    if len(cells) < 2:
        raise ValueError(f"{n} samples are too few to fill two cells")
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    # This equals scipy.stats.chi2.sf, but scipy.stats takes a second to load.
    return float(chdtrc(len(cells) - 1, statistic))


def draws(distribution: dict[Key, float], count: int, seed: int) -> list[Key]:
    return Random(seed).choices(list(distribution), list(distribution.values()), k=count)
