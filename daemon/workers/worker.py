"""Worker process: holds shards and its own copy of the rule table."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import SweepRequest
from hierogram.daemon.learning.kinds.pairs import LoadedPairs, longest_rule
from hierogram.daemon.learning.kinds.synchronous import make_model, make_plan, make_schedule
from hierogram.daemon.learning.residents import ResidentBatch
from hierogram.daemon.workers.sharding import PairTexts
from hierogram.samplers.counts.chain import ChainState, SweepInfo
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import COUNT, CountTable, empty_table, with_room
from hierogram.samplers.forests.averages import Averages
from hierogram.samplers.forests.batch import Batch, State, make_batch
from hierogram.samplers.forests.forest import Bitext, build_forests
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.forests.records import read_averages, write_averages
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.synchronous.sweeps import Blocks, SweepPlan, build, merge_changes
from hierogram.storage.exceptions import PairMissingError, StoreError
from hierogram.storage.records import Settings, WrittenPart
from hierogram.storage.store import Store, open_store

Result = TypeVar("Result")


class WorkerLostError(Exception):
    """A worker has ended or does not answer. Its state is lost."""


_PAIRS_PER_PART = 16_384
"""Number of pairs whose changes are computed and written together."""

BOUNDS = ("most_nodes", "most_rules", "most_options", "most_listed")
"""Batch fields that bound scratch memory. Each shard uses the values of the whole batch."""


class Setup(NamedTuple):
    """Settings of all workers of a batch: store settings, vocabulary sizes, blocks, threads and `BOUNDS`."""

    settings: Settings
    vocabulary: tuple[int, int]
    blocks: Blocks
    threads: int
    bounds: dict[str, Any]


class Variables(NamedTuple):
    """Sampled variables of pairs: `edge` uint16[N] and `cut` uint8[N] as in `State`, and records of averages."""

    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]
    records: Blobs


Contents = tuple[PairTexts, NDArray[np.int64], Variables]
"""Shard as sent to a worker: its pairs, the offsets of the rounds, and the variables."""


class StoredContents(NamedTuple):
    """Shard that a worker reads: store URL, lease token, pair ids, round offsets, newer variables or None."""

    url: str
    token: str
    ids: NDArray[np.int64]
    rounds: NDArray[np.int64]
    variables: Variables | None


class OpenedShard(NamedTuple):
    """Answer of a worker that has read a shard: its batch's `BOUNDS`, and the rule counts of pairs not yet stored."""

    bounds: dict[str, Any]
    entering: NDArray[np.uint64]


class Shard:
    """Pairs of one shard."""

    def __init__(
        self,
        setup: Setup,
        model: Model,
        batch: Batch,
        rounds: NDArray[np.int64],
        variables: tuple[State, Averages],
        executor: ThreadPoolExecutor,
    ) -> None:
        self._setup = setup
        self._model = model
        self._batch = batch
        self._rounds = rounds
        self._state, self._averages = variables
        self._executor = executor
        self._schedule = make_schedule(setup.settings)
        self._plan: SweepPlan | None = None
        self.bound(setup.bounds)

    @classmethod
    def of_texts(cls, setup: Setup, model: Model, contents: Contents, executor: ThreadPoolExecutor) -> Self:
        """Make a shard from the received contents."""
        texts, rounds, (edge, cut, records) = contents
        # Received arrays are read-only, for which kernels would be recompiled.
        numbers, bitext, source_hashes, target_hashes = texts
        bitext = Bitext._make(array.copy() for array in bitext)
        words = add_up(source_hashes.copy(), target_hashes.copy(), keys.ALL_BITS)
        forests = build_forests(bitext, setup.settings.span_limit)
        batch = make_batch(bitext, words, forests, numbers.copy(), longest_rule(setup.settings))
        averages = read_averages(batch, _own(records))
        return cls(setup, model, batch, rounds, (State(edge.copy(), cut.copy()), averages), executor)

    def bound(self, bounds: dict[str, Any]) -> None:
        """Build the kernel, with scratch memory of the size given by these `BOUNDS`."""
        setup = self._setup
        self.kernel = build(
            self._model, self._batch._replace(**bounds), blocks=setup.blocks,
            workers=setup.threads, run=self._executor.map,
        )  # fmt: skip

    def sample(self, number: int, request: SweepRequest | None, table: CountTable) -> NDArray[np.uint64]:
        """Sample a round's part against the unchanged table; return changes that are valid until the next round."""
        if request is not None:
            self._plan = make_plan(SweepRequest._make(column.copy() for column in request), self._schedule)
            self.kernel.begin()
        assert self._plan is not None
        state = ChainState(self._state, table, self._averages)
        pairs = int(self._rounds[number]), int(self._rounds[number + 1])
        self.kernel.sample(self._setup.settings.seed, state, self._plan, pairs)
        changes = self.kernel.changes()
        return changes[0] if len(changes) == 1 else np.concatenate(changes)

    def variables(self) -> Variables:
        """Return the pairs' current variables."""
        edge, cut = self._state
        return Variables(edge.copy(), cut.copy(), write_averages(self._averages))


