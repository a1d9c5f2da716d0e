"""Pool of workers that sample a batch. Runs in the process that holds the store's lease.

A worker samples shards, which are parts of the batch. The samples do not depend on the number of workers or on lost
workers. To recover the shards of a lost worker, the pool keeps the changes of all rounds since it last collected the
pairs' variables. Another worker then undoes these changes in its table, opens the shard with the collected variables,
and repeats the shard's part of each round.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import ClusterLostError, DaemonError
from hierogram.daemon.learning.kinds.kind import SweepRequest
from hierogram.daemon.learning.kinds.pairs import LoadedPairs, longest_rule
from hierogram.daemon.workers.worker import (
    Changes,
    PairTexts,
    RoundRequest,
    Setup,
    ShardContents,
    Variables,
    WorkerLostError,
    list_rules,
    make_table,
    merge_changes_into,
)
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.forests.forest import Bitext
from hierogram.samplers.grammar.columns import Blobs, join_blobs, split_blobs
from hierogram.samplers.grammar.keys import BASE
from hierogram.samplers.kernel import Report
from hierogram.samplers.synchronous.sweeps import Blocks

if TYPE_CHECKING:
    # Import only for type checks, because the module requires Ray, an optional dependency.
    from hierogram.daemon.workers.ray_cluster import RayCluster

Call = Any
"""Handle of a worker call that may still be running."""

_MAX_CONSECUTIVE_LOSSES = 20
_TOO_MANY_LOSSES = (
    f"{_MAX_CONSECUTIVE_LOSSES} workers were lost in a row: read the Ray logs of their machines (by default in "
    "/tmp/ray/session_latest/logs)"
)
_MAX_KEPT_BYTES = 256 << 20
"""Maximum size of kept changes, in bytes. Larger changes are dropped after collecting the variables."""
_MAX_PASSED_REFERENCES = 16
"""Maximum number of results that workers fetch from each other. More results are stored as one object."""
_NODE_COST = 11
"""Cost of sampling a node, in units of the cost of weighting one edge tail (measured)."""


class ShardPlan(NamedTuple):
    """Indices of a shard's pairs in the batch, ascending. Round r has `pairs[rounds[r] : rounds[r + 1]]`."""

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
        self._plans: list[ShardPlan] = []
        self._shards: dict[int, list[int]] = {}
        self._kept_rounds: list[tuple[RoundRequest, list[Changes]]] = []
        self._kept_bytes = 0
        self._unsent: list[Any] = []
        self._unmerged: list[Changes] = []
        self._unmerged_tokens = 0

    @property
    def synced_workers(self) -> frozenset[int]:
        """Ids of workers whose tables equal this process's. Empty between a round and the next `collect`."""
        return frozenset() if self._kept_rounds else frozenset(self._shards)

    def distribute(self, table: CountTable, synced_workers: frozenset[int]) -> None:
        """Distribute the batch. All workers but `synced_workers` receive the table. Raises `DaemonError`."""
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
        edge, cut, records = self._variables
        variables = Variables(edge[nodes], cut[nodes], _take_blobs(records, plan.pairs))
        return extract_texts(self.loaded.batch, plan.pairs), plan.rounds, variables

    def sweep(self, request: SweepRequest, report: Report) -> SweepInfo:
        """Run one sweep and return its statistics."""
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
            results, calls = self._call_all("sample", round_request)
            # Pass the results to the workers with the next call.
            if 0 < len(calls) <= _MAX_PASSED_REFERENCES:
                self._unsent = [self._cluster.reference(call) for call in calls]
            else:
                self._unsent = [self._cluster.put(results)]
            changes = [results[shard].changes for shard in range(len(self._plans))]
            self._kept_rounds.append((round_request, changes))
            self._kept_bytes += sum(part.nbytes for part in changes)
            self._unmerged += changes
            self._unmerged_tokens += sum(result.tokens for result in results.values())
            report(sum(int(plan.rounds[round_number + 1]) for plan in self._plans))
        infos = [results[shard].info for shard in range(len(self._plans))]
        if self._kept_bytes > _MAX_KEPT_BYTES:
            self.collect()
        return SweepInfo(*map(sum, zip(*infos, strict=True)))

    @property
    def rule_tokens(self) -> int:
        """Number of rule uses, including the changes of the finished rounds."""
        return self._table.rule_tokens + self._unmerged_tokens

    def counts(self) -> CountTable:
        """Return the table, including the changes of the finished rounds."""
        if sum(map(len, self._unmerged)) > self._table.rule_types:
            # Rebuild the table from a worker's table, which is faster than merging this many changes.
            rules, _ = self._call_all("rules")
            # `_call_all` merges the changes itself if processors are idle or a worker was lost.
            if self._unmerged:
                self._table = make_table(rules[0], longest_rule(self._setup.settings), self._model)
                self._unmerged, self._unmerged_tokens = [], 0
        self._merge()
        return self._table

    def _merge(self) -> None:
        for changes in self._unmerged:
            self._table = merge_changes_into(changes, self._table, self._model)
        self._unmerged, self._unmerged_tokens = [], 0

    def collect(self) -> Variables:
        """Return the pairs' current variables, and drop the kept changes of earlier rounds."""
        if not self._kept_rounds:
            return self._variables
        collected, _ = self._call_all("collect")
        edge, cut = self._variables.edge.copy(), self._variables.cut.copy()
        records = [b""] * self.loaded.batch.size
        for shard_id, plan in enumerate(self._plans):
            nodes = _entry_indices(self._offsets, plan.pairs)
            edge[nodes], cut[nodes], shard_records = collected[shard_id]
            for pair, record in zip(plan.pairs.tolist(), split_blobs(shard_records), strict=True):
                records[pair] = record
        self._variables = Variables(edge, cut, join_blobs(records))
        self._kept_rounds, self._kept_bytes = [], 0
        # Merge now, because unmerged changes of these rounds would stay in memory.
        self.counts()
        return self._variables

    def _call_all(self, method: str, *arguments: object) -> tuple[dict[int, Any], list[Call]]:
        """Call each worker and recover lost shards. Returns results by shard, and calls, or [] after a loss."""
        unsent, self._unsent = self._unsent, []
        calls = [
            (worker, self._cluster.call(worker, method, *arguments, shard_ids, *unsent))
            for worker, shard_ids in self._shards.items()
        ]
        if not self._cluster.fills_machine:
            # Use the idle processors to merge while the workers run.
            self._merge()
        results: dict[int, Any] = {}
        orphans: list[int] = []
        for worker, call in calls:
            try:
                results |= self._cluster.result(call)
            except WorkerLostError:
                orphans += self._shards.pop(worker)
        if not orphans:
            return results, [call for _, call in calls]
        self._merge()
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
        return results, []

    def _next_worker(self) -> int | None:
        """Return the id of a new worker, or of the worker with the fewest shards. None if the new one is lost."""
        worker = self._cluster.start()
        if worker is None:
            if not self._shards:
                raise ClusterLostError("all workers were lost, and no new worker can start: check the Ray cluster")
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
    """Return the indices of the pairs' entries, which are `offsets[p]:offsets[p + 1]` for pair p."""
    sizes = offsets[pairs + 1] - offsets[pairs]
    ends = np.cumsum(sizes)
    return np.repeat(offsets[pairs] - ends + sizes, sizes) + np.arange(sizes.sum())


def extract_texts(batch: Batch, pairs: NDArray[np.int64]) -> PairTexts:
    """Copy the texts of the given pairs of a batch, in this order. Offsets start at 0."""
    bitext, words = batch.bitext, batch.words
    source, target = _entry_indices(bitext.source_offset, pairs), _entry_indices(bitext.target_offset, pairs)
    links = _entry_indices(bitext.link_offset, pairs)
    chosen = Bitext(
        bitext.source[source],
        _offsets(bitext.source_offset, pairs),
        bitext.target[target],
        _offsets(bitext.target_offset, pairs),
        bitext.link_source[links],
        bitext.link_target[links],
        _offsets(bitext.link_offset, pairs),
    )
    return batch.pairs[pairs], chosen, _hashes(words.source, source), _hashes(words.target, target)


def _hashes(prefix_hashes: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes: NDArray[np.uint64] = prefix_hashes[positions + 1] - prefix_hashes[positions] * BASE
    return hashes


def _offsets(offsets: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(offsets[pairs + 1] - offsets[pairs]))


def _take_blobs(blobs: Blobs, pairs: NDArray[np.int64]) -> Blobs:
    return Blobs(blobs.content[_entry_indices(blobs.offsets, pairs)], _offsets(blobs.offsets, pairs))
