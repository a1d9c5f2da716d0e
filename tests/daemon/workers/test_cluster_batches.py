"""Workers align like threads, with any number of workers and any losses."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.daemon.conftest import QUICK
from tests.daemon.learning.alignment.arrivals import error_rate, put, texts
from tests.daemon.learning.alignment.languages import invented
from tests.daemon.workers.fake import FakeCluster
from tests.storage.building import aligner_counts

from hierogram.daemon.exceptions import ClusterLostError, DaemonError
from hierogram.daemon.learning.alignment import cluster_batches, incremental
from hierogram.daemon.learning.alignment.aligning import corpus_options, make_direction_tasks, run_direction
from hierogram.daemon.learning.alignment.cluster_batches import ClusterBatchWorkers
from hierogram.daemon.learning.alignment.incremental import (
    AlignedBatch,
    AlignmentBatch,
    IncrementalAligner,
    align_pending,
)
from hierogram.daemon.learning.alignment.requests import AlignOptions
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.alignment.bitext import read_side
from hierogram.samplers.alignment.marginals import add_marginals, empty_marginals
from hierogram.samplers.alignment.models.registry import JOINT_MODELS
from hierogram.storage.records import PairSize, Settings
from hierogram.storage.store import Store, open_store

PAIRS = 140
CELLS = 1_500
"""Size of a batch: about twenty pairs."""


@pytest.fixture(autouse=True)
def small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "_CELLS_PER_BATCH", CELLS)
    monkeypatch.setattr(incremental, "_PAIRS_PER_COMMIT", 7)
    monkeypatch.setattr(cluster_batches, "_MIN_CELLS", 0)


def aligned(url: str, cluster: Any = None, settings: Settings = QUICK) -> object:
    """Return the contents of a new store whose two batches of pairs were aligned by workers or threads."""
    with open_store(url, create=True, settings=settings) as store:
        workers = None if cluster is None else ClusterBatchWorkers(cluster)
        done = [(report.pairs, report.realigned, report.changed) for report in arrivals(store, workers)]
        assert verify(store).problems == []
        assert error_rate(store, 0, PAIRS) < 0.15
        links = store.links_by_id(range(1, PAIRS + 1))
        return done, texts(store), links, aligner_counts(store)


def arrivals(store: Store, workers: Any) -> list[incremental.AlignReport]:
    reports = []
    for first, last in ((0, 60), (60, PAIRS)):
        put(store, first, last)
        reports.append(align_pending(store, 1, workers=workers))
    return reports


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "_CELLS_PER_BATCH", CELLS)
        patch.setattr(incremental, "_PAIRS_PER_COMMIT", 7)
        return aligned(f"sqlite:///{tmp_path_factory.mktemp('threads')}/s.db")


@pytest.mark.parametrize(
    ("number", "threads"),
    [pytest.param(1, 1, marks=pytest.mark.slow), (2, 1), (4, 2), pytest.param(9, 1, marks=pytest.mark.slow)],
)
def test_any_number_of_workers_aligns_like_threads(
    number: int, threads: int, by_threads: object, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = recorded_tasks(monkeypatch)
    assert aligned(store_url, FakeCluster(number, threads=threads)) == by_threads
    # Few workers take whole batches; many workers share the chains of one batch at a time if there are few batches.
    assert (
        set(tasks)
        == {1: {"_align_whole_batch"}, 2: {"_align_whole_batch", "_chains"}, 4: {"_chains"}, 9: {"_chains"}}[number]
    )


def recorded_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    tasks: list[str] = []
    perform = cluster_batches.run_tasks

    def record(cluster: Any, given: Any) -> Any:
        tasks.extend(task.__name__ for task, *_ in given)
        return perform(cluster, given)

    monkeypatch.setattr(cluster_batches, "run_tasks", record)
    return tasks


def test_nothing_of_a_round_is_committed_before_all_of_it_is_aligned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    align_lot, rounds = incremental.align_batch, list[list[tuple[int, int]]]()

    def noting(store: Store, batch: AlignmentBatch, *given: Any) -> AlignedBatch:
        rounds[-1].append((store.count_pairs(["unaligned"]), len(batch.ids)))
        return align_lot(store, batch, *given)

    monkeypatch.setattr(incremental, "align_batch", noting)
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, PAIRS)
        aligner, done, left = IncrementalAligner(store, 1), -1, PAIRS
        while done:
            rounds.append([])
            done = aligner.align_new(max_batches=32)
            assert {waiting for waiting, _ in rounds[-1]} <= {left}
            left -= sum(pairs for _, pairs in rounds[-1])
    assert max(map(len, rounds)) > 1


@pytest.mark.parametrize("number", [2, 4])
def test_samples_of_chains_are_added_up_in_order(number: int) -> None:
    sources, targets, _ = invented(30)
    tasks = make_direction_tasks(read_side(sources), read_side(targets), options := corpus_options(AlignOptions(), 30))
    expected = [empty_marginals(task.direction.sides) for task in tasks]
    for total, task in zip(expected, tasks, strict=True):
        for chain in range(options.chains):
            add_marginals(total, run_direction(task, options, chain))
    found = ClusterBatchWorkers(FakeCluster(number))._sample(tasks, options, report=None)
    for own, other in zip(found, expected, strict=True):
        assert [array.tobytes() for array in own] == [array.tobytes() for array in other]


def test_some_lots_of_a_round_were_realigned(by_threads: Any) -> None:
    first, second = by_threads[0]
    assert (first[0], second[0]) == (60, PAIRS - 60)
    assert second[1] > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_lost_workers_change_nothing(seed: int, by_threads: object, tmp_path: Path) -> None:
    random = Random(seed)

    def fails(_number: int, method: str) -> int:
        return random.choice((-1, 1)) if method == "perform" and random.random() < 0.3 else 0

    cluster = FakeCluster(1 + seed, fails=fails)
    assert aligned(f"sqlite:///{tmp_path}/s.db", cluster) == by_threads
    assert cluster.lost > 2


def test_workers_that_cannot_reach_the_store_run_chains(
    by_threads: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hierogram.daemon.workers.worker.Worker.reaches", lambda *_: False)
    tasks = recorded_tasks(monkeypatch)
    assert aligned(f"sqlite:///{tmp_path}/s.db", FakeCluster(1)) == by_threads
    assert set(tasks) == {"_chains"}


def test_small_inputs_are_aligned_locally(by_threads: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_batches, "_MIN_CELLS", CELLS)
    tasks = recorded_tasks(monkeypatch)
    assert aligned(f"sqlite:///{tmp_path}/s.db", FakeCluster(2)) == by_threads
    assert tasks == []


@pytest.mark.slow
@pytest.mark.parametrize("aligner", JOINT_MODELS)
def test_bidirectional_models_are_distributed_by_lots(
    aligner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(QUICK, aligner=aligner)
    tasks = recorded_tasks(monkeypatch)
    threads = aligned(f"sqlite:///{tmp_path}/t.db", settings=settings)
    assert aligned(f"sqlite:///{tmp_path}/w.db", FakeCluster(3), settings) == threads
    assert set(tasks) == {"_align_whole_batch"}


def test_a_cluster_without_room_is_lost(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, 20)
        with pytest.raises(ClusterLostError, match="cannot start a worker"):
            align_pending(store, 1, workers=ClusterBatchWorkers(FakeCluster(3, room=0)))
        assert store.count_pairs(["unaligned"]) == 20


def test_workers_that_are_lost_repeatedly_end_the_run(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, 20)
        cluster = FakeCluster(2, fails=lambda _number, method: -1 if method == "perform" else 0)
        with pytest.raises(DaemonError, match="workers were lost"):
            align_pending(store, 1, workers=ClusterBatchWorkers(cluster))


@pytest.mark.parametrize(
    ("linked", "again", "sizes"),
    [
        (0, False, [3]), (3, False, [3]), (5, False, [3]), (6, False, [3, 3]), (9, False, [3, 3, 3]),
        (99, False, [3, 3, 3, 3, 2]), (14, True, [3, 3]), (6, True, [3]), (3, True, [3]), (20, True, [3, 3, 3]),
    ],
)  # fmt: skip
def test_a_round_is_limited_by_the_number_of_linked_pairs(
    linked: int, again: bool, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental, "_CELLS_PER_BATCH", 300)
    pairs = [PairSize(number, 100, 1) for number in range(1, 15)]
    batches = incremental._make_batches(pairs, linked, 32, again)
    assert [len(batch.ids) for batch in batches] == sizes
    assert [pair_id for batch in batches for pair_id in batch.ids] == list(range(1, sum(sizes) + 1))
    assert {batch.cells for batch in batches if len(batch.ids) == 3} == {300}
    assert incremental._make_batches(pairs, linked, 1, again) == batches[:1]


def test_a_pair_larger_than_a_lot_is_a_lot_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "_CELLS_PER_BATCH", 300)
    pairs = [PairSize(1, 400, 1), PairSize(2, 100, 1), PairSize(3, 500, 1)]
    assert [batch.ids for batch in incremental._make_batches(pairs, 9, 32, again=False)] == [[1], [2], [3]]


@pytest.mark.parametrize("number", [0, 2])
def test_progress_reaches_the_number_of_pairs(number: int, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    workers = ClusterBatchWorkers(FakeCluster(number)) if number else None
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, 100)
        align_pending(store, 1, report=lambda done, total: heard.append((done, total)), workers=workers)
    assert heard == sorted(heard)
    assert heard[-1] == (100, 100)
    assert len(set(heard)) > 4


def test_a_step_of_a_daemon_has_one_lot(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=QUICK) as store:
        put(store, 0, PAIRS)
        aligner = IncrementalAligner(store, 1)
        sizes = []
        while number := aligner.align_new():
            sizes.append(number)
        assert len(sizes) > 3
        assert max(sizes) < 40


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_a_worker_killed_while_aligning_is_replaced(by_threads: object, store_url: str) -> None:
    from tests.daemon.workers.killing import KillingCluster

    cluster = KillingCluster({"perform": (2, 5)})
    try:
        assert aligned(store_url, cluster) == by_threads
        assert cluster.killed == 2
    finally:
        cluster.close()