class StoredShard(Shard):
    """Shard that its worker reads from the store and writes to it."""

    def __init__(
        self, setup: Setup, model: Model, contents: StoredContents, store: Store, executor: ThreadPoolExecutor
    ) -> None:
        self._store = store
        self._token = contents.token
        self._pairs = pairs = ResidentBatch.of(store.pairs_by_id(contents.ids.tolist()), setup.settings)
        if not np.array_equal(pairs.ids, contents.ids):
            raise PairMissingError("pairs were withdrawn while they were sampled: start again")
        loaded = pairs.loaded
        # Workers sample only this kind, see `check_shareable`.
        assert isinstance(loaded, LoadedPairs)
        changed = loaded.batch, pairs.state, empty_table(longest_rule(setup.settings)), model, 1, pairs.committed
        self.entering = list_rules(count_rules(*changed))
        if contents.variables is not None:
            edge, cut, records = contents.variables
            pairs.state = State(edge.copy(), cut.copy())
            pairs.present_averages = loaded.read_averages(_own(records))
        self._written: Blobs | None = None
        super().__init__(setup, model, loaded.batch, contents.rounds, (pairs.state, pairs.averages), executor)

    def opened(self) -> OpenedShard:
        """Return the answer for the other workers."""
        return OpenedShard({name: getattr(self._batch, name) for name in BOUNDS}, self.entering)

    def write(self, sweeps: NDArray[np.int64]) -> list[WrittenPart]:
        """Write the pairs, with these sweep counts, into tables of their own."""
        pairs = self._pairs
        pairs.sweeps = sweeps.copy()
        self._written = pairs.written_averages()
        return [
            self._store.write_part(self._token, token_hex(6), updates, deltas)
            for updates, deltas in pairs.parts(self._written, _PAIRS_PER_PART, _PAIRS_PER_PART)
        ]

    def mark_committed(self) -> None:
        """Record that the written pairs are committed, if this worker wrote them."""
        if self._written is not None:
            self._pairs.mark_committed(self._written)
            self._written = None


Changes = NDArray[np.uint64]
"""Changes of the table in a round: uint64[n, 4], see `hierogram.samplers.synchronous.sweeps.merge`."""


Step = tuple[int, dict[int, SweepRequest]]
"""Round: its number, and the requests of its shards by number if it starts a sweep."""


class ShardResult(NamedTuple):
    """Result of a shard's round: changes, their sum, statistics so far, and seconds of merging."""

    changes: Changes
    tokens: int
    info: SweepInfo
    adding: float


Part = dict[int, ShardResult]
"""Results of shards in a round, by shard number. The parts of all workers make up the round."""


def merge_changes_into(changes: Changes, table: CountTable, model: Model) -> CountTable:
    """Return the table with the changes merged. It may be a new, larger table."""
    table = with_room(table, len(changes))
    # Kernels would be recompiled for read-only arrays.
    merge_changes(changes if changes.flags.writeable else np.array(changes), table, model)
    return table


def make_table(rules: Changes, longest_rule: int, model: Model) -> CountTable:
    """Return a table of these rules, given as changes of an empty table."""
    return merge_changes_into(rules, empty_table(longest_rule, len(rules)), model)


def list_rules(table: CountTable) -> Changes:
    """Return the rules of a table as changes of an empty table."""
    return np.asarray(table.rows[table.tags != 0])


def _own(records: Blobs) -> Blobs:
    return Blobs(records.content.copy(), records.offsets.copy())


def _inverted(changes: Changes) -> Changes:
    back = np.array(changes)
    back[:, COUNT] = (-back[:, COUNT].view(np.int64)).view(np.uint64)
    return back


