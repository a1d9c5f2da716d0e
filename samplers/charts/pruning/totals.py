"""The summed weight of all derivations from masked charts.

Each mask gives the weight of the derivations that it keeps, which is the whole weight Z times the probability that
they have together. For one mask of reference, (s*, a*), this probability is the mean over all other masks of the
probability that a derivation under them agrees with (s*, a*): a soft count, from a chart that both masks prune. So
Z = Z(s*, a*) / P(a* on s*) [Chib 1995].
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import total_of
from hierogram.samplers.charts.pruning.chain import Averages, PruningKernel, PruningState, averages
from hierogram.samplers.charts.pruning.systems import System


class Estimate(NamedTuple):
    """Natural log of the summed weight of all derivations, its Monte Carlo standard error, and the features' averages.

    Where no error can be told, of a single batch of masks, it is NaN.
    """

    log_total: float
    error: float
    features: Averages


class _Step(NamedTuple):
    selected: NDArray[np.bool_]
    assigned: NDArray[np.bool_]
    log_total: float


def estimate(system: System, masks: int, key: int, number: int = 0) -> Estimate:
    """The sum and the expected features from so many masks; exact from one where nothing is selected.

    A quarter of the masks come before those that count. Raises `GrammarError` where there is no derivation.
    """
    kernel = PruningKernel(system, number)
    state = kernel.init(key)
    if not state.selected.any():
        state, pruned = kernel.step(key, state, 1)
        return Estimate(pruned.log_total, 0.0, averages(pruned.features[None], exact=True))
    first = masks // 4
    for step in range(1, first + 1):
        state, _ = kernel.step(key, state, step)
    reference = state
    steps, rows = [], []
    for step in range(first + 1, max(masks, first + 1) + 1):
        after, pruned = kernel.step(key, state, step)
        steps.append(_Step(after.selected, state.assigned, pruned.log_total))
        rows.append(pruned.features)
        state = after
    of_reference = float(np.log(total_of(system.build(reference.selected, reference.assigned))))
    shares = np.array([_share(system, step, reference) for step in steps])
    if not shares.any():
        # Nothing seen agrees with the reference but itself: it counts as one mask more.
        shares = np.append(shares, 1.0)
    share = averages(shares[:, None])
    return Estimate(
        of_reference - float(np.log(share.mean[0])), float(share.error[0] / share.mean[0]), averages(np.array(rows))
    )


def _share(system: System, step: _Step, reference: PruningState) -> float:
    """The probability that a derivation under a mask agrees with that of reference."""
    both = step.selected & reference.selected
    if (step.assigned[both] != reference.assigned[both]).any():
        return 0.0
    assigned = np.where(reference.selected, reference.assigned, step.assigned)
    total = total_of(system.build(step.selected | reference.selected, assigned))
    return float(np.exp(np.log(total) - step.log_total)) if total > 0 else 0.0
