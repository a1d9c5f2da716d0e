"""The workers of a batch, as the process sees them that holds the store's claim: rounds, and what to do for lost ones.

What is sampled is a function of the store, its seed and the blocks: neither the number of workers changes it, nor which
of them are lost. For that, the changes of all rounds are kept since the pairs' variables were collected last. A shard
that is lost begins again from there on another worker, which goes back to the table of that time and does the shard's
part of each round again.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import ClusterLostError, DaemonError
from hierogram.daemon.learning.kinds.kind import Report, SweepRequest
from hierogram.daemon.learning.kinds.pairs import LoadedPairs, longest_rule
from hierogram.daemon.workers.shares import (
    TAILS_A_NODE,
    Share,
    blobs_at,
    blobs_of_all,
    deal_out,
    places_of,
    share_out,
    texts_of,
)
from hierogram.daemon.workers.worker import (
    Changes,
    Contents,
    Opened,
    Part,
    Setup,
    Step,
    StoredContents,
    Variables,
    WorkerLostError,
    added,
    filled,
    rules_of,
)
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.grammar.columns import Blobs
from hierogram.storage.records import PairColumns, WrittenPart

if TYPE_CHECKING:
    # Ray is loaded for those who ask for workers.
    from hierogram.daemon.workers.ray_cluster import RayCluster

Call = Any
"""A call of a worker that may not have ended yet, as the cluster has it."""

_MOST_LOSSES = 20
"""Where this many workers are lost within one round, something is wrong that more of them would not repair."""
_KEPT_BYTES = 256 << 20
"""Where changes of rounds that are kept take more than this, variables are collected."""
_MOST_PASSED = 16
"""Among this many workers each gets what the others did from them; with more, all of it goes through here as one value,
since every value that a call takes costs this process a little."""


class StorePlace(NamedTuple):
    """A store that workers reach: its `url`, and the `token` of this process' claim on it."""

    url: str
    token: str


@dataclass(slots=True)
class Traffic:
    """All that went between the workers, for measurements: rounds, the bytes of their changes, the seconds in which a
    worker added these to its table, the mean of all; workers that were lost; the seconds in which they wrote pairs.
    """

    rounds: int = 0
    bytes: int = 0
    merge_seconds: float = 0.0
    lost: int = 0
    write_seconds: float = 0.0


