"""Sampler chain of a store whose pairs are sampled by Ray workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.learning.kinds.kind import Chain, ChainConfig, Sweep, SweepRequest, find_kind
from hierogram.daemon.learning.kinds.pairs import LoadedPairs
from hierogram.daemon.learning.kinds.synchronous import SynchronousChain
from hierogram.daemon.workers.options import Workers
from hierogram.daemon.workers.pool import WorkerPool
from hierogram.daemon.workers.worker import Setup, Variables
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.forests.averages import Averages
from hierogram.samplers.forests.derivations import State
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.samplers.kernel import Report
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.exceptions import install_extra
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

if TYPE_CHECKING:
    from hierogram.daemon.workers.ray_cluster import RayCluster

_PAIRS_PER_ROUND = 24_576
_MIN_ROUNDS = 2


def check_workers(settings: Settings) -> None:
    """Raise `DaemonError` if Ray is not installed or workers cannot sample a store with these settings."""
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
    """Return blocks for a few rounds of about equal size, or None if there are too few pairs."""
    blocks = Blocks.suited_to(pairs)
    if blocks is None:
        return None
    rounds = max(_MIN_ROUNDS, -(-pairs // _PAIRS_PER_ROUND))
    return replace(blocks, blocks_per_round=-(-pairs // (rounds * blocks.pairs_per_block)))


class ClusterChain(SynchronousChain):
    """Chain whose pairs are sampled by workers, except small batches without given blocks."""

    def __init__(self, store: Store, config: ChainConfig, cluster: "RayCluster") -> None:
        super().__init__(store, config)
        self._cluster = cluster
        self.pool: WorkerPool | None = None
        self._synced_workers: frozenset[int] = frozenset()

    @property
    def rule_tokens(self) -> int:
        """Number of rule uses."""
        return super().rule_tokens if self.pool is None else self.pool.rule_tokens

    def rule_table(self) -> CountTable:
        """Return the counts of all rules, including the changes by workers."""
        if self.pool is not None:
            self.table = self.pool.counts()
        return self.table

    def add_pairs(self, loaded: LoadedPairs, state: State, stored: NDArray[np.bool_]) -> None:
        """Count the rules of derivations that are not `stored`. Workers get the counts with the next sweep."""
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
        """Return a function that sweeps over the pairs, on the workers if the batch is divided into blocks."""
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
                edge, cut = state
                variables = Variables(edge.copy(), cut.copy(), loaded.write_averages(averages))
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
        edge, cut, records = self.pool.collect()
        state.edge[:], state.cut[:] = edge, cut
        return state, self.pool.loaded.read_averages(records)
