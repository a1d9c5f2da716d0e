"""Worker process, which samples shards with its own copy of the rule table, see `chain`."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import SweepRequest
from hierogram.daemon.learning.kinds.pairs import build_batch, longest_rule
from hierogram.daemon.learning.kinds.synchronous import make_model, make_plan, make_schedule
from hierogram.samplers.counts.chain import ChainState, SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import COUNT, CountTable, empty_table, with_room
from hierogram.samplers.forests.derivations import State
from hierogram.samplers.forests.forest import Bitext
from hierogram.samplers.forests.records import read_averages, write_averages
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.synchronous.sweeps import Blocks, SweepPlan, build, merge_changes
from hierogram.storage.records.settings import Settings


class WorkerLostError(Exception):
    """A worker ended or does not answer. Its state is lost."""


class Setup(NamedTuple):
    """Settings of the workers: settings and vocabulary sizes of the store, blocks, and threads per worker."""

    settings: Settings
    vocabulary_sizes: tuple[int, int]
    blocks: Blocks
    threads: int


Variables = tuple[State, Blobs]
"""Derivations of pairs, and their averages as bytes."""

PairTexts = tuple[NDArray[np.int64], Bitext, NDArray[np.uint64], NDArray[np.uint64]]
"""Texts of pairs: names of random streams, words with links, hashes of source and of target words."""

ShardContents = tuple[PairTexts, NDArray[np.int64], Variables]
"""Contents of a shard: texts of its pairs, offsets of its rounds (see `ShardPlan`), and variables."""


class Shard:
    """Part of a batch that one worker samples."""

    def __init__(self, setup: Setup, model: Model, contents: ShardContents, executor: ThreadPoolExecutor) -> None:
        # Copy the received arrays, because they are read-only, and kernels would be recompiled for read-only arrays.
        texts, self._rounds, (self._state, records) = deepcopy(contents)
        batch = build_batch(*texts, setup.settings)
        self._seed = setup.settings.seed
        self._schedule = make_schedule(setup.settings)
        self._plan: SweepPlan | None = None
        self._averages = read_averages(batch, records)
        self.kernel = build(model, batch, blocks=setup.blocks, workers=setup.threads, run=executor.map)

    def sample(self, round_number: int, request: SweepRequest | None, table: CountTable) -> NDArray[np.uint64]:
        """Sample a round. A `request` starts a sweep. The next round may overwrite the returned changes."""
        if request is not None:
            self._plan = make_plan(deepcopy(request), self._schedule)
            self.kernel.begin()
        assert self._plan is not None
        state = ChainState(self._state, table, self._averages)
        pairs = int(self._rounds[round_number]), int(self._rounds[round_number + 1])
        self.kernel.sample(self._seed, state, self._plan, pairs)
        changes = self.kernel.changes()
        return changes[0] if len(changes) == 1 else np.concatenate(changes)

    def variables(self) -> Variables:
        """Return a copy of the current variables of the shard's pairs."""
        return self._state.copy(), write_averages(self._averages)


Changes = NDArray[np.uint64]
"""Count changes of rules in a round: uint64[n, 4] with the columns of `CountTable.rows`."""

RoundRequest = tuple[int, dict[int, SweepRequest]]
"""Number of the round in its sweep, and sweep requests by shard id (empty after the first round)."""

RoundResults = dict[int, tuple[Changes, SweepInfo]]
"""Changes in a round, and statistics of the sweep so far, by shard id."""


def merge_changes_into(changes: Changes, table: CountTable, model: Model) -> CountTable:
    """Add the changes to the table in place. Returns it, or a larger copy if it had too little room."""
    table = with_room(table, len(changes))
    # Copy a read-only array, because the kernel would be recompiled for it.
    merge_changes(changes if changes.flags.writeable else np.array(changes), table, model)
    return table


def list_rules(table: CountTable) -> Changes:
    """Return the rules of a table as the changes that would build it from an empty table."""
    return np.asarray(table.rows[table.tags != 0])


def _negated(changes: Changes) -> Changes:
    negated = np.array(changes)
    negated[:, COUNT] = (-negated[:, COUNT].view(np.int64)).view(np.uint64)
    return negated


class Worker:
    """Worker that samples its shards in rounds. In each round, all workers sample with equal tables."""

    _setup: Setup
    _model: Model
    _table: CountTable

    def __init__(self) -> None:
        self._shards: dict[int, Shard] = {}
        self._executor = ThreadPoolExecutor(1)

    def ready(self) -> int:
        """Return the process id. The result shows that the worker has started."""
        return os.getpid()

    def reset(self, setup: Setup, rules: Changes | None) -> None:
        """Apply the setup, drop all shards, and rebuild the table from `rules` unless they are None."""
        self._executor.shutdown()
        self._executor = ThreadPoolExecutor(setup.threads)
        self._setup = setup
        self._model = make_model(setup.settings, setup.vocabulary_sizes)
        self._shards = {}
        if rules is not None:
            empty = empty_table(longest_rule(setup.settings), len(rules))
            self._table = merge_changes_into(rules, empty, self._model)

    def open(self, shard_id: int, contents: ShardContents) -> None:
        """Build the forests and the kernel of a shard, and add the shard to this worker."""
        self._shards[shard_id] = Shard(self._setup, self._model, contents, self._executor)

    def sample(self, round_request: RoundRequest, shard_ids: Sequence[int], *previous: RoundResults) -> RoundResults:
        """Merge the changes of the previous round, then sample a round of these shards."""
        self._merge_previous(previous)
        return {shard_id: self._sample(shard_id, round_request) for shard_id in shard_ids}

    def recover(
        self, shard_id: int, contents: ShardContents, requests: Sequence[RoundRequest], *changes: Changes
    ) -> None:
        """Take over a lost shard: undo these rounds in the table, open the shard, and repeat the rounds."""
        for change in reversed(changes):
            self._merge(_negated(change))
        self.open(shard_id, contents)
        for round_request, change in zip(requests, changes, strict=True):
            self._sample(shard_id, round_request)
            self._merge(change)

    def collect(self, shard_ids: Sequence[int], *previous: RoundResults) -> dict[int, Variables]:
        """Merge the changes of the last round, and return the variables of these shards."""
        self._merge_previous(previous)
        return {shard_id: self._shards[shard_id].variables() for shard_id in shard_ids}

    def _sample(self, shard_id: int, round_request: RoundRequest) -> tuple[Changes, SweepInfo]:
        shard = self._shards[shard_id]
        round_number, sweep_requests = round_request
        changes = shard.sample(round_number, sweep_requests.get(shard_id), self._table)
        return changes, shard.kernel.info()

    def _merge_previous(self, previous: Sequence[RoundResults]) -> None:
        for results in previous:
            for changes, _ in results.values():
                self._merge(changes)

    def _merge(self, changes: Changes) -> None:
        self._table = merge_changes_into(changes, self._table, self._model)
