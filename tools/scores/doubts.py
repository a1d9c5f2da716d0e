"""Doubt: one number of a pair, from its probability and from facts that are cheap: numbers that differ, and copies.

docs/model.md, section 8, has the equation.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_DIFFERENT_NUMBERS = 4.0
_COPIED = 4.0
_LEAST_DEVIATION = 0.05
_OF_NORMAL = 1.4826
"""Standard deviations of a normal distribution in its median absolute deviation."""
_DIGITS = re.compile(r"\D+")


class Usual(NamedTuple):
    """Hold what evidence and log-probability are usual: the median and the deviation of each."""

    evidence: tuple[float, float]
    log_probability: tuple[float, float]


def usual_of(evidence: Sequence[float], log_probability: Sequence[float]) -> Usual:
    """Return what is usual where some pairs have these values: their medians, whatever a few of them are."""
    found = []
    for values in (evidence, log_probability):
        middle = float(np.median(values))
        spread = _OF_NORMAL * float(np.median(np.abs(np.array(values) - middle)))
        found.append((middle, max(spread, _LEAST_DEVIATION)))
    return Usual(*found)


def doubt(usual: Usual, evidence: float, log_probability: float, source: Sequence[str], target: Sequence[str]) -> float:
    """Return how doubtful a pair is: deviations from what is usual, and what its texts show."""
    least = max(
        (usual.evidence[0] - evidence) / usual.evidence[1],
        (usual.log_probability[0] - log_probability) / usual.log_probability[1],
    )
    return least + _DIFFERENT_NUMBERS * (_numbers(source) != _numbers(target)) + _COPIED * _copied(source, target)


def _numbers(words: Sequence[str]) -> set[str]:
    return {digits for word in words if (digits := _DIGITS.sub("", word))}


def _copied(source: Sequence[str], target: Sequence[str]) -> float:
    """Return which share of the words of the side that has fewer, those with letters, the other side has, too."""
    one, other = _with_letters(source), _with_letters(target)
    return len(one & other) / (min(len(one), len(other)) or 1)


def _with_letters(words: Sequence[str]) -> set[str]:
    return {word.lower() for word in words if any(map(str.isalpha, word))}
