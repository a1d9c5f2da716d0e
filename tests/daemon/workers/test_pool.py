"""Workers sample like threads, with any number of workers and any losses at any time."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from tests.daemon.learning import raw_pairs
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs
from tests.daemon.workers.fake import FakeCluster

from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.learning import learner as learners
from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.workers.chain import ClusterChain, check_workers
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store

BLOCKS = Blocks(3, 5)
PAIRS, SWEEPS = 47, 5


def learn_store(url: str, cluster: FakeCluster | None, settings: Settings = QUICK, blocks: Blocks = BLOCKS) -> object:
    """Learn in a new store with workers or threads, check the store, and return its contents and log-likelihoods."""
    with open_store(url, create=True, settings=settings) as store:
        fill(store, some_pairs(PAIRS))
        chain = None if cluster is None else partial(ClusterChain, cluster=cluster)
        done = learn(store, sweeps=SWEEPS, options=LearnOptions(1, blocks=blocks, make_chain=chain))
        assert verify(store).problems == []
        return contents(store), done.log_likelihoods


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory: pytest.TempPathFactory) -> object:
    return learn_store(f"sqlite:///{tmp_path_factory.mktemp('threads')}/s.db", None)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 9])
def test_any_number_of_workers_learns_like_threads(number: int, by_threads: object, store_url: str) -> None:
    cluster = FakeCluster(number)
    assert learn_store(store_url, cluster) == by_threads
    assert cluster.started == number


def test_three_workers_learn_like_threads(by_threads: object, tmp_path: Path) -> None:
    assert learn_store(f"sqlite:///{tmp_path}/s.db", FakeCluster(3)) == by_threads


def test_block_size_changes_the_result(by_threads: object, tmp_path: Path) -> None:
    assert learn_store(f"sqlite:///{tmp_path}/s.db", FakeCluster(), blocks=Blocks(3, 4)) != by_threads


def at_random(seed: int, share: float) -> Callable[[int, str], int]:
    random = Random(seed)
    return lambda _number, _method: random.choice((-1, 1)) if random.random() < share else 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(0, marks=pytest.mark.campaign), 1, 2, pytest.param(3, marks=pytest.mark.campaign)]
)
def test_lost_workers_do_not_change_the_result(
    seed: int, by_threads: object, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With odd seeds, commit after each sweep, so that shards are collected between sweeps.
    if seed % 2:
        monkeypatch.setattr("hierogram.daemon.learning.learner.SECONDS_PER_COMMIT", 0.0)
        monkeypatch.setattr("hierogram.daemon.learning.learner._MIN_INTERVAL_PER_COMMIT", 0)
    cluster = FakeCluster(3, at_random(seed, 0.1))
    assert learn_store(store_url, cluster) == by_threads
    assert cluster.lost > 3


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.05])
def test_consecutive_batches_reuse_the_tables_of_workers(
    share: float, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learners, "_WORDS_PER_BATCH", 150)
    cluster = FakeCluster(2, at_random(3, share))
    assert learn_store(store_url, cluster) == learn_store(f"sqlite:///{tmp_path}/t.db", None)
    whole = [call.arguments[1] is not None for call in cluster.called if call.method == "reset"]
    # Workers get the whole table with the first batch, and later only after a worker was lost.
    assert sum(whole) < len(whole) / 2 if not share else sum(whole) < len(whole)


@pytest.mark.database("sqlite")
def test_remaining_workers_take_over_the_shards_of_lost_ones(by_threads: object, store_url: str) -> None:
    cluster = FakeCluster(3, room=3)
    works: list[int] = []

    def one_less(number: int, method: str) -> int:
        works.extend([number] if method == "sample" else [])
        if method != "sample" or len(works) not in (10, 20):
            return 0
        cluster.room -= 1
        return -1

    cluster.fails = one_less
    assert learn_store(store_url, cluster) == by_threads
    assert (cluster.lost, cluster.started, len(cluster.living)) == (2, 3, 1)


@pytest.mark.database("sqlite")
def test_a_late_replacement_of_a_lost_worker_is_given_a_shard(by_threads: object, store_url: str) -> None:
    cluster = FakeCluster(2)
    samples: list[int] = []

    def crowded_for_a_while(number: int, method: str) -> int:
        if method != "sample":
            return 0
        samples.append(number)
        is_crowded = len(samples) == 10
        cluster.room = 1 if is_crowded else 2
        return -1 if is_crowded else 0

    cluster.fails = crowded_for_a_while
    assert learn_store(store_url, cluster) == by_threads
    assert (cluster.lost, cluster.started) == (1, 3)
    assert [call.worker for call in cluster.called if call.method == "sample"][-1] == 3


@pytest.mark.slow
def test_changes_of_the_number_of_workers_do_not_change_the_result(by_threads: object, store_url: str) -> None:
    cluster = FakeCluster(1)

    def more(number: int, method: str) -> int:
        cluster.target_workers = 1 + number // 10 % 3
        return 0

    cluster.fails = more
    assert learn_store(store_url, cluster) == by_threads
    assert cluster.started == 3


@pytest.mark.database("sqlite")
def test_shards_are_collected_in_every_sweep_if_no_data_may_be_kept(
    by_threads: object, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hierogram.daemon.workers.chain._MAX_KEPT_BYTES", 0)
    cluster = FakeCluster(2)
    assert learn_store(store_url, cluster) == by_threads
    assert sum(call.method == "collect" for call in cluster.called) >= 2 * (SWEEPS + 6)


def test_permanent_loss_of_all_workers_is_reported(tmp_path: Path) -> None:
    cluster = FakeCluster(2, lambda number, method: -1 if number > 9 else 0)
    with pytest.raises(DaemonError, match="workers were lost"):
        learn_store(f"sqlite:///{tmp_path}/a.db", cluster)
    cluster = FakeCluster(2, lambda number, method: -1 if number > 9 else 0, room=0)
    with pytest.raises(DaemonError, match="cannot start a worker"):
        learn_store(f"sqlite:///{tmp_path}/b.db", cluster)


def test_stores_that_cannot_be_distributed_are_refused() -> None:
    with pytest.raises(DaemonError, match="type-based moves"):
        check_workers(replace(QUICK, model="dirichlet", type_moves=2))
    with pytest.raises(DaemonError, match="store of kind itg"):
        check_workers(raw_pairs.QUICK)
