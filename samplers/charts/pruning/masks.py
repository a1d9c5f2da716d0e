"""From a selection and an assignment to a mask [BPK09 Algorithm 2], and from a derivation to an assignment.

Of a pair, a variable says whether one rule emits two words. Of a sentence, it says whether a span is a constituent:
whether some symbol covers it.
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.chart import cell_of
from hierogram.samplers.compiled.jit import njit


def fix_links(
    links: NDArray[np.int32], selected: NDArray[np.bool_], assigned: NDArray[np.bool_], fixed: NDArray[np.int8]
) -> None:
    """Fill `fixed` int8[n, m]: 1 for links [V, 2] that are selected and positive, -1 for selected and negative ones,
    else 0. `selected`, `assigned` bool[V]."""
    fixed[:] = 0
    chosen = links[selected]
    fixed[chosen[:, 0], chosen[:, 1]] = np.where(assigned[selected], 1, -1)


@njit
def keep_spans(spans, selected, assigned, words, kept):
    """Fill `kept` bool[cells]: which spans of so many words a mask keeps. `spans` int32[V, 2], half open.

    A selected negative span is pruned, and so is each span that crosses a selected positive one: that overlaps with it
    and neither holds it nor is inside it. In a binary tree this forces the positive span: every span that no
    constituent crosses is one.
    """
    for cell in range(words * (words + 1) // 2):
        kept[cell] = True
    for v in range(len(spans)):
        if not selected[v]:
            continue
        start, end = spans[v, 0], spans[v, 1]
        if not assigned[v]:
            kept[cell_of(start, end)] = False
            continue
        for i in range(words):
            for j in range(i + 1, words + 1):
                if (i < start and start < j and j < end) or (start < i and i < end and end < j):
                    kept[cell_of(i, j)] = False
