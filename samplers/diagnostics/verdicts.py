"""What is wrong with the chains of a quantity, in a word."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.diagnostics.convergence import Draws, Summary, split

CONSTANT, STUCK, DRIFTING, APART, SHORT, SOUND = "constant", "stuck", "drifting", "apart", "short", "sound"
MEANINGS = {
    SOUND: "the chains agree",
    SHORT: "the chains agree, and have few effective draws",
    APART: "the chains stay at different values",
    DRIFTING: "the chains move on together: they have not burned in",
    STUCK: "a chain does not move while others do",
    CONSTANT: "every draw is the same",
}
"""What each verdict means."""
FLAGS = (STUCK, DRIFTING, APART)
"""Verdicts that say the draws cannot be trusted."""

R_HAT_LIMIT = 1.05
FEWEST_EFFECTIVE = 100.0
_STILL = 0.02
"""A chain is stuck where its standard deviation is less than this share of the median one."""


def verdicts(draws: Draws, summary: Summary) -> list[str]:
    """The verdict on each quantity of draws float64[S, C, N].

    Where R-hat is above 1.05, and the halves of chains differ by more than whole chains do, the chains drift; else they
    are apart.
    """
    halves, wholes = _variances(draws)
    stuck = _is_stuck(draws)
    return [
        _verdict(float(r_hat), float(effective), bool(still), bool(moves))
        for r_hat, effective, still, moves in zip(
            summary.r_hat, np.fmin(summary.ess_bulk, summary.ess_tail), stuck, halves > wholes, strict=True
        )
    ]


def _verdict(r_hat: float, effective: float, stuck: bool, moves: bool) -> str:
    if np.isnan(r_hat):
        return CONSTANT
    if stuck:
        return STUCK
    if r_hat > R_HAT_LIMIT:
        return DRIFTING if moves else APART
    return SHORT if effective < FEWEST_EFFECTIVE else SOUND


def _is_stuck(draws: Draws) -> NDArray[np.bool_]:
    deviations = draws.std(axis=2)
    return np.asarray((deviations < _STILL * np.median(deviations, axis=1, keepdims=True)).any(axis=1))


def _variances(draws: Draws) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean squared distance of a chain's two halves' means from the chain's, and the variance of the chains' means.

    What the chains' halves have in common is a drift; with one chain there are no others to be apart from.
    """
    chains = draws.shape[1]
    means = split(draws).mean(axis=2)
    first, last = means[:, :chains], means[:, chains:]
    drift = ((last - first).mean(axis=1) / 2) ** 2
    centers = (first + last) / 2
    return drift, centers.var(axis=1) if chains > 1 else np.zeros(len(draws))


def count_flags(found: Sequence[str]) -> dict[str, int]:
    """How many quantities have each verdict, those that none has left out."""
    return {verdict: number for verdict in MEANINGS if (number := sum(one == verdict for one in found))}
