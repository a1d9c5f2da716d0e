"""Sampler chain of a store whose pairs are sampled by Ray workers.

A sweep consists of rounds. In a round, each worker samples some pairs of each of its shards, which are parts of the
batch, with the same rule counts. Then all workers exchange the changes of the counts. The samples do not depend on the
number of workers or on lost workers.

To recover the shards of a lost worker, the pool keeps the changes of all rounds since it last collected the pairs'
variables. Another worker then undoes these changes in its table, opens the shard with the collected variables, and
repeats the shard's part of each round.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.learning.kinds.kind import Chain, ChainConfig, Sweep, SweepRequest, find_kind
from hierogram.daemon.learning.kinds.pairs import LoadedPairs
from hierogram.daemon.learning.kinds.synchronous import SynchronousChain
from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.worker import (
    Changes,
    PairTexts,
    RoundRequest,
    Setup,
    ShardContents,
    Variables,
    WorkerLostError,
    list_rules,
    merge_changes_into,
)
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.forests.averages import Averages
from hierogram.samplers.forests.derivations import Batch, State
from hierogram.samplers.forests.forest import Bitext
from hierogram.samplers.grammar.columns import Blobs, join_blobs, split_blobs
from hierogram.samplers.grammar.keys import BASE
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.samplers.kernel import Report
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.exceptions import install_extra
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

if TYPE_CHECKING:
    # Import only for type checks, because the module requires Ray, an optional dependency.
    from hierogram.daemon.workers.ray_cluster import RayCluster

_PAIRS_PER_ROUND = 24_576
_MIN_ROUNDS = 2


def check_workers(settings: Settings) -> None:
    """Raise `DaemonError` if Ray is not installed, or workers cannot sample a store with these settings."""
    if find_spec("ray") is None:
        raise DaemonError(f"workers require Ray: {install_extra('cluster')}")
    if find_kind(settings).name != SYNCHRONOUS:
        raise DaemonError(
            f"workers cannot sample a store of kind {settings.grammar}, only of kind {SYNCHRONOUS}: learn without "
            "workers"
        )
    if settings.type_moves:
        raise DaemonError(
            "workers do not support type-based moves, which need all pairs at once: learn without workers"
        )


@contextmanager
def start_workers(
    store: Store, workers: Workers | None, threads: int
) -> Iterator[Callable[[Store, ChainConfig], Chain] | None]:
    """Yield a factory of chains on a Ray cluster, or None if `workers` is None. Raises `DaemonError`."""
    if workers is None:
        yield None
        return
    check_workers(store.settings())
    # Import Ray only if workers are requested, because it is an optional dependency.
    from hierogram.daemon.workers.ray_cluster import ray_cluster

    with ray_cluster(workers, threads) as cluster:
        yield partial(ClusterChain, cluster=cluster)


def _choose_blocks(pairs: int) -> Blocks | None:
    """Return blocks for a few rounds of about equal size, or None if there are too few pairs for blocks."""
    blocks = Blocks.suited_to(pairs)
    if blocks is None:
        return None
    rounds = max(_MIN_ROUNDS, -(-pairs // _PAIRS_PER_ROUND))
    return replace(blocks, blocks_per_round=-(-pairs // (rounds * blocks.pairs_per_block)))


class ClusterChain(SynchronousChain):
    """Chain whose pairs are sampled by workers, which alone have the derivations until `gather`."""

    def __init__(self, store: Store, config: ChainConfig, cluster: "RayCluster") -> None:
        super().__init__(store, config)
        self._cluster = cluster
        self.pool: WorkerPool | None = None
        self._synced_workers: frozenset[int] = frozenset()
        """Workers whose tables equal `table` while no pool exists."""

    def rule_table(self) -> CountTable:
        """Return the counts of all rules, including the changes by workers."""
        if self.pool is not None:
            self.table = self.pool.counts()
        return self.table

    def add_pairs(self, loaded: LoadedPairs, state: State, stored: NDArray[np.bool_]) -> None:
        """Count derivations that are not `stored`. Workers get the counts with the next sweep."""
        self._drop_pool(outdated=not stored.all())
        super().add_pairs(loaded, state, stored)

    def change_counts(self, loaded: LoadedPairs, state: State, weight: int) -> None:
        """Add `weight` to the count of each rule in the derivations."""
        self._drop_pool(outdated=True)
        super().change_counts(loaded, state, weight)

    def refresh_model(self, store: Store) -> None:
        """Update the model to the store's current vocabulary sizes."""
        self._drop_pool(outdated=True)
        super().refresh_model(store)

    def _drop_pool(self, outdated: bool) -> None:
        """Drop the pool. If the workers' tables are `outdated`, workers receive the table with the next sweep."""
        self.rule_table()
        if outdated:
            self._synced_workers = frozenset()
        elif self.pool is not None:
            self._synced_workers = self.pool.synced_workers
        self.pool = None

    def sweep(self, loaded: LoadedPairs) -> Sweep:
        """Return a sweep over the pairs, on the workers if in blocks. It then returns an outdated state."""
        blocks = self._config.blocks or _choose_blocks(loaded.batch.size)
        if blocks is None:
            self._drop_pool(outdated=True)
            return super().sweep(loaded)
        self._compiling.wait()

        def run_sweep(
            state: State, averages: Averages, request: SweepRequest, report: Report
        ) -> tuple[State, SweepInfo]:
            if self.pool is None or self.pool.loaded is not loaded:
                self._drop_pool(outdated=False)
                variables = state.copy(), loaded.write_averages(averages)
                setup = Setup(self._settings, self._vocabulary, blocks, self._config.threads)
                pool = WorkerPool(self._cluster, setup, self.model, loaded, variables)
                pool.distribute(self.table, self._synced_workers)
                self.pool = pool
            return state, self.pool.sweep(request, report)

        return run_sweep

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Copy the workers' variables into the state. Returns it and the averages, unchanged without a pool."""
        if self.pool is None:
            return state, averages
        (state.edge[:], state.cut[:]), records = self.pool.collect()
        return state, self.pool.loaded.read_averages(records)


