"""Selection chain: the variables that the next mask fixes [BPK09 §3.2].

With rules of up to b nonterminals, about b / (b + 1) of the variables are selected: two thirds with binary rules, as in
the paper. The other variables are *free*. Each step frees random variables, with preference for doubtful ones. It
frees at least the expected number of errors of the cheap model up to a limit, and some steps free more variables. A
selection depends on the step's number and the cheap model, but not on the assignment. Otherwise, the chain would not
converge to the right distribution.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key
from hierogram.samplers.compiled.jit import njit_allocating
from hierogram.samplers.compiled.streams import advance, stream, uniform

_WIDE = 4
"""Every fourth step is wide: it frees more variables, to reach more distant derivations."""
_WIDEST = 8
"""Number of the first of the widest steps. The other widest steps have 2, 4, 8, … times this number."""


def selected_size(variables: int, branching: int) -> int:
    """Return the number of selected variables for rules of up to `branching` nonterminals.

    It is branching / (branching + 1) of all variables, rounded, but at least half of them. Of four or more variables,
    at least two are free, because some variables can change only together with another one. A single variable is free.
    """
    if variables < 2:
        return 0
    share = round(branching * variables / (branching + 1))
    return max((variables + 1) // 2, min(share, variables - 2))


def free_size(doubts: NDArray[np.float64], branching: int, plan: int) -> int:
    """Return the number of variables that step `plan` frees, given `doubts` float64[V].

    - Most steps free the expected number of errors of the cheap model: the sum of doubts, rounded up. They free at most
      half of all variables, but at least the number that `selected_size` leaves free.
    - Wide steps free one variable more. They free at most two thirds of all variables, but at least
      1.5 / (branching + 1) of them.
    - Steps 8, 16, 32 and so on free at least seven tenths.

    Fractions are rounded up. If there are two or more variables, at least one remains selected.
    """
    variables = len(doubts)
    if variables < 2:
        return variables
    doubtful = ceil(float(doubts.sum()))
    if plan % _WIDE:
        least = variables - selected_size(variables, branching)
        return max(least, min(ceil(variables / 2), doubtful))
    free = max(ceil(1.5 * variables / (branching + 1)), min(ceil(2 * variables / 3), doubtful + 1))
    if plan >= _WIDEST and plan.bit_count() == 1:
        free = max(free, ceil(0.7 * variables))
    return min(free, variables - 1)


@njit_allocating
def doubtful_selection(doubts: NDArray[np.float64], free: int, key: Key) -> NDArray[np.bool_]:
    """Return a selection of all variables except `free` ones, which are drawn in proportion to `doubts`."""
    selected = np.ones(len(doubts), np.bool_)
    stream_state = stream(key.seed, key.pair, key.step)
    for _ in range(free):
        total = 0.0
        for v in range(len(doubts)):
            if selected[v]:
                total += doubts[v]
        stream_state = advance(stream_state)
        threshold = uniform(stream_state) * total
        chosen = 0
        for v in range(len(doubts)):
            if selected[v]:
                chosen = v
                threshold -= doubts[v]
                if threshold < 0.0:
                    break
        selected[chosen] = False
    return selected


def step_selection(doubts: NDArray[np.float64], branching: int, plan: int, key: Key) -> NDArray[np.bool_]:
    """Return the selection of step `plan`, bool[V]. The first wide step frees the most doubtful variables."""
    free = free_size(doubts, branching, plan)
    if plan != _WIDE:
        return doubtful_selection(doubts, free, key)
    selected = np.ones(len(doubts), np.bool_)
    selected[np.argsort(-doubts, kind="stable")[:free]] = False
    return selected
