"""A worker: its own copy of the rule table, and the shards that it was given. It runs in a process of its own."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import SweepRequest
from hierogram.daemon.learning.kinds.pairs import longest_rule
from hierogram.daemon.learning.kinds.synchronous import model_of, plan_of, schedule_of
from hierogram.daemon.workers.shares import Texts
from hierogram.samplers.counts.chain import ChainState, SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import COUNT, RuleTable, empty_table, with_room
from hierogram.samplers.forests.batch import State, make_batch
from hierogram.samplers.forests.forest import Bitext, build_forests
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.forests.records import read_averages, write_averages
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.synchronous.sweeps import Blocks, SweepPlan, build, merge_changes
from hierogram.storage.records import Settings


class WorkerLostError(Exception):
    """A worker has ended, or does not answer; what it held is gone."""


BOUNDS = ("most_nodes", "most_rules", "most_options", "most_listed")
"""Fields of a batch that bound scratch memory: those of the whole batch, so that a shard's is as large."""


class Setup(NamedTuple):
    """All that workers of a batch know: settings, sizes of vocabulary, how to sample, and the batch's `BOUNDS`."""

    settings: Settings
    vocabulary: tuple[int, int]
    method: int
    blocks: Blocks
    threads: int
    bounds: dict[str, Any]


class Variables(NamedTuple):
    """All that sampling changes of pairs: `edge` uint16[N] and `cut` uint8[N] as in `State`, records of averages."""

    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]
    records: Blobs


Contents = tuple[Texts, NDArray[np.int64], Variables]
"""A shard as it is sent to a worker: its pairs, where each round's begin, and how far they have come."""


class Shard:
    """The pairs of one shard."""

    def __init__(self, setup: Setup, model: Model, contents: Contents, executor: ThreadPoolExecutor) -> None:
        self._setup = setup
        texts, self._rounds, (edge, cut, records) = contents
        self._schedule = schedule_of(setup.settings)
        # Arrays that came from elsewhere cannot be written to, and kernels are compiled again for such.
        numbers, bitext, source_hashes, target_hashes = texts
        bitext = Bitext._make(array.copy() for array in bitext)
        words = add_up(source_hashes.copy(), target_hashes.copy(), keys.ALL_BITS)
        forests = build_forests(bitext, setup.settings.span_limit)
        batch = make_batch(bitext, words, forests, numbers.copy(), longest_rule(setup.settings))
        batch = batch._replace(**setup.bounds)
        self.kernel = build(
            model, batch, method=setup.method, blocks=setup.blocks, workers=setup.threads, run=executor.map
        )
        self._state = State(edge.copy(), cut.copy())
        self._averages = read_averages(batch, Blobs(records.content.copy(), records.offsets.copy()))
        self._plan: SweepPlan | None = None

    def sample(self, number: int, request: SweepRequest | None, table: RuleTable) -> NDArray[np.uint64]:
        """Do this shard's part of a round against the table, which stays as it is; a sweep begins with a request.

        Returns what changes in the table, see `merge`; valid until the next round.
        """
        if request is not None:
            self._plan = plan_of(SweepRequest._make(column.copy() for column in request), self._schedule)
            self.kernel.begin()
        assert self._plan is not None
        state = ChainState(self._state, table, self._averages)
        pairs = int(self._rounds[number]), int(self._rounds[number + 1])
        self.kernel.sample(self._setup.settings.seed, state, self._plan, pairs)
        changes = self.kernel.changes()
        return changes[0] if len(changes) == 1 else np.concatenate(changes)

    def variables(self) -> Variables:
        """Return how far the pairs have come."""
        edge, cut = self._state
        return Variables(edge.copy(), cut.copy(), write_averages(self._averages))


Changes = NDArray[np.uint64]
"""Changes of a round in the table: uint64[n, 4], see `hierogram.samplers.synchronous.sweeps.merge`."""


Step = tuple[int, dict[int, SweepRequest]]
"""A round: its number, and what is asked of its shards, by number, where a sweep begins with it."""


class Done(NamedTuple):
    """The work of a shard: the changes of its part of a round, by how much they change the sum of all counts, what the
    shard has done in the sweep so far, and the seconds in which its worker added the changes of the round before, where
    no other shard of the worker reports them."""

    changes: Changes
    tokens: int
    info: SweepInfo
    adding: float


Part = dict[int, Done]
"""The work of shards in a round, by their numbers; parts of all workers are the round."""


