"""The daemon is killed at random instants while pairs come in by every way, and nothing is lost or stored twice."""

import os
import time
from pathlib import Path
from random import Random

import pytest
from tests.daemon.campaigns.daemon import Daemon, assert_all_stored_once, assert_sound, feed_all_ways
from tests.daemon.conftest import QUICK

from hierogram.storage.store import open_store

SEED = 2014


def kill_again_and_again(url: str, folder: Path, kills: int, pause: float) -> None:
    random = Random(SEED)
    with open_store(url, create=True, settings=QUICK):
        pass
    daemon = Daemon(url, folder)
    feeding = feed_all_ways(daemon, SEED, pause)
    longest = 2.0
    for _ in range(kills):
        with daemon.started():
            # Most kills find it at work, some while it starts.
            if random.random() < 0.8:
                started = time.monotonic()
                daemon.wait_until_listening()
                # On a machine where it takes long to start, it takes long to get anything done.
                longest = max(2.0, time.monotonic() - started)
            time.sleep(random.uniform(0.0, longest))
            daemon.kill()
        feeding.check()
        assert_sound(url)
    with daemon.running():
        assert_all_stored_once(daemon, feeding)


def test_killed_a_few_times(store_url: str, tmp_path: Path) -> None:
    kill_again_and_again(store_url, tmp_path, kills=2, pause=0.3)


@pytest.mark.campaign
@pytest.mark.timeout(14_400)
def test_killed_a_hundred_times(store_url: str, tmp_path: Path) -> None:
    """HIEROGRAM_TEST_KILLS sets another number than a hundred."""
    kills = int(os.environ.get("HIEROGRAM_TEST_KILLS", "100"))
    kill_again_and_again(store_url, tmp_path, kills, pause=0.5)
