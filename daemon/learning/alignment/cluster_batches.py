"""Alignment by workers: they share whole batches, or the chains of each batch in turn.

Both give the result of `align_batch` with threads, bit for bit: a batch's chains depend only on the seed and their
number, and their samples are added in the order of the chains.
"""

import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hierogram.daemon.learning.alignment.aligning import DirectionTask, list_chains, run_direction
from hierogram.daemon.learning.alignment.incremental import AlignedBatch, AlignmentBatch, align_batch, partial_progress
from hierogram.daemon.progress import Steps
from hierogram.daemon.workers.chain import find_store_address
from hierogram.daemon.workers.pool import run_tasks
from hierogram.samplers.alignment.marginals import Marginals, add_marginals, empty_marginals
from hierogram.samplers.alignment.models.registry import JOINT_MODELS
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.storage.store import Store, open_store

if TYPE_CHECKING:
    # Ray is imported only if workers are requested.
    from hierogram.daemon.workers.ray_cluster import RayCluster

_CHAINS_PER_BATCH = 6
"""Usually three per direction."""
_MIN_CELLS = 500_000
"""Lots with fewer cells are aligned faster in this process."""


class ClusterBatchWorkers:
    """Workers of a cluster, as `BatchWorkers`."""

    def __init__(self, cluster: "RayCluster") -> None:
        self._cluster = cluster

    def aligned(self, store: Store, batches: Sequence[AlignmentBatch], report: Steps) -> Iterator[AlignedBatch]:
        """Align the batches; see `BatchWorkers`."""
        workers, threads = self._cluster.wanted, self._cluster.threads
        whole = -(-len(batches) // workers) * -(-_CHAINS_PER_BATCH // threads)
        by_chains = len(batches) * -(-_CHAINS_PER_BATCH // (workers * threads))
        small = sum(batch.cells for batch in batches) < _MIN_CELLS * len(batches)
        joint = store.settings().aligner in JOINT_MODELS
        place = find_store_address(self._cluster, store) if not small and (joint or whole <= by_chains) else None
        if place is not None:
            tasks = [(_align_whole_batch, place.url, batch, threads) for batch in batches]
            for number, found in enumerate(run_tasks(self._cluster, tasks)):
                report(number + 1, len(batches))
                yield pickle.loads(found)
            return
        sample = None if small or joint else self._sample
        for number, batch in enumerate(batches):
            yield align_batch(store, batch, threads, partial_progress(report, number, len(batches)), sample)

    def _sample(
        self, direction_tasks: Sequence[DirectionTask], options: AlignerOptions, *, report: Steps | None
    ) -> list[Marginals]:
        jobs = list_chains(direction_tasks, options)
        number = min(self._cluster.wanted, len(jobs))
        # Pickled, so that each worker gets its own writable arrays. Shared arrays would be read-only.
        given = self._cluster.share(pickle.dumps((direction_tasks, options), pickle.HIGHEST_PROTOCOL))
        shares = [jobs[first::number] for first in range(number)]
        totals = [empty_marginals(task.direction.sides) for task in direction_tasks]
        found: dict[tuple[int, int], bytes] = {}
        tasks = [(_chains, given, share, self._cluster.threads) for share in shares]
        for share, results in zip(shares, run_tasks(self._cluster, tasks), strict=True):
            found.update(zip(share, results, strict=True))
            if report is not None:
                report(len(found) * options.sweeps, len(jobs) * options.sweeps)
        for job in jobs:
            add_marginals(totals[job[0]], pickle.loads(found.pop(job)))
        return totals


def _chains(given: bytes, jobs: Sequence[tuple[int, int]], threads: int) -> list[bytes]:
    direction_tasks, options = pickle.loads(given)
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda job: run_direction(direction_tasks[job[0]], options, job[1]), jobs)
        return [pickle.dumps(one, pickle.HIGHEST_PROTOCOL) for one in found]


def _align_whole_batch(url: str, batch: AlignmentBatch, threads: int) -> bytes:
    with open_store(url) as store:
        return pickle.dumps(align_batch(store, batch, threads), pickle.HIGHEST_PROTOCOL)