def added(changes: Changes, table: RuleTable, model: Model) -> RuleTable:
    """Return the table with the changes; it may be another one, with more room."""
    table = with_room(table, len(changes))
    # Kernels would be compiled again for arrays that cannot be written to.
    merge_changes(changes if changes.flags.writeable else np.array(changes), table, model)
    return table


def filled(rules: Changes, longest_rule: int, model: Model) -> RuleTable:
    """Return a table of these rules, which are given like changes of an empty one."""
    return added(rules, empty_table(longest_rule, len(rules)), model)


def rules_of(table: RuleTable) -> Changes:
    """Return the rules of a table, as changes of an empty one."""
    return np.asarray(table.rows[table.tags != 0])


def _taken_back(changes: Changes) -> Changes:
    """Return what undoes the changes."""
    back = np.array(changes)
    back[:, COUNT] = (-back[:, COUNT].view(np.int64)).view(np.uint64)
    return back


class Worker:
    """Holds shards and samples them, round by round, against its copy of the table.

    All workers have the same counts at the beginning of a round, since each has added the changes of all by then.
    """

    _setup: Setup
    _model: Model
    _table: RuleTable

    def __init__(self) -> None:
        self._shards: dict[int, Shard] = {}
        self._executor = ThreadPoolExecutor(1)
        self._adding = 0.0
        # What its shards changed in this round, and of which of them the table has it already.
        self._own: dict[int, Changes] = {}
        self._settled: list[int] = []

    def ready(self) -> int:
        """Return the number of this process."""
        return os.getpid()

    def begin(self, setup: Setup, rules: Changes | None) -> None:
        """Forget all shards; the table holds these rules, which are given like changes, or what it held (None)."""
        self._executor.shutdown()
        self._executor = ThreadPoolExecutor(setup.threads)
        self._setup = setup
        self._model = model_of(setup.settings, setup.vocabulary)
        self._shards, self._own, self._settled = {}, {}, []
        if rules is not None:
            self._table = filled(rules, longest_rule(setup.settings), self._model)

    def open(self, number: int, contents: Contents) -> None:
        """Take a shard."""
        self._shards[number] = Shard(self._setup, self._model, contents, self._executor)

    def work(self, step: Step, numbers: Sequence[int], *before: Part) -> Part:
        """Add the changes of the round before, then do these shards' parts of a round."""
        self._add_all(before)
        return {number: self._sample(number, step) for number in numbers}

    def settle(self) -> Part:
        """Add what its own shards changed in the round, while others still sample and what they changed is sent."""
        started = time.perf_counter()
        for number, changes in self._own.items():
            self._add(changes)
            self._settled.append(number)
        self._adding += time.perf_counter() - started
        return {}

    def recover(self, number: int, contents: Contents, steps: Sequence[Step], *changes: Changes) -> None:
        """Take a shard that was another's, as it was before these rounds, and do its part of them again.

        The table holds the changes of all of them; it is what it was again afterwards, without what its own shards
        changed in the present round.
        """
        for one in self._settled:
            self._add(_taken_back(self._own[one]))
        self._settled = []
        for change in reversed(changes):
            self._add(_taken_back(change))
        self.open(number, contents)
        for step, change in zip(steps, changes, strict=True):
            self._sample(number, step)
            self._add(change)

    def collect(self, numbers: Sequence[int], *before: Part) -> dict[int, Variables]:
        """Add the changes of the last round; return how far the pairs of these shards have come."""
        self._add_all(before)
        return {number: self._shards[number].variables() for number in numbers}

    def rules(self, numbers: Sequence[int], *before: Part) -> dict[int, Changes | None]:
        """Add the changes of the last round; return all rules, from who has shard 0."""
        self._add_all(before)
        return {number: rules_of(self._table) if number == 0 else None for number in numbers}

    def _sample(self, number: int, step: Step) -> Done:
        shard = self._shards[number]
        adding, self._adding = self._adding, 0.0
        changes = self._own[number] = shard.sample(step[0], step[1].get(number), self._table)
        return Done(changes, int(changes[:, COUNT].view(np.int64).sum()), shard.kernel.info(), adding)

    def _add_all(self, before: Sequence[Part]) -> None:
        """Add what all shards changed, but for those whose changes the table has already."""
        started = time.perf_counter()
        for part in before:
            for number, done in part.items():
                if number not in self._settled:
                    self._add(done.changes)
        if before:
            self._own, self._settled = {}, []
        self._adding += time.perf_counter() - started

    def _add(self, changes: Changes) -> None:
        self._table = added(changes, self._table, self._model)
