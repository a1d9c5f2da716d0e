"""The summed weight of all derivations from masked charts.

Each mask gives the weight of the derivations that it keeps. Masks of one selection keep derivations apart, so their
weights add up; of the selection whose masks keep most, this sum is nearly the whole. The share that it is of the whole
is that of derivations drawn under the masks of other selections: Z = sum / share. It is the estimate of [Chib 1995]
with a set of references in the place of one.
"""

from typing import NamedTuple

import numpy as np

from hierogram.samplers.charts.hypergraph import score
from hierogram.samplers.charts.pruning.averages import Averages, averages, cover
from hierogram.samplers.charts.pruning.chain import PruningKernel, chained
from hierogram.samplers.charts.pruning.selection import selected_size
from hierogram.samplers.charts.pruning.systems import System


class Estimate(NamedTuple):
    """Natural log of the summed weight of all derivations, its Monte Carlo standard error, and the features' averages.

    Where features' errors cannot be told, of a single batch of masks, they are NaN.
    """

    log_total: float
    error: float
    features: Averages


def estimate(system: System, masks: int, key: int, number: int = 0) -> Estimate:
    """The sum and the expected features from so many masks of one chain; exact from one where nothing is selected.

    A dozen masks shall do. Of two chains, each mask would have the company of one other of its selection, and there
    would be half as many selections to compare.

    Raises `GrammarError` where there is no derivation.
    """
    if not selected_size(system.variables, system.branching):
        nothing = np.zeros(system.variables, np.bool_)
        scores = score(system.build(nothing, nothing))
        features = system.features(scores.expected)
        return Estimate(float(np.log(scores.total)), 0.0, Averages(features, np.zeros(len(features))))
    steps = chained(PruningKernel(system, number), masks, key)
    most = cover(steps)
    return Estimate(most.log_total - float(np.log(most.share)), most.error / most.share, averages(steps))
