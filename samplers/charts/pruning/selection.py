"""The selection chain: which variables the next mask fixes [BPK09 §3.2].

With rules of up to b nonterminals, about b in b + 1 of the variables are selected: two thirds with binary rules, as in
the paper. At wide steps half as many again are free. Where nothing is known of the variables, each step selects all
that were not, and as many of the others as it takes to be as many again. Where a cheap model knows which values are
doubtful, each step frees variables anew, the doubtful ones more often. A step looks at the selection and the cheap
model alone, never at the assignment: a chain that did would not converge to the right distribution.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform


def selected_size(variables: int, branching: int, wide: bool = False) -> int:
    """How many of so many variables are selected, where rules have up to `branching` nonterminals.

    It is the share branching / (branching + 1), rounded, but no less than half. Of four or more, two are free at least:
    one alone cannot change where two change together. At wide steps, half as many again are free.
    """
    if variables < 2:
        return 0
    if wide:
        return variables - ceil(1.5 * variables / (branching + 1))
    share = round(branching * variables / (branching + 1))
    return max((variables + 1) // 2, min(share, variables - 2))


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


def doubtful_selection(doubts: NDArray[np.float64], branching: int, key: Key, wide: bool = False) -> NDArray[np.bool_]:
    """A selection, bool[V], that leaves out variables by their doubts, float64[V] above 0: one after the other, each of
    those that are left with a probability in proportion to its doubt."""
    variables = len(doubts)
    selected = np.full(variables, variables > 1)
    if variables > 1:
        free_some(doubts, variables - selected_size(variables, branching, wide), key, selected)
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
