"""The selection chain: which variables the next mask fixes [BPK09 §3.2].

With rules of up to b nonterminals, about b in b + 1 of the variables are selected: two thirds with binary rules, as in
the paper. Where nothing is known of the variables, each step selects all that were not, and as many of the others as
it takes to be as many again. Where a cheap model knows which values are doubtful, each step frees variables anew, the
doubtful ones more often; of a long chain as many as are in doubt, and more at some steps. A step looks at its number,
the selection and the cheap model alone, never at the assignment: a chain that did would not converge to the right
distribution.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform

_WIDE = 4
"""Every so-manieth step of a long chain is wide: some readings differ in more variables than are free at others."""
_WIDEST = 8
"""The first step that leaves most variables free; the others have twice the number of the last."""


def selected_size(variables: int, branching: int) -> int:
    """Return how many of so many variables are selected, where rules have up to `branching` nonterminals.

    It is the share branching / (branching + 1), rounded, but no less than half. Of four or more, two are free at least:
    one alone cannot change where two change together.
    """
    if variables < 2:
        return 0
    share = round(branching * variables / (branching + 1))
    return max((variables + 1) // 2, min(share, variables - 2))


def free_size(doubts: NDArray[np.float64], branching: int, plan: int) -> int:
    """Return how many variables step `plan` of a long chain leaves free; `doubts` float64[V].

    As many as the cheap model takes to be wrong, the sum of their doubts rounded up, up to half of all; but no fewer
    than `selected_size` leaves. Wide steps leave one more, up to two thirds, and half as many again at least; steps 8,
    16, 32 and so on leave seven tenths. One of two or more is selected at least.
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


def first_selection(variables: int, branching: int, key: Key) -> NDArray[np.bool_]:
    """A uniform selection, bool[V]."""
    selected = np.zeros(variables, np.bool_)
    keep_some(np.ones(variables, np.bool_), selected_size(variables, branching), key, selected)
    return selected


def next_selection(selected: NDArray[np.bool_], key: Key) -> NDArray[np.bool_]:
    """The selection after `selected`, bool[V]: all others, and a uniform part of these."""
    if not selected.any():
        return selected.copy()
    following = ~selected
    keep_some(selected, int(selected.sum()) - int(following.sum()), key, following)
    return following


def doubtful_selection(doubts: NDArray[np.float64], free: int, key: Key) -> NDArray[np.bool_]:
    """A selection, bool[V], of all but `free` variables. These are taken by their doubts, float64[V] above 0: one after
    the other, each of those that are left with a probability in proportion to its doubt."""
    selected = np.ones(len(doubts), np.bool_)
    free_some(doubts, free, key, selected)
    return selected


def long_selection(doubts: NDArray[np.float64], branching: int, plan: int, key: Key) -> NDArray[np.bool_]:
    """The selection of step `plan` of a long chain, bool[V]: see `free_size`.

    The first wide step frees the most doubtful variables, the first ones of those with one doubt.
    """
    free = free_size(doubts, branching, plan)
    if plan != _WIDE:
        return doubtful_selection(doubts, free, key)
    selected = np.ones(len(doubts), np.bool_)
    selected[np.argsort(-doubts, kind="stable")[:free]] = False
    return selected


@njit
def free_some(doubts, number, key, selected):
    """Take `number` of the marked variables out, by their doubts."""
    random = stream(key.seed, key.number, key.step)
    for _ in range(number):
        whole = 0.0
        for v in range(len(doubts)):
            if selected[v]:
                whole += doubts[v]
        random = advance(random)
        left = uniform(random) * whole
        chosen = 0
        for v in range(len(doubts)):
            if selected[v]:
                chosen = v
                left -= doubts[v]
                if left < 0.0:
                    break
        selected[chosen] = False


@njit
def keep_some(among, number, key, chosen):
    """Mark `number` of the variables marked in `among`, each subset as likely."""
    random = stream(key.seed, key.number, key.step)
    left = 0
    for v in range(len(among)):
        left += among[v]
    for v in range(len(among)):
        if among[v]:
            random = advance(random)
            if uniform(random) * left < number:
                chosen[v] = True
                number -= 1
            left -= 1
