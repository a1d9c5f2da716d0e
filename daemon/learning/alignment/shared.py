"""Alignment by workers: they share whole lots, or the chains of each lot in turn.

Both give the result of `align_lot` with threads, bit for bit: a lot's chains depend only on the seed and their number,
and their samples are added in the order of the chains.
"""

import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hierogram.daemon.learning.alignment.aligning import Way, chains_of, run_way
from hierogram.daemon.learning.alignment.incremental import AlignedLot, AlignmentLot, align_lot, part_of
from hierogram.daemon.progress import Steps
from hierogram.daemon.workers.chain import reached_place
from hierogram.daemon.workers.pool import performed
from hierogram.samplers.alignment.marginals import Marginals, add_marginals, empty_marginals
from hierogram.samplers.alignment.models.registry import JOINT_MODELS
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.storage.store import Store, open_store

if TYPE_CHECKING:
    # Ray is imported only if workers are requested.
    from hierogram.daemon.workers.ray_cluster import RayCluster

_CHAINS_A_LOT = 6
"""Usually three per direction."""
_FEWEST_CELLS = 500_000
"""Lots with fewer cells are aligned faster in this process."""


class AligningWorkers:
    """Workers of a cluster, as `LotWorkers`."""

    def __init__(self, cluster: "RayCluster") -> None:
        self._cluster = cluster

    def aligned(self, store: Store, lots: Sequence[AlignmentLot], report: Steps) -> Iterator[AlignedLot]:
        """Align the lots; see `LotWorkers`."""
        workers, threads = self._cluster.wanted, self._cluster.threads
        whole = -(-len(lots) // workers) * -(-_CHAINS_A_LOT // threads)
        by_chains = len(lots) * -(-_CHAINS_A_LOT // (workers * threads))
        small = sum(lot.cells for lot in lots) < _FEWEST_CELLS * len(lots)
        joint = store.settings().aligner in JOINT_MODELS
        place = reached_place(self._cluster, store) if not small and (joint or whole <= by_chains) else None
        if place is not None:
            tasks = [(_whole_lot, place.url, lot, threads) for lot in lots]
            for number, found in enumerate(performed(self._cluster, tasks)):
                report(number + 1, len(lots))
                yield pickle.loads(found)
            return
        sample = None if small or joint else self._sample
        for number, lot in enumerate(lots):
            yield align_lot(store, lot, threads, part_of(report, number, len(lots)), sample)

    def _sample(self, ways: Sequence[Way], options: AlignerOptions, *, report: Steps | None) -> list[Marginals]:
        """Run the chains of all directions; see `Sample`."""
        jobs = chains_of(ways, options)
        number = min(self._cluster.wanted, len(jobs))
        # Pickled, so that each worker gets its own writable arrays. Shared arrays would be read-only.
        given = self._cluster.share(pickle.dumps((ways, options), pickle.HIGHEST_PROTOCOL))
        shares = [jobs[first::number] for first in range(number)]
        totals = [empty_marginals(way.direction.sides) for way in ways]
        found: dict[tuple[int, int], bytes] = {}
        tasks = [(_chains, given, share, self._cluster.threads) for share in shares]
        for share, results in zip(shares, performed(self._cluster, tasks), strict=True):
            found.update(zip(share, results, strict=True))
            if report is not None:
                report(len(found) * options.sweeps, len(jobs) * options.sweeps)
        for job in jobs:
            add_marginals(totals[job[0]], pickle.loads(found.pop(job)))
        return totals


def _chains(given: bytes, jobs: Sequence[tuple[int, int]], threads: int) -> list[bytes]:
    """Run some chains in a worker; return the samples of each."""
    ways, options = pickle.loads(given)
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda job: run_way(ways[job[0]], options, job[1]), jobs)
        return [pickle.dumps(one, pickle.HIGHEST_PROTOCOL) for one in found]


def _whole_lot(url: str, lot: AlignmentLot, threads: int) -> bytes:
    """Align a lot in a worker; return the pickled result."""
    with open_store(url) as store:
        return pickle.dumps(align_lot(store, lot, threads), pickle.HIGHEST_PROTOCOL)
