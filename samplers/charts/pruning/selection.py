"""The selection chain: which variables the next mask fixes [BPK09 §3.2].

About two thirds of the variables are selected. Each step selects all that were not, and as many of the others as it
takes to be as many again. The step looks at the selection alone, never at the assignment: a chain that did would not
converge to the right distribution.
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.hypergraph import Key
from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform


def selected_size(variables: int) -> int:
    """How many of so many variables are selected: two thirds, rounded, and never all of them."""
    return 0 if variables < 2 else min(round(2 * variables / 3), variables - 1)


def first_selection(variables: int, key: Key) -> NDArray[np.bool_]:
    """A uniform selection, bool[V]."""
    selected = np.zeros(variables, np.bool_)
    keep_some(np.ones(variables, np.bool_), selected_size(variables), key, selected)
    return selected


def next_selection(selected: NDArray[np.bool_], key: Key) -> NDArray[np.bool_]:
    """The selection after `selected`, bool[V]: all others, and a uniform part of these."""
    if not selected.any():
        return selected.copy()
    following = ~selected
    keep_some(selected, int(selected.sum()) - int(following.sum()), key, following)
    return following


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
