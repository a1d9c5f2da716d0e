"""Which rules each pair's derivation uses: the way from rules back to pairs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.fragments import key_of
from hierogram.samplers.forests.views import view_pair
from hierogram.samplers.forests.walk import begin_walk, next_rule, walk_space


class Occurrences(NamedTuple):
    """Each rule of each pair once.

    `pairs` int64[n] the pair's place in its batch, `keys` uint64[n, 2] the rule's key, `uses` int64[n] how often.
    """

    pairs: NDArray[np.int64]
    keys: NDArray[np.uint64]
    uses: NDArray[np.int64]


@njit
def _list_rules(batch, state, pairs, keys, work):
    taken = 0
    for pair in range(len(batch.pairs)):
        view = view_pair(batch, state, pair)
        depth = begin_walk(view, work)
        while True:
            v, depth = next_rule(view, work, depth)
            if v < 0:
                break
            high, low = key_of(work.summary, v, batch.words.key_mask)
            pairs[taken] = pair
            keys[taken, 0] = high
            keys[taken, 1] = low
            taken += 1
    return taken


def rule_occurrences(batch: Batch, state: State) -> Occurrences:
    """The rules of every pair's derivation, by pair."""
    most = int(batch.derivation_rules[-1])
    pairs, keys = np.empty(most, np.int64), np.empty((most, 2), np.uint64)
    taken = _list_rules(batch, state, pairs, keys, walk_space(batch))
    pairs, keys = pairs[:taken], keys[:taken]
    order = np.lexsort((keys[:, 1], keys[:, 0], pairs))
    pairs, keys = pairs[order], keys[order]
    first = np.ones(taken, np.bool_)
    first[1:] = (pairs[1:] != pairs[:-1]) | (keys[1:] != keys[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    return Occurrences(pairs[starts], keys[starts], np.diff(np.append(starts, taken)))
