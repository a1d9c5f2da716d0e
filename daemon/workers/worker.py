"""A worker: its own copy of the rule table, and the shards that it was given. It runs in a process of its own."""

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
from hierogram.daemon.learning.kinds.synchronous import model_of, plan_of, schedule_of
from hierogram.daemon.learning.residents import ResidentBatch
from hierogram.daemon.workers.shares import Texts
from hierogram.samplers.counts.chain import ChainState, SweepInfo
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import COUNT, RuleTable, empty_table, with_room
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
    """A worker has ended, or does not answer; what it held is gone."""


_PAIRS_A_PART = 16_384
"""Pairs whose changes are worked out and written together."""

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


class StoredContents(NamedTuple):
    """A shard that a worker reads itself: the `url` of the store, the `token` of the claim, the ids of its pairs, where
    each round's begin, and how far they have come, where that is farther than the store says (None: as it says)."""

    url: str
    token: str
    ids: NDArray[np.int64]
    rounds: NDArray[np.int64]
    variables: Variables | None


class Opened(NamedTuple):
    """A shard that a worker has read: its batch's `BOUNDS`, and what its pairs that are not stored change."""

    bounds: dict[str, Any]
    entering: NDArray[np.uint64]


class Shard:
    """The pairs of one shard."""

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
        self._schedule = schedule_of(setup.settings)
        self._plan: SweepPlan | None = None
        self.bound(setup.bounds)

    @classmethod
    def of_texts(cls, setup: Setup, model: Model, contents: Contents, executor: ThreadPoolExecutor) -> Self:
        """Make a shard of what was sent."""
        texts, rounds, (edge, cut, records) = contents
        # Arrays that came from elsewhere cannot be written to, and kernels are compiled again for such.
        numbers, bitext, source_hashes, target_hashes = texts
        bitext = Bitext._make(array.copy() for array in bitext)
        words = add_up(source_hashes.copy(), target_hashes.copy(), keys.ALL_BITS)
        forests = build_forests(bitext, setup.settings.span_limit)
        batch = make_batch(bitext, words, forests, numbers.copy(), longest_rule(setup.settings))
        averages = read_averages(batch, _own(records))
        return cls(setup, model, batch, rounds, (State(edge.copy(), cut.copy()), averages), executor)

    def bound(self, bounds: dict[str, Any]) -> None:
        """Make the kernel, with scratch memory as these `BOUNDS` say."""
        setup = self._setup
        self.kernel = build(
            self._model, self._batch._replace(**bounds), method=setup.method, blocks=setup.blocks,
            workers=setup.threads, run=self._executor.map,
        )  # fmt: skip

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


class StoredShard(Shard):
    """A shard that its worker has read from the store, and writes there."""

    def __init__(
        self, setup: Setup, model: Model, contents: StoredContents, store: Store, executor: ThreadPoolExecutor
    ) -> None:
        self._store = store
        self._token = contents.token
        self._pairs = pairs = ResidentBatch.of(store.pairs_by_id(contents.ids.tolist()), setup.settings)
        if not np.array_equal(pairs.ids, contents.ids):
            raise PairMissingError("pairs have left the store while they were sampled: start again")
        loaded = pairs.loaded
        # Workers sample no other kind, see `check_shareable`.
        assert isinstance(loaded, LoadedPairs)
        changed = loaded.batch, pairs.state, empty_table(longest_rule(setup.settings)), model, 1, pairs.committed
        self.entering = rules_of(count_rules(*changed))
        if contents.variables is not None:
            edge, cut, records = contents.variables
            pairs.state = State(edge.copy(), cut.copy())
            pairs.present_averages = loaded.read_averages(_own(records))
        self._written: Blobs | None = None
        super().__init__(setup, model, loaded.batch, contents.rounds, (pairs.state, pairs.averages), executor)

    def opened(self) -> Opened:
        """Return what the others have to know of it."""
        return Opened({name: getattr(self._batch, name) for name in BOUNDS}, self.entering)

    def write(self, sweeps: NDArray[np.int64]) -> list[WrittenPart]:
        """Write the pairs, which have had so many sweeps, into tables of their own."""
        pairs = self._pairs
        pairs.sweeps = sweeps.copy()
        self._written = pairs.written_averages()
        return [
            self._store.write_part(self._token, token_hex(6), updates, deltas)
            for updates, deltas in pairs.parts(self._written, _PAIRS_A_PART, _PAIRS_A_PART)
        ]

    def note_committed(self) -> None:
        """Note that the store has what was written; nothing where another worker wrote it, and this one read it."""
        if self._written is not None:
            self._pairs.note_committed(self._written)
            self._written = None


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


def _own(records: Blobs) -> Blobs:
    return Blobs(records.content.copy(), records.offsets.copy())


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
        self._store: Store | None = None
        self._store_url = ""
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

    def perform(self, task: Callable[..., Result], *arguments: Any) -> Result:
        """Do something that has nothing to do with shards: what a function returns."""
        return task(*arguments)

    def reaches(self, url: str, token: str) -> bool:
        """Return whether the store at the URL can be read and written from here: that with this claim on it."""
        try:
            claim = self._opened_store(url).lease()
        except StoreError:
            return False
        return claim is not None and claim.token == token

    def _opened_store(self, url: str) -> Store:
        if self._store is None or self._store_url != url:
            self._store, self._store_url = open_store(url), url
        return self._store

    def open(self, number: int, contents: Contents | StoredContents) -> Opened | None:
        """Take a shard; return what the others have to know of one that is read here."""
        if not isinstance(contents, StoredContents):
            self._shards[number] = Shard.of_texts(self._setup, self._model, contents, self._executor)
            return None
        store = self._opened_store(contents.url)
        shard = self._shards[number] = StoredShard(self._setup, self._model, contents, store, self._executor)
        return shard.opened()

    def enter(self, setup: Setup, changes: Sequence[Changes]) -> None:
        """Add what pairs change that are not stored, those of all shards; the setup now has the bounds of all."""
        self._setup = setup
        for shard in self._shards.values():
            shard.bound(setup.bounds)
        for change in changes:
            self._add(change)

    def write(
        self, sweeps: dict[int, NDArray[np.int64]], numbers: Sequence[int], *before: Part
    ) -> dict[int, list[WrittenPart]]:
        """Add the changes of the last round; write the pairs of these shards, of which each has had so many sweeps."""
        self._add_all(before)
        return {number: self._stored_shard(number).write(sweeps[number]) for number in numbers}

    def note_committed(self, numbers: Sequence[int]) -> dict[int, None]:
        """Note that the store has what was written of these shards."""
        for number in numbers:
            self._stored_shard(number).note_committed()
        return dict.fromkeys(numbers)

    def _stored_shard(self, number: int) -> StoredShard:
        shard = self._shards[number]
        assert isinstance(shard, StoredShard)
        return shard

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

    def recover(
        self, number: int, contents: Contents | StoredContents, steps: Sequence[Step], *changes: Changes
    ) -> None:
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
