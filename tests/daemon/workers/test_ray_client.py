"""Workers of a cluster that this machine joins as a client, `ray://HOST:PORT`."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.daemon.campaigns.daemon import free_port
from tests.daemon.learning.stores import QUICK, contents, fill, some_pairs

from hierogram.daemon.learning.learner import LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.store import open_store

PAIRS, SWEEPS = 400, 100
SECONDS = 300.0


def processes_below(process: psutil.Process) -> list[psutil.Process]:
    found = process.children(recursive=True)
    return [one for one in found if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def cluster() -> Iterator[tuple[str, psutil.Process]]:
    """The address of a cluster with two processors, and its process."""
    port = free_port()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus", "2"]
    command += ["--node-ip-address", "127.0.0.1", "--port", "0", "--ray-client-server-port", str(port)]
    command += ["--include-dashboard", "false", "--object-store-memory", str(100 << 20)]
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as head:
        process = psutil.Process(head.pid)
        try:
            until = time.monotonic() + SECONDS
            while not any("util.client.server" in " ".join(one.cmdline()) for one in processes_below(process)):
                assert head.poll() is None
                assert time.monotonic() < until
                time.sleep(0.2)
            yield f"ray://127.0.0.1:{port}", process
        finally:
            below = processes_below(process)
            head.terminate()
            head.wait(SECONDS)
            psutil.wait_procs(below, SECONDS)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_client_learns_like_threads_even_if_a_worker_is_killed(
    cluster: tuple[str, psutil.Process], tmp_path: Path
) -> None:
    address, head = cluster
    found = []
    for name in ("threads", "workers"):
        with open_store(f"sqlite:///{tmp_path}/{name}.db", create=True, settings=QUICK) as store:
            fill(store, some_pairs(PAIRS))
            if name == "threads":
                learn(store, sweeps=SWEEPS, options=LearnOptions(1, blocks=Blocks(3, 8)))
            else:
                command = [sys.executable, "-m", "hierogram.daemon.cli.main", "--store", store.url, "learn"]
                command += ["--sweeps", str(SWEEPS), "--blocks", "3x8", "--workers", address]
                with subprocess.Popen(command) as learning:
                    kill_a_worker(head, learning)
                    assert learning.wait(SECONDS) == 0
            assert verify(store).problems == []
            found.append(contents(store))
    assert found[0] == found[1]


def kill_a_worker(head: psutil.Process, learning: subprocess.Popen[bytes]) -> None:
    """Kill one of the two workers once both have used processor time. Fails if learning ends before."""
    until = time.monotonic() + SECONDS
    while True:
        workers = [one for one in processes_below(head) if one.name().startswith("ray::Worker")]
        if len(workers) == 2 and all(sum(one.cpu_times()[:2]) > 0 for one in workers):
            break
        assert learning.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    random.choice(workers).kill()