_MAX_CONSECUTIVE_LOSSES = 20
_TOO_MANY_LOSSES = (
    f"{_MAX_CONSECUTIVE_LOSSES} workers were lost in a row: read the Ray logs of their machines (by default in "
    "/tmp/ray/session_latest/logs)"
)
_MAX_KEPT_BYTES = 256 << 20
"""Maximum size of kept changes, in bytes. Larger changes are dropped after collecting the variables."""
_NODE_COST = 11
"""Cost of sampling a node, in units of the cost of weighting one edge tail (measured)."""


class ShardPlan(NamedTuple):
    """Indices of a shard's pairs, ascending. Round r has `pairs[rounds[r] : rounds[r + 1]]`."""

    pairs: NDArray[np.int64]
    rounds: NDArray[np.int64]


class WorkerPool:
    """Workers that sample the shards of a batch, each with a copy of this process's rule table."""

    def __init__(
        self, cluster: "RayCluster", setup: Setup, model: Model, loaded: LoadedPairs, variables: Variables
    ) -> None:
        self._cluster = cluster
        self._setup = setup
        self._model = model
        self.loaded = loaded
        self._offsets = loaded.batch.forests.node_offset
        self._variables = variables
        """Variables of all pairs when they were last collected."""
        self._plans: list[ShardPlan] = []
        """Plan of each shard, by shard id."""
        self._shards: dict[int, list[int]] = {}
        """Ids of the shards of each worker, by worker id."""
        self._kept_rounds: list[tuple[RoundRequest, Sequence[Changes]]] = []
        """Requests and changes (by shard id) of the rounds since the variables were last collected."""
        self._kept_bytes = 0
        self._unsent: list[Any] = []
        """References to results of the last round, which the workers have not merged."""
        self._unmerged: list[Changes] = []
        """Changes that this process has not merged."""

    @property
    def synced_workers(self) -> frozenset[int]:
        """Ids of workers whose tables equal this process's. Empty between a round and the next `collect`."""
        return frozenset() if self._kept_rounds else frozenset(self._shards)

    def distribute(self, table: CountTable, synced_workers: frozenset[int]) -> None:
        """Divide the batch into a shard per worker. All workers but `synced_workers` receive the table."""
        self._table = table
        for _ in range(_MAX_CONSECUTIVE_LOSSES):
            with suppress(WorkerLostError):
                self._try_to_distribute(synced_workers)
                return
            synced_workers = frozenset()
        raise DaemonError(_TOO_MANY_LOSSES)

    def _try_to_distribute(self, synced_workers: frozenset[int]) -> None:
        workers = self._usable_workers()
        if not workers:
            raise DaemonError(
                f"cannot start a worker: check that a machine of the cluster has {self._cluster.threads} free "
                "processors and read its Ray logs, or use fewer threads per worker"
            )
        cumulative_work = self.loaded.batch.forests.pair_tail_offset + _NODE_COST * self._offsets
        self._plans = plan_shards(cumulative_work, self._setup.blocks, len(workers))
        self._shards = {worker: [shard_id] for shard_id, worker in enumerate(workers)}
        rules = None if synced_workers.issuperset(workers) else self._cluster.put(list_rules(self._table))
        calls = [
            self._cluster.call(worker, "reset", self._setup, None if worker in synced_workers else rules)
            for worker in workers
        ]
        calls += [
            self._cluster.call(worker, "open", shard_id, self._shard_contents(shard_id))
            for shard_id, worker in enumerate(workers)
        ]
        for call in calls:
            self._cluster.result(call)

    def _shard_contents(self, shard_id: int) -> ShardContents:
        plan = self._plans[shard_id]
        nodes = _entry_indices(self._offsets, plan.pairs)
        (edge, cut), records = self._variables
        variables = State(edge[nodes], cut[nodes]), Blobs(*_take_ranges(*records, plan.pairs))
        return extract_texts(self.loaded.batch, plan.pairs), plan.rounds, variables

    def sweep(self, request: SweepRequest, report: Report) -> SweepInfo:
        """Run a sweep and return its statistics. `report` gets the sampled pairs after each round."""
        if self._cluster.target_workers != len(self._cluster.workers()):
            workers = self._usable_workers()
            if len(workers) != len(self._plans) or not self._shards.keys() >= set(workers):
                # Redistribute the batch, because workers were added, or lost workers were not replaced at once.
                self.collect()
                self.distribute(self._table, self.synced_workers)
        requests = {
            shard_id: SweepRequest._make(column[plan.pairs] for column in request)
            for shard_id, plan in enumerate(self._plans)
        }
        for round_number in range(len(self._plans[0].rounds) - 1):
            round_request = round_number, {} if round_number else requests
            results, references = self._call_all("sample", round_request)
            # Workers get the results with the next call.
            self._unsent = references
            changes, infos = zip(*(results[shard] for shard in range(len(self._plans))), strict=True)
            self._kept_rounds.append((round_request, changes))
            self._kept_bytes += sum(part.nbytes for part in changes)
            self._unmerged += changes
            report(sum(int(plan.rounds[round_number + 1]) for plan in self._plans))
        if self._kept_bytes > _MAX_KEPT_BYTES:
            self.collect()
        return SweepInfo(*map(sum, zip(*infos, strict=True)))

    def counts(self) -> CountTable:
        """Return the rule table of this process, including the changes of all finished rounds."""
        for changes in self._unmerged:
            self._table = merge_changes_into(changes, self._table, self._model)
        self._unmerged = []
        return self._table

    def collect(self) -> Variables:
        """Fetch the pairs' current variables from the workers, and drop the kept changes of earlier rounds."""
        if not self._kept_rounds:
            return self._variables
        collected, _ = self._call_all("collect")
        state, records = self._variables[0].copy(), [b""] * self.loaded.batch.size
        for shard_id, plan in enumerate(self._plans):
            nodes = _entry_indices(self._offsets, plan.pairs)
            (state.edge[nodes], state.cut[nodes]), shard_records = collected[shard_id]
            for pair, record in zip(plan.pairs.tolist(), split_blobs(shard_records), strict=True):
                records[pair] = record
        self._variables = state, join_blobs(records)
        self._kept_rounds, self._kept_bytes = [], 0
        return self._variables

    def _call_all(self, method: str, *arguments: object) -> tuple[dict[int, Any], list[Any]]:
        """Call each worker and recover lost shards. Returns the results by shard, and references to them."""
        unsent, self._unsent = self._unsent, []
        calls = [
            (worker, self._cluster.call(worker, method, *arguments, shard_ids, *unsent))
            for worker, shard_ids in self._shards.items()
        ]
        # Merge the changes of the last round while the workers run.
        self.counts()
        results: dict[int, Any] = {}
        orphans: list[int] = []
        for worker, call in calls:
            try:
                results |= self._cluster.result(call)
            except WorkerLostError:
                orphans += self._shards.pop(worker)
        if not orphans:
            return results, [self._cluster.reference(call) for _, call in calls]
        losses = 0
        while orphans:
            losses += 1
            if losses > _MAX_CONSECUTIVE_LOSSES:
                raise DaemonError(_TOO_MANY_LOSSES)
            replacement = self._next_worker()
            if replacement is None:
                continue
            shard_id = orphans[0]
            try:
                self._shards[replacement].append(shard_id)
                requests = [round_request for round_request, _ in self._kept_rounds]
                changes = [np.concatenate(parts) for _, parts in self._kept_rounds]
                contents = self._shard_contents(shard_id)
                self._cluster.result(self._cluster.call(replacement, "recover", shard_id, contents, requests, *changes))
                results |= self._cluster.result(self._cluster.call(replacement, method, *arguments, [shard_id]))
            except WorkerLostError:
                # The other shards of the lost worker need a new worker as well, even if they have results.
                orphans += [orphan for orphan in self._shards.pop(replacement) if orphan not in orphans]
            else:
                losses = 0
                orphans.pop(0)
        return results, [self._cluster.put(results)]

    def _next_worker(self) -> int | None:
        """Return the id of a new worker, or of the worker with the fewest shards. None if a new one is lost."""
        worker = self._cluster.start()
        if worker is None:
            if not self._shards:
                raise DaemonError("all workers were lost, and no new worker can start: check the Ray cluster")
            return min(self._shards, key=lambda candidate: (len(self._shards[candidate]), candidate))
        try:
            self._cluster.result(self._cluster.call(worker, "reset", self._setup, list_rules(self._table)))
        except WorkerLostError:
            return None
        self._shards[worker] = []
        return worker

    def _usable_workers(self) -> list[int]:
        """Start workers up to the target number. Returns the ids of workers that can take a shard."""
        while len(self._cluster.workers()) < self._cluster.target_workers and self._cluster.start() is not None:
            pass
        return self._cluster.workers()[: min(self._setup.blocks.blocks_per_round, self._cluster.target_workers)]