class WorkerPool(ABC):
    """Workers that hold the pairs of a batch in shards, and this process' table, which they have copies of.

    Subclasses say where the pairs are.
    """

    def __init__(self, cluster: "RayCluster", setup: Setup, model: Model) -> None:
        self._cluster = cluster
        self._setup = setup
        self._model = model
        self._shares: list[Share] = []
        self._shards: dict[int, list[int]] = {}
        self._past: list[tuple[Step, list[Changes]]] = []
        self._past_bytes = 0
        self._unsent: list[Any] = []
        self._settling: list[tuple[int, Call]] = []
        self._unmerged: list[Changes] = []
        self._unmerged_tokens = 0
        self.traffic = Traffic()

    @property
    def in_step(self) -> frozenset[int]:
        """The workers whose tables are this process' table: all, as soon as variables were collected."""
        return frozenset() if self._past else frozenset(self._shards)

    def form(self, table: RuleTable, in_step: frozenset[int] = frozenset()) -> None:
        """Give the batch to the workers there are, in as many shards; those who are not `in_step` get the table."""
        self._table = table
        self._in_step = in_step
        for _ in range(_MOST_LOSSES):
            try:
                self._form()
            except WorkerLostError:
                self.traffic.lost += 1
                self._in_step = frozenset()
            else:
                return
        raise DaemonError(f"{_MOST_LOSSES} workers were lost one after the other: see what ended them")

    def _form(self) -> None:
        workers = usable_workers(self._cluster, self._setup.blocks.blocks_a_round)
        if not workers:
            raise DaemonError("no worker can be started: the cluster has no processor that is free")
        self._shares = self._share_out(len(workers))
        self._shards = {worker: [number] for number, worker in enumerate(workers)}
        rules = None if self._in_step.issuperset(workers) else self._cluster.share(rules_of(self._table))
        calls = [
            self._cluster.call(worker, "begin", self._setup, None if worker in self._in_step else rules)
            for worker in workers
        ]
        opening = [
            self._cluster.call(worker, "open", number, self._contents(number)) for number, worker in enumerate(workers)
        ]
        for call in calls:
            self._cluster.result(call)
        self._enter([self._cluster.result(call) for call in opening])

    @abstractmethod
    def _share_out(self, shards: int) -> list[Share]:
        """Return the shares of n shards."""

    @abstractmethod
    def _contents(self, number: int) -> Contents | StoredContents:
        """Return a shard as its variables were collected last."""

    @abstractmethod
    def _enter(self, opened: list[Opened | None]) -> None:
        """Take in what the workers say of the shards that they have opened."""

    def _may_form(self) -> bool:
        """Return whether the pairs can be shared out again now."""
        return True

    @abstractmethod
    def _keep(self, found: dict[int, Variables]) -> None:
        """Keep how far the pairs of each shard have come."""

    def sweep(self, request: SweepRequest, report: Report) -> SweepInfo:
        """Sweep once; return what was done."""
        if self._cluster.wanted != len(self._cluster.workers()) and self._may_form():
            blocks = self._setup.blocks.blocks_a_round
            if len(usable_workers(self._cluster, blocks)) != len(self._shares):
                # Others have come, or lost ones did not.
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
        """Do one round; what the shards did is kept, and the workers get it with their next call."""
        done, calls = self._all("work", step, settle=True)
        if 0 < len(calls) <= _MOST_PASSED:
            self._unsent = [self._cluster.shared(call) for call in calls]
        else:
            self._unsent = [self._cluster.share(done)]
        changes = [done[shard].changes for shard in range(len(self._shares))]
        size = sum(part.nbytes for part in changes)
        self._past.append((step, changes))
        self._past_bytes += size
        self._unmerged += changes
        self._unmerged_tokens += sum(one.tokens for one in done.values())
        self.traffic.rounds += 1
        self.traffic.bytes += size
        self.traffic.merge_seconds += sum(one.adding for one in done.values()) / len(self._shards)
        return done

    @property
    def rule_tokens(self) -> int:
        """Uses of rules after the rounds so far."""
        return self._table.rule_tokens + self._unmerged_tokens

    def counts(self) -> RuleTable:
        """Return the table after the rounds so far."""
        if sum(map(len, self._unmerged)) > self._table.rule_types:
            # To make the table again from a worker's is less work.
            found, _ = self._all("rules")
            if self._unmerged:
                self._table = filled(found[0], longest_rule(self._setup.settings), self._model)
                self._unmerged, self._unmerged_tokens = [], 0
        self._merge()
        return self._table

    def _merge(self) -> None:
        """Add the changes of the rounds so far to the table here."""
        for changes in self._unmerged:
            self._table = added(changes, self._table, self._model)
        self._unmerged, self._unmerged_tokens = [], 0

    def collect(self) -> None:
        """Keep how far the pairs have come; the changes of the rounds until now are not needed any more."""
        if self._past:
            self._keep(self._all("collect")[0])
            self._forget()

    def _forget(self) -> None:
        self._past, self._past_bytes = [], 0
        # So that nothing is kept of these rounds any more.
        self.counts()

    def _all(self, method: str, *arguments: object, settle: bool = False) -> tuple[dict[int, Any], list[Call]]:
        """Return what all shards give, by number; each worker is called once, and shards of lost ones are recovered.

        Also the calls, unless workers were lost. The workers `settle` afterwards, which nobody waits for.
        """
        unsent, self._unsent = self._unsent, []
        settling, self._settling = self._settling, []
        calls = [
            (worker, self._cluster.call(worker, method, *arguments, numbers, *unsent))
            for worker, numbers in self._shards.items()
        ]
        if settle:
            self._settling = [(worker, self._cluster.call(worker, "settle")) for worker in self._shards]
        if not self._cluster.crowded:
            # Meanwhile.
            self._merge()
        found: dict[int, Any] = {}
        orphans: list[int] = []
        for worker, call in settling + calls:
            try:
                found |= self._cluster.result(call)
            except WorkerLostError:
                if worker in self._shards:
                    self.traffic.lost += 1
                    orphans += self._shards.pop(worker)
        if not orphans:
            return found, [call for _, call in calls]
        self._merge()
        losses = 0
        while orphans:
            losses += 1
            if losses > _MOST_LOSSES:
                raise DaemonError(f"{losses} workers were lost in one round: see what ended them")
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
                found |= self._cluster.result(self._cluster.call(taker, method, *arguments, [number]))
            except WorkerLostError:
                # What else it held has its results, but is lost with it.
                self.traffic.lost += 1
                orphans += [shard for shard in self._shards.pop(taker) if shard not in orphans]
            else:
                losses = 0
                orphans.pop(0)
        return found, []

    def _next_worker(self) -> int | None:
        """Return who takes over: a new worker, or who has the fewest shards; None where the new one is lost at once."""
        worker = self._cluster.start()
        if worker is None:
            if not self._shards:
                raise ClusterLostError("all workers are lost, and no other can be started")
            return min(self._shards, key=lambda one: (len(self._shards[one]), one))
        try:
            self._cluster.result(self._cluster.call(worker, "begin", self._setup, rules_of(self._table)))
        except WorkerLostError:
            self.traffic.lost += 1
            return None
        self._shards[worker] = []
        return worker


def usable_workers(cluster: "RayCluster", most: int) -> list[int]:
    """Start workers as far as there should be more; return those that can have a shard, n at most."""
    while len(cluster.workers()) < cluster.wanted and cluster.start() is not None:
        pass
    return cluster.workers()[: min(most, cluster.wanted)]


