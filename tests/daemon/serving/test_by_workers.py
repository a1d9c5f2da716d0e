"""The daemon samples pairs with workers if they are configured."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest
from tests.daemon.conftest import LINES, QUICK
from tests.daemon.learning import raw_pairs
from tests.daemon.learning.stores import contents, fill, some_pairs
from tests.daemon.serving.conftest import Daemon, drop, until
from tests.daemon.serving.turns import LOG, SHORT, ManualTurns
from tests.daemon.workers.fake import FakeCluster

from hierogram.daemon.configuration import Configuration, load_configuration
from hierogram.daemon.exceptions import DaemonError, UsageError
from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.serving.sampling import SamplingLoop
from hierogram.daemon.serving.supervision import HealthRegistry
from hierogram.daemon.workers.chain import ClusterChain
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.store import open_store


def learn_in_turns(url: str, cluster: FakeCluster | None) -> object:
    """Sample three batches of pairs in turns of one sweep, check the store, and return its contents."""
    chain = None if cluster is None else partial(ClusterChain, cluster=cluster)
    with open_store(url, create=True, settings=QUICK) as store:
        with ManualTurns(
            store, LearnOptions(1, likelihood_seconds=1e6, blocks=Blocks(2, 3), make_chain=chain), **SHORT
        ) as turns:
            for first in (0, 10, 20):
                fill(store, some_pairs(first + 10)[first:])
                turns.turns.run_turn()
            assert len({row.sweep for row in store.pairs()}) > 1
            turns.settle()
            turns.turns.run_turn()
        assert verify(store).problems == []
        return contents(store)


@pytest.mark.slow
def test_turns_with_workers_give_the_same_results_as_threads(tmp_path: Path) -> None:
    cluster = FakeCluster(2)
    assert learn_in_turns(f"sqlite:///{tmp_path}/w.db", cluster) == learn_in_turns(f"sqlite:///{tmp_path}/t.db", None)
    assert cluster.started == 2


@pytest.mark.slow
def test_daemon_samples_with_configured_workers(serve: Callable[..., Daemon], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    open_store(url, create=True, settings=QUICK).close()
    asked = {"HIEROGRAM_WORKERS__WORKERS": "2", "HIEROGRAM_WORKERS__BLOCKS": "2x4"}
    daemon = serve("--store", url, "--spool", str(tmp_path / "spool"), **asked)
    daemon.until("daemon started")
    drop(tmp_path / "spool", "one.bars", "".join(line + "\n" for line in LINES))
    daemon.until("file ingested")
    with open_store(url) as store:
        until(lambda: store.count_pairs(["settled"]) == len(LINES))
        below = psutil.Process(daemon.process.pid).children(recursive=True)
        assert sum(process.name().startswith("ray::Worker") for process in below) == 2
        assert daemon.end() == 0
        until(lambda: not any(process.is_running() for process in below))
        assert verify(store).problems == []


@pytest.mark.parametrize("key", ["workers", "blocks"])
def test_invalid_workers_and_blocks_are_rejected(key: str, tmp_path: Path) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text(f'[workers]\n{key} = "two"\n')
    with pytest.raises(UsageError, match=f"workers: {key}: expected .*, got 'two'"):
        load_configuration(file)


def test_a_store_that_workers_cannot_sample_is_refused_immediately(tmp_path: Path) -> None:
    requested = Configuration.model_validate({"workers": {"workers": "2"}})
    with open_store(f"sqlite:///{tmp_path}/s.db", create=True, settings=raw_pairs.QUICK) as store:
        loop = SamplingLoop(store, Configuration, HealthRegistry(), LOG)
        loop.prepare(Configuration())
        with pytest.raises(DaemonError, match="store of kind itg"):
            loop.prepare(requested)