def plan_shards(cumulative_work: NDArray[np.int64], blocks: Blocks, shards: int) -> list[ShardPlan]:
    """Plan shards with about equal work per round, given `cumulative_work` int64[P + 1] before each pair."""
    pairs = len(cumulative_work) - 1
    size = blocks.pairs_per_block
    round_size = size * blocks.blocks_per_round
    bounds = np.zeros((len(range(0, pairs, round_size)), shards + 1), np.int64)
    for round_number, start in enumerate(range(0, pairs, round_size)):
        end = min(start + round_size, pairs)
        block_edges = np.append(np.arange(start, end, size), end)
        work_before = cumulative_work[block_edges]
        targets = work_before[0] + (work_before[-1] - work_before[0]) * np.arange(shards + 1) / shards
        # Divide at the block edges nearest to equal work, because blocks are sampled as a whole.
        bounds[round_number] = block_edges[np.searchsorted((work_before[1:] + work_before[:-1]) / 2, targets)]
    plans = []
    for shard in range(shards):
        first, last = bounds[:, shard], bounds[:, shard + 1]
        pairs_by_round = [np.arange(start, stop) for start, stop in zip(first, last, strict=True)]
        plans.append(ShardPlan(np.concatenate(pairs_by_round), np.append(0, np.cumsum(last - first))))
    return plans