def performed(cluster: "RayCluster", tasks: Sequence[tuple[object, ...]]) -> Iterator[Any]:
    """Yield what tasks give, in their order: each a function of a module, and what it is called with.

    Whoever is free does the next one; those of lost workers are done again.
    """
    waiting = deque(enumerate(tasks))
    running: dict[int, tuple[int, Call]] = {}
    done: dict[int, Any] = {}
    losses = 0
    for number in range(len(tasks)):
        while number not in done:
            for worker in usable_workers(cluster, len(waiting) + len(running)):
                if waiting and worker not in running:
                    which, task = waiting.popleft()
                    running[worker] = which, cluster.call(worker, "perform", *task)
            if not running:
                raise ClusterLostError("no worker can be started: the cluster has no processor that is free")
            ended = cluster.first([call for _, call in running.values()])
            worker = next(worker for worker, (_, call) in running.items() if call is ended)
            which, call = running.pop(worker)
            try:
                done[which] = cluster.result(call)
            except WorkerLostError as error:
                losses += 1
                if losses > _MOST_LOSSES:
                    raise DaemonError(f"{losses} workers were lost: see what ended them") from error
                waiting.appendleft((which, tasks[which]))
        yield done.pop(number)


class SentPool(WorkerPool):
    """Workers whose pairs were read by this process, and sent to them."""

    def __init__(
        self, cluster: "RayCluster", setup: Setup, model: Model, loaded: LoadedPairs, variables: Variables
    ) -> None:
        super().__init__(cluster, setup, model)
        self.loaded = loaded
        self._offsets = loaded.batch.forests.node_offset
        self._variables = variables

    def _share_out(self, shards: int) -> list[Share]:
        work = self.loaded.batch.forests.pair_tail_offset + TAILS_A_NODE * self._offsets
        return share_out(work, self._setup.blocks, shards)

    def _contents(self, number: int) -> Contents:
        share = self._shares[number]
        nodes = places_of(self._offsets, share.pairs)
        edge, cut, records = self._variables
        variables = Variables(edge[nodes], cut[nodes], blobs_at(records, share.pairs))
        return texts_of(self.loaded.batch, share.pairs), share.rounds, variables

    def _enter(self, opened: list[Opened | None]) -> None:
        """Take in nothing: this process has read the pairs itself."""

    def _keep(self, found: dict[int, Variables]) -> None:
        edge, cut = self._variables.edge.copy(), self._variables.cut.copy()
        parts: list[tuple[Share, Blobs]] = []
        for number, share in enumerate(self._shares):
            nodes = places_of(self._offsets, share.pairs)
            edge[nodes], cut[nodes], records = found[number]
            parts.append((share, records))
        self._variables = Variables(edge, cut, blobs_of_all(parts))

    def variables(self) -> Variables:
        """Return how far the pairs have come."""
        self.collect()
        return self._variables


class StoredPool(WorkerPool):
    """Workers that read their pairs from the store, and write them there into tables of their own."""

    def __init__(
        self, cluster: "RayCluster", setup: Setup, model: Model, store: StorePlace, pairs: PairColumns
    ) -> None:
        super().__init__(cluster, setup, model)
        self._place = store
        self._pairs = pairs
        # Of shards that have come farther than the store says.
        self._variables: dict[int, Variables] = {}

    def _share_out(self, shards: int) -> list[Share]:
        # Of forests that are not here, the square of the words says as much as links and words do.
        return deal_out(self._pairs.words**2, self._setup.blocks, shards)

    def _contents(self, number: int) -> StoredContents:
        share = self._shares[number]
        return StoredContents(*self._place, self._pairs.ids[share.pairs], share.rounds, self._variables.get(number))

    def _enter(self, opened: list[Opened | None]) -> None:
        found = [one for one in opened if one is not None]
        self._setup = self._setup._replace(
            bounds={name: max(one.bounds[name] for one in found) for name in found[0].bounds}
        )
        changes = [one.entering for one in found if len(one.entering)]
        shared = self._cluster.share(changes)
        for call in [self._cluster.call(worker, "enter", self._setup, shared) for worker in self._shards]:
            self._cluster.result(call)
        for change in changes:
            self._table = added(change, self._table, self._model)

    def _may_form(self) -> bool:
        # Where each shard is as the store says.
        return not self._past and not self._variables

    def _keep(self, found: dict[int, Variables]) -> None:
        self._variables = found

    def write(self, sweeps: NDArray[np.int64]) -> list[WrittenPart]:
        """Have the workers write the pairs, which have had so many sweeps; return what is to be committed."""
        of_shards = {number: sweeps[share.pairs] for number, share in enumerate(self._shares)}
        started = time.perf_counter()
        found, _ = self._all("write", of_shards)
        self.traffic.write_seconds += time.perf_counter() - started
        return [part for number in range(len(self._shares)) for part in found[number]]

    def note_committed(self) -> None:
        """Note that the store has what was written."""
        self._variables = {}
        self._forget()
        self._all("note_committed")
