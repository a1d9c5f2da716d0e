"""Batches of pairs that are sampled together, and their derivation variables."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.forests.forest import Bitext, Forests
from hierogram.samplers.forests.fragments import Words
from hierogram.samplers.grammar.settings import CUT, JOINED, RANDOM, STARTS

_COIN = 0.5


class State(NamedTuple):
    """Variables of a batch by node: `edge` uint16[N] incoming edge, `cut` uint8[N] 1 at a rule boundary."""

    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]

    def copy(self) -> "State":
        """Return a copy with its own arrays."""
        return State(self.edge.copy(), self.cut.copy())


class Batch(NamedTuple):
    """P pairs that are sampled together: forests, words and derived bounds.

    `pairs` int64[P] are the pair numbers of the random streams. `places` uint64[P] are the hash map sizes of each
    pair's rules, minus 1. `derivation_rules` int64[P+1] cumulates the maximum number of rules in each pair's
    derivation. `most_nodes` to `most_listed` bound these numbers per pair; `longest_rule` bounds the rule length.
    """

    bitext: Bitext
    words: Words
    forests: Forests
    pairs: NDArray[np.int64]
    places: NDArray[np.uint64]
    derivation_rules: NDArray[np.int64]
    most_nodes: int
    most_rules: int
    most_options: int
    most_listed: int
    longest_rule: int

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.pairs)


@njit
def _bounds(forests, bounds, rules):
    """Write bounds of each pair's local rules and, cumulated, of its derivation's rules. Returns the longest list."""
    most_listed = 1
    for pair in range(len(bounds)):
        listed, bound = 0, 16
        for node in range(forests.node_offset[pair], forests.node_offset[pair + 1]):
            listed += np.int64(forests.node[node]["level"])
            bound += 4
            if forests.node[node]["free"]:
                bound += np.int64(forests.node[node]["degree"])
        most_listed = max(most_listed, listed)
        bounds[pair] = bound
        last = forests.node_offset[pair + 1]
        rules[pair + 1] = rules[pair] + np.int64(forests.node[last - 1]["level"])
    return most_listed


def make_batch(
    bitext: Bitext,
    words: Words,
    forests: Forests,
    pairs: NDArray[np.int64],
    longest_rule: int,
) -> Batch:
    """Make a batch. `pairs` are permanent pair numbers, `longest_rule` bounds the rule length."""
    bounds = np.empty(forests.pairs, np.int64)
    rules = np.zeros(forests.pairs + 1, np.int64)
    most_listed = _bounds(forests, bounds, rules)
    places = np.array([1 << int(2 * b - 1).bit_length() for b in bounds], np.uint64) - np.uint64(1)
    return Batch(
        bitext,
        words,
        forests,
        np.asarray(pairs, np.int64),
        places,
        rules,
        most_nodes=int(np.diff(forests.node_offset).max(initial=1)),
        most_rules=int(bounds.max(initial=16)),
        most_options=int(forests.node["degree"].max(initial=2)),
        most_listed=int(most_listed),
        longest_rule=longest_rule,
    )


@njit
def _draw_initial(key, batch, by_coin, state):
    node = batch.forests.node
    for pair in range(len(batch.pairs)):
        random = stream(key, batch.pairs[pair], 0)
        for v in range(batch.forests.node_offset[pair], batch.forests.node_offset[pair + 1]):
            if node[v]["degree"] > 1:
                random = advance(random)
                state.edge[v] = np.int64(uniform(random) * np.float64(node[v]["degree"]))
            if node[v]["free"] and by_coin:
                random = advance(random)
                state.cut[v] = 1 if uniform(random) < _COIN else 0


def initial_state(key: int, batch: Batch, start: str = CUT) -> State:
    """Return a state with uniform random edges [CFGŠ14 §5.4.2] and cuts by `start`. Raises `ValueError`."""
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}, got {start!r}")
    state = State(np.zeros(batch.forests.nodes, np.uint16), np.ones(batch.forests.nodes, np.uint8))
    if start == JOINED:
        state.cut[batch.forests.node["free"] == 1] = 0
    _draw_initial(key, batch, start == RANDOM, state)
    return state