def _entry_indices(offsets: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the entries of `pairs`, concatenated. Pair p has `offsets[p]:offsets[p + 1]`."""
    sizes = offsets[pairs + 1] - offsets[pairs]
    ends = np.cumsum(sizes)
    return np.repeat(offsets[pairs] - ends + sizes, sizes) + np.arange(sizes.sum())


def _take_ranges(
    values: NDArray[Any], offsets: NDArray[np.int64], pairs: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the entries of `pairs`, concatenated, and the offset of each pair in them, from 0."""
    return values[_entry_indices(offsets, pairs)], np.append(0, np.cumsum(np.diff(offsets)[pairs]))


def extract_texts(batch: Batch, pairs: NDArray[np.int64]) -> PairTexts:
    """Copy the texts of the pairs at the given indices of a batch, in this order."""
    bitext, words = batch.bitext, batch.word_hashes
    source, source_offset = _take_ranges(bitext.source, bitext.source_offset, pairs)
    target, target_offset = _take_ranges(bitext.target, bitext.target_offset, pairs)
    link_source, link_offset = _take_ranges(bitext.link_source, bitext.link_offset, pairs)
    link_target, _ = _take_ranges(bitext.link_target, bitext.link_offset, pairs)
    chosen = Bitext(source, source_offset, target, target_offset, link_source, link_target, link_offset)
    source_hashes, target_hashes = (prefix[1:] - prefix[:-1] * BASE for prefix in (words.source, words.target))
    source_hashes, _ = _take_ranges(source_hashes, bitext.source_offset, pairs)
    target_hashes, _ = _take_ranges(target_hashes, bitext.target_offset, pairs)
    return batch.pairs[pairs], chosen, source_hashes, target_hashes
