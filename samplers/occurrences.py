"""Which rules each pair's derivation uses: the way from rules back to pairs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.accelerate import njit
from hierogram.samplers.fragments import key_of, view_pair
from hierogram.samplers.sweeps import Batch, State
from hierogram.samplers.tally import push_tails, small_workspace
from hierogram.samplers.visit import EPOCH, make_summary


class Occurrences(NamedTuple):
    """Each rule of each pair once.

    `pairs` int64[n] the pair's place in its batch, `keys` uint64[n, 2] the rule's key, `uses` int64[n] how often.
    """

    pairs: NDArray[np.int64]
    keys: NDArray[np.uint64]
    uses: NDArray[np.int64]


@njit
def _list_rules(forests, bitext, words, state, pairs, keys, work):
    taken = 0
    for pair in range(len(forests.node_offset) - 1):
        view = view_pair(forests, bitext, words, state, pair)
        work.registers[EPOCH] += 1
        root = len(view.node) - 1
        work.stack[0] = root
        depth = 1
        while depth > 0:
            depth -= 1
            v = np.int64(work.stack[depth])
            depth = push_tails(v, view, work.stack, depth)
            if v == root or view.cut[v]:
                make_summary(v, view, work)
                high, low = key_of(work.summary, v, words.key_mask)
                pairs[taken] = pair
                keys[taken, 0] = high
                keys[taken, 1] = low
                taken += 1
    return taken


def rule_occurrences(batch: Batch, state: State) -> Occurrences:
    """The rules of every pair's derivation, by pair."""
    most = int(batch.derivation_rules[-1])
    pairs, keys = np.empty(most, np.int64), np.empty((most, 2), np.uint64)
    taken = _list_rules(batch.forests, batch.bitext, batch.words, state, pairs, keys, small_workspace(batch))
    pairs, keys = pairs[:taken], keys[:taken]
    order = np.lexsort((keys[:, 1], keys[:, 0], pairs))
    pairs, keys = pairs[order], keys[order]
    first = np.ones(taken, np.bool_)
    first[1:] = (pairs[1:] != pairs[:-1]) | (keys[1:] != keys[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    return Occurrences(pairs[starts], keys[starts], np.diff(np.append(starts, taken)))