class Worker:
    """Worker that samples its shards round by round against its copy of the table, equal for all workers."""

    _setup: Setup
    _model: Model
    _table: CountTable

    def __init__(self) -> None:
        self._shards: dict[int, Shard] = {}
        self._executor = ThreadPoolExecutor(1)
        self._adding = 0.0
        self._store: Store | None = None
        self._store_url = ""
        # Changes of its own shards in this round, and the shards whose changes are already in the table.
        self._own: dict[int, Changes] = {}
        self._settled: list[int] = []

    def ready(self) -> int:
        """Return the process id."""
        return os.getpid()

    def begin(self, setup: Setup, rules: Changes | None) -> None:
        """Drop all shards and load these rules, given as changes, into the table (None: keep the table)."""
        self._executor.shutdown()
        self._executor = ThreadPoolExecutor(setup.threads)
        self._setup = setup
        self._model = make_model(setup.settings, setup.vocabulary)
        self._shards, self._own, self._settled = {}, {}, []
        if rules is not None:
            self._table = make_table(rules, longest_rule(setup.settings), self._model)

    def perform(self, task: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function that does not use the shards; return its result."""
        return task(*arguments)

    def reaches(self, url: str, token: str) -> bool:
        """Return whether this worker can read and write the store at the URL and that store has this lease."""
        try:
            lease = self._opened_store(url).lease()
        except StoreError:
            return False
        return lease is not None and lease.token == token

    def _opened_store(self, url: str) -> Store:
        if self._store is None or self._store_url != url:
            self._store, self._store_url = open_store(url), url
        return self._store

    def open(self, number: int, contents: Contents | StoredContents) -> OpenedShard | None:
        """Open a shard. Returns an answer for the other workers if it is read from the store."""
        if not isinstance(contents, StoredContents):
            self._shards[number] = Shard.of_texts(self._setup, self._model, contents, self._executor)
            return None
        store = self._opened_store(contents.url)
        shard = self._shards[number] = StoredShard(self._setup, self._model, contents, store, self._executor)
        return shard.opened()

    def enter(self, setup: Setup, changes: Sequence[Changes]) -> None:
        """Merge the counts of all shards' unstored pairs. The setup now has the bounds of all shards."""
        self._setup = setup
        for shard in self._shards.values():
            shard.bound(setup.bounds)
        for change in changes:
            self._add(change)

    def write(
        self, sweeps: dict[int, NDArray[np.int64]], numbers: Sequence[int], *before: Part
    ) -> dict[int, list[WrittenPart]]:
        """Merge the changes of the last round; write the pairs of these shards with these sweep counts."""
        self._add_all(before)
        return {number: self._stored_shard(number).write(sweeps[number]) for number in numbers}

    def mark_committed(self, numbers: Sequence[int]) -> dict[int, None]:
        """Record that the written pairs of these shards are committed."""
        for number in numbers:
            self._stored_shard(number).mark_committed()
        return dict.fromkeys(numbers)

    def _stored_shard(self, number: int) -> StoredShard:
        shard = self._shards[number]
        assert isinstance(shard, StoredShard)
        return shard

    def work(self, step: Step, numbers: Sequence[int], *before: Part) -> Part:
        """Merge the changes of the previous round, then sample these shards' parts of a round."""
        self._add_all(before)
        return {number: self._sample(number, step) for number in numbers}

    def settle(self) -> Part:
        """Merge its own shards' changes while other workers still sample and their changes are transferred."""
        started = time.perf_counter()
        for number, changes in self._own.items():
            self._add(changes)
            self._settled.append(number)
        self._adding += time.perf_counter() - started
        return {}

    def recover(
        self, number: int, contents: Contents | StoredContents, steps: Sequence[Step], *changes: Changes
    ) -> None:
        """Take over another worker's shard as it was before these rounds and repeat its part of them."""
        for one in self._settled:
            self._add(_inverted(self._own[one]))
        self._settled = []
        for change in reversed(changes):
            self._add(_inverted(change))
        self.open(number, contents)
        for step, change in zip(steps, changes, strict=True):
            self._sample(number, step)
            self._add(change)

    def collect(self, numbers: Sequence[int], *before: Part) -> dict[int, Variables]:
        """Merge the changes of the last round; return the variables of these shards."""
        self._add_all(before)
        return {number: self._shards[number].variables() for number in numbers}

    def rules(self, numbers: Sequence[int], *before: Part) -> dict[int, Changes | None]:
        """Merge the changes of the last round; return all rules if this worker has shard 0."""
        self._add_all(before)
        return {number: list_rules(self._table) if number == 0 else None for number in numbers}

    def _sample(self, number: int, step: Step) -> ShardResult:
        shard = self._shards[number]
        adding, self._adding = self._adding, 0.0
        changes = self._own[number] = shard.sample(step[0], step[1].get(number), self._table)
        return ShardResult(changes, int(changes[:, COUNT].view(np.int64).sum()), shard.kernel.info(), adding)

    def _add_all(self, before: Sequence[Part]) -> None:
        started = time.perf_counter()
        for part in before:
            for number, done in part.items():
                if number not in self._settled:
                    self._add(done.changes)
        if before:
            self._own, self._settled = {}, []
        self._adding += time.perf_counter() - started

    def _add(self, changes: Changes) -> None:
        self._table = merge_changes_into(changes, self._table, self._model)
