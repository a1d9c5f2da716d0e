"""Sweeps over a treebank: the kernel of trees.

Trees are taken one after the other against the very counts of all others, so the sampler is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import stream
from hierogram.samplers.counts.chain import CountsError, SweepInfo
from hierogram.samplers.counts.table import empty_table, with_room
from hierogram.samplers.forests.batch import Batch, State, initial_state
from hierogram.samplers.grammar.settings import JOINED
from hierogram.samplers.trees.gibbs import TreeSpace, count_tree, sweep_tree, tree_at, tree_space
from hierogram.samplers.trees.models import LabelProcesses, TreeBatch, TreeModel, TreeState
from hierogram.samplers.trees.priors import move_expansions, move_strengths, tree_log_likelihood

_TREES_A_CALL = 64
_ROOM_A_NODE = 3


class TreePlan(NamedTuple):
    """One sweep: its `number` in the chain, from 1; `sweeps` int64[P] the number of each tree's sweep, from 1;
    `temperatures` float64[P] each tree's T ≥ 1, or 0 for a tree that is left alone.

    The number names the random streams of the labels' parameters, `sweeps` those of the trees.
    """

    number: int
    sweeps: NDArray[np.int64]
    temperatures: NDArray[np.float64]


@njit
def _count(first, last, batch, state, model, space, change):
    sound = True
    for tree in range(first, last):
        sound &= count_tree(tree_at(batch, state, tree, model, space), change)
    return sound


@njit
def _sweep(key, first, last, batch, state, plan, model, space):
    sound = True
    for tree in range(first, last):
        if plan.temperatures[tree] > 0.0:
            at = tree_at(batch, state, tree, model, space)
            random = stream(key, batch.pairs[tree], plan.sweeps[tree])
            sound &= sweep_tree(at, random, plan.temperatures[tree])
    return sound


@dataclass(frozen=True, slots=True)
class TreeKernel:
    """Sweeps over a treebank; see `build`."""

    model: TreeModel
    batch: Batch
    start: str
    space: TreeSpace

    def init(self, key: int) -> TreeState:
        """Cuts by `start`, a uniformly random edge at each node, the labels' processes of the model."""
        return self.resume(initial_state(key, self.batch, self.start), self.model.labels)

    def resume(self, derivations: State, labels: LabelProcesses) -> TreeState:
        """The state that has these derivations and the labels' processes given (a copy)."""
        table = empty_table(len(labels.strength))
        state = TreeState(derivations, table, LabelProcesses(*(values.copy() for values in labels)))
        model = self._model_of(state)
        for first in range(0, self.batch.size, _TREES_A_CALL):
            last = min(first + _TREES_A_CALL, self.batch.size)
            new = int(self.batch.derivation_rules[last] - self.batch.derivation_rules[first])
            state = state._replace(table=with_room(state.table, new))
            _count(first, last, self.batch, state, model, self.space, 1)
        return state

    def step(
        self, key: int, state: TreeState, plan: TreePlan, report: Callable[[int], None] | None = None
    ) -> tuple[TreeState, SweepInfo]:
        """One sweep over the trees whose temperature is above 0, then new parameters of all labels.

        Consumes `state` (changes its arrays in place) and returns the new one. `report` hears how many trees are done.
        Raises `CountsError` where derivations and counts do not belong together.
        """
        state, info = self.sweep(key, state, plan, report)
        model = self._model_of(state)
        move_strengths(key, plan.number, self.batch, state, model, self.space)
        move_expansions(key, plan.number, self.batch, state, model, self.space)
        return state, info

    def sweep(
        self, key: int, state: TreeState, plan: TreePlan, report: Callable[[int], None] | None = None
    ) -> tuple[TreeState, SweepInfo]:
        """As `step`, the labels' parameters left as they are."""
        self.space.statistics[0] = 0
        model = self._model_of(state)
        for first in range(0, self.batch.size, _TREES_A_CALL):
            last = min(first + _TREES_A_CALL, self.batch.size)
            # A change of a cut brings up to two new fragments; one of an edge as many as nodes, one option at a time.
            state = state._replace(table=with_room(state.table, _room(self.batch, first, last)))
            if not _sweep(key, first, last, self.batch, state, plan, model, self.space):
                raise CountsError("a fragment's count fell below zero: state and counts do not belong together")
            if report:
                report(last)
        edges, edges_changed, cuts, cuts_changed = (int(number) for number in self.space.statistics[0])
        return state, SweepInfo(edges, edges_changed, cuts, cuts_changed, 2 * edges + 3 * cuts)

    def log_likelihood(self, state: TreeState) -> float:
        """ln P of all fragments of all derivations, given the labels' parameters."""
        return tree_log_likelihood(self.batch, state, self._model_of(state), self.space)

    def _model_of(self, state: TreeState) -> TreeModel:
        return self.model._replace(labels=state.labels)


def build(model: TreeModel, trees: TreeBatch, *, start: str = JOINED) -> TreeKernel:
    """The kernel that sweeps over a treebank, with the scratch memory for all sweeps; `start`: see `STARTS`."""
    return TreeKernel(model, trees.batch, start, tree_space(trees.batch))


def _room(batch: Batch, first: int, last: int) -> int:
    """At most so many new rows a sweep over trees first..last takes."""
    forests = batch.forests
    nodes = forests.node[int(forests.node_offset[first]) : int(forests.node_offset[last])]
    ambiguous = nodes["degree"] > 1
    below = nodes["level"].astype(np.int64)
    return int(_ROOM_A_NODE * len(nodes) + below[ambiguous].sum() + ambiguous.sum())
