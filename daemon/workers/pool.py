"""Pool of the workers of a batch, in the process that holds the store's lease: runs rounds and replaces lost workers.

The samples depend only on the store, its seed and the blocks, not on the number of workers
or on lost workers. For this purpose the pool keeps the changes of all rounds since it last
collected the pairs' variables. A lost shard restarts from these variables on another
worker, which restores the table of that time and repeats the shard's part of each round.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from hierogram.daemon.exceptions import ClusterLostError, DaemonError
from hierogram.daemon.learning.kinds.kind import SweepRequest
from hierogram.daemon.learning.kinds.pairs import LoadedPairs, longest_rule
from hierogram.daemon.workers.sharding import (
    TAILS_PER_NODE,
    ShardPlan,
    entry_indices,
    extract_texts,
    join_shard_blobs,
    plan_shards,
    take_blobs,
)
from hierogram.daemon.workers.worker import (
    Changes,
    Contents,
    Part,
    Setup,
    Step,
    Variables,
    WorkerLostError,
    list_rules,
    make_table,
    merge_changes_into,
)
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.kernel import Report

if TYPE_CHECKING:
    # Ray is imported only if workers are requested.
    from hierogram.daemon.workers.ray_cluster import RayCluster

Call = Any
"""Handle of a worker call that may still be running."""

_MAX_LOSSES = 20
"""If this many workers are lost in one round, replacing them does not solve the problem."""
_KEPT_BYTES = 256 << 20
"""Variables are collected when the kept changes exceed this size."""
_MAX_PASSED_CHANGES = 16
"""Up to this number, workers fetch each other's results directly. Beyond it, all results pass through this process as
one value, since each argument of a call costs this process some time.
"""


class WorkerPool:
    """Workers that hold a batch in shards and copies of this process's rule table."""

    def __init__(
        self, cluster: "RayCluster", setup: Setup, model: Model, loaded: LoadedPairs, variables: Variables
    ) -> None:
        self._cluster = cluster
        self._setup = setup
        self._model = model
        self.loaded = loaded
        self._offsets = loaded.batch.forests.node_offset
        self._variables = variables
        self._shares: list[ShardPlan] = []
        self._shards: dict[int, list[int]] = {}
        self._past: list[tuple[Step, list[Changes]]] = []
        self._past_bytes = 0
        self._unsent: list[Any] = []
        self._settling: list[tuple[int, Call]] = []
        self._unmerged: list[Changes] = []
        self._unmerged_tokens = 0

    @property
    def in_step(self) -> frozenset[int]:
        """Workers whose tables equal this process's table: all workers once variables are collected, else none."""
        return frozenset() if self._past else frozenset(self._shards)

    def form(self, table: CountTable, in_step: frozenset[int] = frozenset()) -> None:
        """Distribute the batch over the available workers; those not `in_step` get the table. Raises `DaemonError`."""
        self._table = table
        self._in_step = in_step
        for _ in range(_MAX_LOSSES):
            try:
                self._form()
            except WorkerLostError:
                self._in_step = frozenset()
            else:
                return
        raise DaemonError(f"{_MAX_LOSSES} workers were lost in a row: check why they died")

    def _form(self) -> None:
        workers = usable_workers(self._cluster, self._setup.blocks.blocks_a_round)
        if not workers:
            raise DaemonError("cannot start a worker: no free CPU in the cluster")
        self._shares = self._share_out(len(workers))
        self._shards = {worker: [number] for number, worker in enumerate(workers)}
        rules = None if self._in_step.issuperset(workers) else self._cluster.share(list_rules(self._table))
        calls = [
            self._cluster.call(worker, "begin", self._setup, None if worker in self._in_step else rules)
            for worker in workers
        ]
        opening = [
            self._cluster.call(worker, "open", number, self._contents(number)) for number, worker in enumerate(workers)
        ]
        for call in calls + opening:
            self._cluster.result(call)

    def _share_out(self, shards: int) -> list[ShardPlan]:
        work = self.loaded.batch.forests.pair_tail_offset + TAILS_PER_NODE * self._offsets
        return plan_shards(work, self._setup.blocks, shards)

    def _contents(self, number: int) -> Contents:
        """Return a shard with its last collected variables."""
        share = self._shares[number]
        nodes = entry_indices(self._offsets, share.pairs)
        edge, cut, records = self._variables
        variables = Variables(edge[nodes], cut[nodes], take_blobs(records, share.pairs))
        return extract_texts(self.loaded.batch, share.pairs), share.rounds, variables

    def sweep(self, request: SweepRequest, report: Report) -> SweepInfo:
        """Run one sweep; return its statistics."""
        if self._cluster.target_workers != len(self._cluster.workers()):
            blocks = self._setup.blocks.blocks_a_round
            if len(usable_workers(self._cluster, blocks)) != len(self._shares):
                # Workers were added, or lost workers were not replaced.
                self.collect()
                self.form(self._table, self.in_step)
        requests = {
            number: SweepRequest._make(column[share.pairs] for column in request)
            for number, share in enumerate(self._shares)
        }
        for number in range(len(self._shares[0].rounds) - 1):
            done = self._round((number, {} if number else requests))
            report(sum(int(share.rounds[number + 1]) for share in self._shares))
        infos = [done[shard].info for shard in range(len(self._shares))]
        if self._past_bytes > _KEPT_BYTES:
            self.collect()
        return SweepInfo(*map(sum, zip(*infos, strict=True)))

    def _round(self, step: Step) -> Part:
        """Run one round. The results are kept, and the workers receive them with their next call."""
        done, calls = self._all("work", step, settle=True)
        if 0 < len(calls) <= _MAX_PASSED_CHANGES:
            self._unsent = [self._cluster.shared(call) for call in calls]
        else:
            self._unsent = [self._cluster.share(done)]
        changes = [done[shard].changes for shard in range(len(self._shares))]
        self._past.append((step, changes))
        self._past_bytes += sum(part.nbytes for part in changes)
        self._unmerged += changes
        self._unmerged_tokens += sum(result.tokens for result in done.values())
        return done

    @property
    def rule_tokens(self) -> int:
        """Number of rule uses after the rounds so far."""
        return self._table.rule_tokens + self._unmerged_tokens

    def counts(self) -> CountTable:
        """Return the table after the rounds so far."""
        if sum(map(len, self._unmerged)) > self._table.rule_types:
            # Rebuilding the table from that of a worker is faster.
            rules, _ = self._all("rules")
            if self._unmerged:
                self._table = make_table(rules[0], longest_rule(self._setup.settings), self._model)
                self._unmerged, self._unmerged_tokens = [], 0
        self._merge()
        return self._table

    def _merge(self) -> None:
        for changes in self._unmerged:
            self._table = merge_changes_into(changes, self._table, self._model)
        self._unmerged, self._unmerged_tokens = [], 0

    def collect(self) -> None:
        """Collect the pairs' variables, after which the changes of earlier rounds are no longer needed."""
        if not self._past:
            return
        found, _ = self._all("collect")
        edge, cut = self._variables.edge.copy(), self._variables.cut.copy()
        parts: list[tuple[ShardPlan, Blobs]] = []
        for number, share in enumerate(self._shares):
            nodes = entry_indices(self._offsets, share.pairs)
            edge[nodes], cut[nodes], records = found[number]
            parts.append((share, records))
        self._variables = Variables(edge, cut, join_shard_blobs(parts))
        self._past, self._past_bytes = [], 0
        # Merging releases the remaining references to these rounds' changes.
        self.counts()

    def variables(self) -> Variables:
        """Return the pairs' current variables."""
        self.collect()
        return self._variables

    def _all(self, method: str, *arguments: object, settle: bool = False) -> tuple[dict[int, Any], list[Call]]:
        """Call each worker once; return results by shard, and the calls if no worker was lost."""
        unsent, self._unsent = self._unsent, []
        burn_in_sweeps, self._settling = self._settling, []
        calls = [
            (worker, self._cluster.call(worker, method, *arguments, numbers, *unsent))
            for worker, numbers in self._shards.items()
        ]
        if settle:
            self._settling = [(worker, self._cluster.call(worker, "settle")) for worker in self._shards]
        if not self._cluster.fills_machine:
            # Merge while the workers run.
            self._merge()
        results: dict[int, Any] = {}
        orphans: list[int] = []
        for worker, call in burn_in_sweeps + calls:
            try:
                results |= self._cluster.result(call)
            except WorkerLostError:
                if worker in self._shards:
                    orphans += self._shards.pop(worker)
        if not orphans:
            return results, [call for _, call in calls]
        self._merge()
        losses = 0
        while orphans:
            losses += 1
            if losses > _MAX_LOSSES:
                raise DaemonError(f"{losses} workers were lost in one round: check why they died")
            taker = self._next_worker()
            if taker is None:
                continue
            number = orphans[0]
            try:
                self._shards[taker].append(number)
                steps = [step for step, _ in self._past]
                changes = [np.concatenate(parts) for _, parts in self._past]
                contents = self._contents(number)
                self._cluster.result(self._cluster.call(taker, "recover", number, contents, steps, *changes))
                results |= self._cluster.result(self._cluster.call(taker, method, *arguments, [number]))
            except WorkerLostError:
                # Its other shards already have results, but are lost with it.
                orphans += [shard for shard in self._shards.pop(taker) if shard not in orphans]
            else:
                losses = 0
                orphans.pop(0)
        return results, []

    def _next_worker(self) -> int | None:
        """Return the worker that takes over a shard, new or with the fewest shards; None if it is lost at once."""
        worker = self._cluster.start()
        if worker is None:
            if not self._shards:
                raise ClusterLostError("all workers were lost, and no new one can be started")
            return min(self._shards, key=lambda candidate: (len(self._shards[candidate]), candidate))
        try:
            self._cluster.result(self._cluster.call(worker, "begin", self._setup, list_rules(self._table)))
        except WorkerLostError:
            return None
        self._shards[worker] = []
        return worker


def usable_workers(cluster: "RayCluster", limit: int) -> list[int]:
    """Start workers up to the target number; return up to `limit` workers that can take a shard."""
    while len(cluster.workers()) < cluster.target_workers and cluster.start() is not None:
        pass
    return cluster.workers()[: min(limit, cluster.target_workers)]
