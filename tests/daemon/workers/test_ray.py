"""Worker processes run by Ray: their results, and recovery when they are killed."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.conftest import Run
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs

from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.workers.chain import ClusterChain
from hierogram.daemon.workers.options import Workers
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.store import open_store

BLOCKS = Blocks(3, 8)
PAIRS, SWEEPS = 120, 3


def learn_store(url: str, chain: Any = None) -> object:
    with open_store(url, create=True, settings=QUICK) as store:
        fill(store, some_pairs(PAIRS))
        learn(store, sweeps=SWEEPS, options=LearnOptions(1, blocks=BLOCKS, make_chain=chain))
        assert verify(store).problems == []
        return contents(store)


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory: pytest.TempPathFactory) -> object:
    return learn_store(f"sqlite:///{tmp_path_factory.mktemp('threads')}/s.db")


# Postgres suffices here: the command below covers SQLite, and test_pool covers lost workers with a fake cluster.
@pytest.mark.slow
@pytest.mark.database("postgres")
@pytest.mark.usefixtures("local_ray")
def test_workers_learn_like_threads(by_threads: object, store_url: str) -> None:
    from hierogram.daemon.workers.ray_cluster import ray_cluster

    with ray_cluster(Workers(4), 1) as cluster:
        assert learn_store(store_url, partial(ClusterChain, cluster=cluster)) == by_threads
        assert len(cluster.workers()) == 4


@pytest.mark.slow
@pytest.mark.database("postgres")
@pytest.mark.usefixtures("local_ray")
def test_a_worker_killed_during_a_sweep_is_replaced(by_threads: object, store_url: str) -> None:
    from tests.daemon.workers.killing import KillingCluster

    cluster = KillingCluster({"sample": (10, 40), "collect": (1,)})
    try:
        assert learn_store(store_url, partial(ClusterChain, cluster=cluster)) == by_threads
        assert cluster.killed == 3
        assert sorted(cluster.workers()) != [0, 1]
    finally:
        cluster.close()


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_learn_command_gives_the_same_results_with_workers(hierogram: Run, tmp_path: Path) -> None:
    found = []
    for number, options in enumerate((["--threads", "2"], ["--workers", "2"])):
        url = f"sqlite:///{tmp_path}/{number}.db"
        with open_store(url, create=True, settings=QUICK) as store:
            fill(store, some_pairs(PAIRS))
        ran = hierogram("--store", url, "learn", "--sweeps", "2", "--blocks", "4x4", *options)
        assert ran.code == 0, ran.err
        with open_store(url) as store:
            found.append(contents(store))
    assert found[0] == found[1]


def test_a_cluster_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from hierogram.daemon.workers import ray_cluster

    def fails(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("no room in /dev/shm")

    monkeypatch.setattr(ray_cluster._ray, "init", fails)
    monkeypatch.setattr(ray_cluster._ray, "shutdown", lambda: None)
    with pytest.raises(DaemonError, match=r"cannot start on this machine.*no room"):
        ray_cluster.start_local(1)


NO_RAY = """
import sys
from hierogram.daemon.cli import main
from hierogram.daemon.cli import learning, stores
from hierogram.daemon.workers import options
assert not [name for name in sys.modules if name.split(".")[0] in ("ray", "numba")]
from hierogram.daemon.workers import chain
assert "ray" not in sys.modules
"""


@pytest.mark.slow
def test_command_line_imports_neither_ray_nor_numba() -> None:
    subprocess.run([sys.executable, "-c", NO_RAY], check=True)


@pytest.mark.slow
def test_invalid_workers_and_blocks_and_a_missing_ray_are_rejected(
    hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, message in (
        (["--workers", "0"], "expected auto, a positive number or ray://HOST:PORT"),
        (["--workers", "ray://"], "expected auto, a positive number or ray://HOST:PORT"),
        (["--blocks", "32"], "expected PAIRSxBLOCKS, such as 32x64"),
    ):
        ran = hierogram("learn", *arguments)
        assert ran.code == 2
        assert message in ran.err
    url = f"sqlite:///{tmp_path}/s.db"
    open_store(url, create=True, settings=QUICK).close()
    monkeypatch.setattr("hierogram.daemon.workers.chain.find_spec", lambda name: None)
    ran = hierogram("--store", url, "learn", "--workers", "2")
    assert ran.code == 3
    assert "pip install '.[cluster]'" in ran.err
