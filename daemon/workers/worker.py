"""A worker: its own copy of the rule table, and the shards that it was given. It runs in a process of its own."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Turn
from hierogram.daemon.learning.kinds.pairs import longest_rule
from hierogram.daemon.learning.kinds.synchronous import model_of
from hierogram.daemon.workers.shard import Contents, Setup, Shard, Variables
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import COUNT, RuleTable, empty_table, with_room
from hierogram.samplers.synchronous.sweeps import merge_changes

Changes = NDArray[np.uint64]
"""What a round changes in the table: uint64[n, 4], see `hierogram.samplers.synchronous.passes.merge`."""


class Step(NamedTuple):
    """A round: its number, and the turn of its shards, by number, where a sweep begins with it."""

    round: int
    turns: dict[int, Turn] | None = None


class Done(NamedTuple):
    """What a shard did: the changes of its part of a round, and what it has done in the sweep so far."""

    changes: Changes
    info: SweepInfo


def added(changes: Changes, table: RuleTable, model: Model) -> RuleTable:
    """The table with the changes; it may be another one, with more room."""
    table = with_room(table, len(changes))
    # A copy, because kernels are compiled anew for arrays that cannot be written to.
    merge_changes(np.array(changes), table, model)
    return table


def _taken_back(changes: Changes) -> Changes:
    """What undoes the changes."""
    back = np.array(changes)
    back[:, COUNT] = (-back[:, COUNT].view(np.int64)).view(np.uint64)
    return back


class Worker:
    """Holds shards and samples them, round by round, against its copy of the table.

    All workers have the same counts between two rounds, since each adds the changes of all in one order.
    """

    def __init__(self) -> None:
        self._setup: Setup | None = None
        self._model: Model | None = None
        self._table: RuleTable | None = None
        self._shards: dict[int, Shard] = {}
        self._executor: ThreadPoolExecutor | None = None

    def ready(self) -> int:
        """The number of this process."""
        return os.getpid()

    def begin(self, setup: Setup, rules: Changes | None) -> None:
        """Forget all shards; the table holds these rules, which are given like changes, or what it held (None)."""
        if self._executor is not None:
            self._executor.shutdown()
        self._executor = ThreadPoolExecutor(setup.threads)
        self._setup = setup
        self._model = model_of(setup.settings, setup.vocabulary)
        self._shards = {}
        if rules is not None:
            self._table = empty_table(longest_rule(setup.settings), len(rules))
            self._add(rules)

    def open(self, number: int, contents: Contents) -> None:
        """Take a shard."""
        assert self._setup is not None
        assert self._model is not None
        assert self._executor is not None
        self._shards[number] = Shard(self._setup, self._model, contents, self._executor)

    def work(self, changes: Changes | None, step: Step, numbers: Sequence[int]) -> dict[int, Done]:
        """Add the changes of the round before, then do these shards' parts of a round."""
        if changes is not None:
            self._add(changes)
        return {number: self._sample(number, step) for number in numbers}

    def recover(self, number: int, contents: Contents, steps: Sequence[Step], *changes: Changes) -> None:
        """Take a shard that was another's, as it was before these rounds, and do its part of them again.

        The table holds the changes of all of them; it is what it was again afterwards.
        """
        for change in reversed(changes):
            self._add(_taken_back(change))
        self.open(number, contents)
        for step, change in zip(steps, changes, strict=True):
            self._sample(number, step)
            self._add(change)

    def collect(self, changes: Changes | None, numbers: Sequence[int]) -> dict[int, Variables]:
        """Add the changes of the last round; how far the pairs of these shards have come."""
        if changes is not None:
            self._add(changes)
        return {number: self._shards[number].variables() for number in numbers}

    def _sample(self, number: int, step: Step) -> Done:
        assert self._table is not None
        shard = self._shards[number]
        if step.turns is not None:
            shard.begin(step.turns[number])
        return Done(shard.sample(step.round, self._table), shard.info)

    def _add(self, changes: Changes) -> None:
        assert self._table is not None
        assert self._model is not None
        self._table = added(changes, self._table, self._model)
