"""Sweeps over a treebank: `init_trees` makes a state, `step_trees` takes it one sweep further.

Trees are taken one after the other against the very counts of all others, so the sampler is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.counts.table import RuleTable, with_room
from hierogram.samplers.forests.fragments import view_pair
from hierogram.samplers.synchronous.sweeps import Batch, CountsError, State, SweepInfo
from hierogram.samplers.trees.gibbs import sweep_tree
from hierogram.samplers.trees.models import Expansions, TreeModel
from hierogram.samplers.trees.resampling import (
    CUTS_CHANGED,
    CUTS_SAMPLED,
    EDGES_CHANGED,
    EDGES_SAMPLED,
    TreeSpace,
    count_tree,
    make_tree_space,
)

JOINED, CUT, RANDOM = "joined", "cut", "random"
STARTS = (JOINED, CUT, RANDOM)
"""Initial states: every tree one fragment, every expansion one, or each cut by the toss of a coin."""

_TREES_A_CALL = 64
_ROOM_A_NODE = 3


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """Trees or parse forests that are sampled together: their batch, productions, and labels by number (0 is none)."""

    batch: Batch
    expansions: Expansions
    labels: list[str]

    @property
    def size(self) -> int:
        """Number of trees."""
        return self.batch.size


@njit
def _initial(seed, forests, pairs, by_coin, edge, cut):
    for p in range(len(pairs)):
        state = stream(seed, pairs[p], 0)
        for v in range(forests.node_offset[p], forests.node_offset[p + 1]):
            if forests.node[v]["degree"] > 1:
                state = advance(state)
                edge[v] = np.int64(uniform(state) * np.float64(forests.node[v]["degree"]))
            if forests.node[v]["free"] and by_coin:
                state = advance(state)
                cut[v] = 1 if uniform(state) < 0.5 else 0


def init_trees(seed: int, trees: TreeBatch, start: str = JOINED) -> State:
    """The initial state: cuts by `start`, a uniformly random edge at each node.

    Raises `ValueError` where there is no such start.
    """
    if start not in STARTS:
        raise ValueError(f"the start of a tree grammar is one of {', '.join(STARTS)}, not {start!r}")
    forests = trees.batch.forests
    edge = np.zeros(forests.nodes, np.uint16)
    cut = np.ones(forests.nodes, np.uint8)
    if start == JOINED:
        cut[forests.node["free"] == 1] = 0
    _initial(seed, forests, trees.batch.pairs, start == RANDOM, edge, cut)
    return State(edge, cut)


def tree_space(trees: TreeBatch) -> TreeSpace:
    """The scratch memory that `step_trees` and `count_trees` need for a treebank, made once for all sweeps."""
    return make_tree_space(trees.batch.most_nodes, trees.batch.most_options, trees.batch.longest_rule)


@njit
def _count(forests, bitext, words, state, first, last, skipped, change, table, model, space):
    sound = True
    for p in range(first, last):
        if not skipped[p]:
            view = view_pair(forests, bitext, words, state, p)
            sound &= count_tree(forests.node_offset[p], view, table, model, space, words.key_mask, change)
    return sound


@njit
def _sweep(seed, forests, bitext, words, state, pairs, sweeps, temperatures, first, last, table, model, space):
    sound = True
    for p in range(first, last):
        if temperatures[p] > 0.0:
            view = view_pair(forests, bitext, words, state, p)
            key = stream(seed, pairs[p], sweeps[p])
            sound &= sweep_tree(forests.node_offset[p], view, key, temperatures[p], table, model, space, words.key_mask)
    return sound


def count_trees(
    trees: TreeBatch,
    state: State,
    table: RuleTable,
    model: TreeModel,
    space: TreeSpace,
    change: int = 1,
    skipped: NDArray[np.bool_] | None = None,
) -> RuleTable:
    """The table with `change` added for each fragment of the derivations of the trees not skipped; consumes the table.

    Raises `CountsError` where a count falls below zero.
    """
    batch = trees.batch
    if skipped is None:
        skipped = np.zeros(trees.size, np.bool_)
    for first in range(0, trees.size, _TREES_A_CALL):
        last = min(first + _TREES_A_CALL, trees.size)
        table = with_room(table, int(batch.derivation_rules[last] - batch.derivation_rules[first]))
        if not _count(
            batch.forests, batch.bitext, batch.words, state, first, last, skipped, change, table, model, space
        ):
            raise CountsError("a fragment's count fell below zero: derivations and counts do not belong together")
    return table


def step_trees(
    seed: int,
    trees: TreeBatch,
    state: State,
    table: RuleTable,
    model: TreeModel,
    sweeps: NDArray[np.int64],
    temperatures: NDArray[np.float64],
    space: TreeSpace,
    report: Callable[[int], None] | None = None,
) -> tuple[State, RuleTable, SweepInfo]:
    """One sweep over a treebank; consumes `state` and `table` (changes their arrays in place) and returns the new ones.

    `sweeps` int64[P] numbers each tree's sweep from 1, `temperatures` float64[P] is each tree's T ≥ 1, or 0 for a tree
    that is left alone. `report` hears how many trees are done. Raises `CountsError` where state and counts do not
    belong together.
    """
    batch = trees.batch
    space.registers[:] = 0
    for first in range(0, trees.size, _TREES_A_CALL):
        last = min(first + _TREES_A_CALL, trees.size)
        # A change of a cut brings up to two new fragments; one of an edge as many as nodes, and one option at a time.
        table = with_room(table, _room(trees, first, last))
        if not _sweep(
            seed, batch.forests, batch.bitext, batch.words, state, batch.pairs, sweeps, temperatures,
            first, last, table, model, space,
        ):  # fmt: skip
            raise CountsError("a fragment's count fell below zero: state and counts do not belong together")
        if report:
            report(last)
    edges, edges_changed, cuts, cuts_changed = (
        int(space.registers[k]) for k in (EDGES_SAMPLED, EDGES_CHANGED, CUTS_SAMPLED, CUTS_CHANGED)
    )
    return state, table, SweepInfo(edges, edges_changed, cuts, cuts_changed, 2 * edges + 3 * cuts, 0, 0, 0)


def _room(trees: TreeBatch, first: int, last: int) -> int:
    """At most so many new rows a sweep over trees first..last takes."""
    forests = trees.batch.forests
    nodes = forests.node[int(forests.node_offset[first]) : int(forests.node_offset[last])]
    ambiguous = nodes["degree"] > 1
    below = nodes["level"].astype(np.int64)
    return int(_ROOM_A_NODE * len(nodes) + below[ambiguous].sum() + ambiguous.sum())
