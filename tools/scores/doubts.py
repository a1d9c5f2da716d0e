"""Doubt of a pair: one number from its probability, different numbers in its texts, and copied words.

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
"""Standard deviation of a normal distribution in units of its median absolute deviation."""
_DIGITS = re.compile(r"\D+")


class Usual(NamedTuple):
    """Median and deviation of evidence and log-probability over a sample of pairs."""

    evidence: tuple[float, float]
    log_probability: tuple[float, float]


def usual_of(evidence: Sequence[float], log_probability: Sequence[float]) -> Usual:
    """Return the medians and deviations of these values. Medians are robust against outliers."""
    found = []
    for values in (evidence, log_probability):
        middle = float(np.median(values))
        spread = _OF_NORMAL * float(np.median(np.abs(np.array(values) - middle)))
        found.append((middle, max(spread, _LEAST_DEVIATION)))
    return Usual(*found)


def doubt(usual: Usual, evidence: float, log_probability: float, source: Sequence[str], target: Sequence[str]) -> float:
    """Return the doubt of a pair: deviations of its scores from the sample, and differences between its texts."""
    least = max(
        (usual.evidence[0] - evidence) / usual.evidence[1],
        (usual.log_probability[0] - log_probability) / usual.log_probability[1],
    )
    return least + _DIFFERENT_NUMBERS * (_numbers(source) != _numbers(target)) + _COPIED * _copied(source, target)


def _numbers(words: Sequence[str]) -> set[str]:
    return {digits for word in words if (digits := _DIGITS.sub("", word))}


def _copied(source: Sequence[str], target: Sequence[str]) -> float:
    """Return the share of copied words: words with letters of the shorter side that the other side has, too."""
    one, other = _with_letters(source), _with_letters(target)
    return len(one & other) / (min(len(one), len(other)) or 1)


def _with_letters(words: Sequence[str]) -> set[str]:
    return {word.lower() for word in words if any(map(str.isalpha, word))}
