"""The summed weight of all derivations from masked charts.

Each mask gives the weight of the derivations that it keeps, which is the whole weight Z times the probability that
they have together. For one mask of reference, (s*, a*), this probability is the mean over all other masks of the
probability that a derivation under them agrees with (s*, a*): a soft count, from a chart that both masks prune. So
Z = Z(s*, a*) / P(a* on s*) [Chib 1995].
"""

from typing import NamedTuple

import numpy as np

from hierogram.samplers.charts.hypergraph import score, total_of
from hierogram.samplers.charts.pruning.averages import Averages, averages
from hierogram.samplers.charts.pruning.chain import PruningKernel, PruningState
from hierogram.samplers.charts.pruning.selection import selected_size
from hierogram.samplers.charts.pruning.systems import System


class Estimate(NamedTuple):
    """Natural log of the summed weight of all derivations, its Monte Carlo standard error, and the features' averages.

    Where no error can be told, of a single batch of masks, it is NaN.
    """

    log_total: float
    error: float
    features: Averages


def estimate(system: System, masks: int, key: int, number: int = 0) -> Estimate:
    """The sum and the expected features from so many masks; exact from one where nothing is selected.

    A quarter of the masks come before those that count. Raises `GrammarError` where there is no derivation.
    """
    if not selected_size(system.variables):
        nothing = np.zeros(system.variables, np.bool_)
        scores = score(system.build(nothing, nothing))
        features = system.features(scores.expected)
        return Estimate(float(np.log(scores.total)), 0.0, Averages(features, np.zeros(len(features))))
    kernel = PruningKernel(system, number)
    state = kernel.init(key)
    first = masks // 4
    for step in range(1, first + 1):
        state, _ = kernel.step(key, state, step)
    reference = state
    steps = []
    shares: dict[tuple[bytes, bytes], float] = {}
    for step in range(first + 1, max(masks, first + 1) + 1):
        after, pruned = kernel.step(key, state, step)
        mask = pruned.selection, pruned.positive
        if mask not in shares:
            shares[mask] = _share(system, PruningState(after.selected, state.assigned), pruned.log_total, reference)
        steps.append(pruned._replace(features=np.append(pruned.features, shares[mask])))
        state = after
    of_reference = float(np.log(total_of(system.build(reference.selected, reference.assigned))))
    found = averages(steps)
    share, error = float(found.mean[-1]), float(found.error[-1])
    if share == 0:
        # Nothing seen agrees with the reference but itself: it counts as one mask more, and may be off by as much.
        share = error = 1 / (len(steps) + 1)
    return Estimate(of_reference - float(np.log(share)), error / share, Averages(found.mean[:-1], found.error[:-1]))


def _share(system: System, mask: PruningState, log_total: float, reference: PruningState) -> float:
    """The probability that a derivation under a mask, whose weight is known, agrees with that of reference."""
    both = mask.selected & reference.selected
    if (mask.assigned[both] != reference.assigned[both]).any():
        return 0.0
    assigned = np.where(reference.selected, reference.assigned, mask.assigned)
    total = total_of(system.build(mask.selected | reference.selected, assigned))
    return float(np.exp(np.log(total) - log_total)) if total > 0 else 0.0
