"""The daemon is killed at random moments while pairs arrive by every route, and nothing is lost or stored twice."""

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.daemon.campaigns.daemon import (
    COMMAND,
    TIMEOUT,
    CommandFeeder,
    Daemon,
    Feeding,
    PairStream,
    SpoolFeeder,
    assert_all_stored_once,
    assert_consistent,
    feed_all_ways,
    stored_lines,
    wait_until,
)
from tests.daemon.conftest import QUICK

from hierogram.samplers.grammar.settings import FERTILITIES, ITG_ALIGNER
from hierogram.storage.store import open_store

SEED = 2014


def kill_again_and_again(url: str, folder: Path, kills: int, pause: float) -> None:
    open_store(url, create=True, settings=QUICK).close()
    daemon = Daemon(url, folder)
    feeding = feed_all_ways(daemon, SEED, pause)
    kill_while_fed(daemon, feeding, kills)
    with daemon.running():
        assert_all_stored_once(daemon, feeding)


def kill_while_fed(daemon: Daemon, feeding: Feeding, kills: int) -> None:
    random = Random(SEED)
    max_pause = 2.0
    for _ in range(kills):
        with daemon.started():
            # Most kills hit the daemon at work, some during startup.
            if random.random() < 0.8:
                started = time.monotonic()
                daemon.wait_until_listening()
                # Wait longer between kills on a machine with a slow startup, so that some work gets done.
                max_pause = max(2.0, time.monotonic() - started)
            time.sleep(random.uniform(0.0, max_pause))
            # Kill workers at most once a run, because a file whose worker dies twice is moved to failed/.
            if random.random() < 0.3 and daemon.kill_workers():
                time.sleep(random.uniform(0.0, max_pause))
            daemon.kill()
        feeding.check()
        assert_consistent(daemon.url)


# One database is enough here: tests/storage and the campaign kill commits on both.
@pytest.mark.slow
@pytest.mark.database("postgres")
def test_a_daemon_that_is_killed_once_stores_every_pair_once(store_url: str, tmp_path: Path) -> None:
    kill_again_and_again(store_url, tmp_path, kills=1, pause=0.3)


@pytest.mark.campaign
@pytest.mark.timeout(14_400)
def test_a_daemon_that_is_killed_a_hundred_times_stores_every_pair_once(store_url: str, tmp_path: Path) -> None:
    """HIEROGRAM_TEST_KILLS overrides the number of kills."""
    kills = int(os.environ.get("HIEROGRAM_TEST_KILLS", "100"))
    kill_again_and_again(store_url, tmp_path, kills, pause=0.5)


@pytest.mark.campaign
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("aligner", [FERTILITIES, ITG_ALIGNER])
def test_daemon_killed_while_it_aligns_raw_pairs_stores_every_pair_once(
    store_url: str, tmp_path: Path, aligner: str
) -> None:
    """HIEROGRAM_TEST_KILLS overrides the number of kills."""
    open_store(store_url, create=True, settings=replace(QUICK, aligner=aligner)).close()
    daemon = Daemon(store_url, tmp_path)
    feeders = (
        SpoolFeeder(PairStream("spool", SEED, links=False)),
        CommandFeeder(PairStream("command", SEED, links=False)),
    )
    feeding = Feeding(daemon, [*feeders], pause=0.5)
    kill_while_fed(daemon, feeding, int(os.environ.get("HIEROGRAM_TEST_KILLS", "20")))
    with daemon.running():
        feeding.finish()
        offered = [*(daemon.spool / "done").glob("*.pipes"), *tmp_path.glob("command-*.pipes")]
        assert offered
        for file in offered:
            command = [*COMMAND, "--store", store_url, "ingest", str(file), "--format", "pipes"]
            subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=True)
        wait_until(daemon.settled, "all pairs are settled", pause=0.5)
        daemon.end()
    raw = [line.rpartition(" ||| ")[0] for line in stored_lines(store_url)]
    assert sorted(raw) == sorted(feeding.sent_pairs())
    assert_consistent(store_url)
