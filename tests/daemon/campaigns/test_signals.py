"""Signals at random moments end or reload the daemon as documented, and readiness returns soon after an outage."""

import os
import re
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.daemon.campaigns.daemon import (
    TIMEOUT,
    Daemon,
    PairStream,
    assert_consistent,
    feed_all_ways,
    wait_until,
)
from tests.daemon.conftest import QUICK

from hierogram.storage.store import open_store

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(7_200)]

_TERMINATIONS, _RELOADS = 50, 20
_LATEST = 9.0
"""Latest moment of a signal, in seconds after the process begins to handle signals. By then scores are computed."""
_READY_SECONDS = 15.0


def make_daemon(url: str, folder: Path, number: int) -> Daemon:
    """Return a daemon with new pairs in its spool."""
    daemon = Daemon(url, folder, HIEROGRAM_DAEMON__GRACE_SECONDS="30")
    daemon.spool.mkdir(exist_ok=True)
    lines = PairStream(f"run{number}", number).lines(300)
    (daemon.spool / f"{number}.pipes").write_text("".join(line + "\n" for line in lines))
    return daemon


def wait_until_handling(daemon: Daemon) -> None:
    """Wait until the process handles signals, which it does before it imports the command line."""
    assert daemon.process is not None
    status = Path(f"/proc/{daemon.process.pid}/status")

    def handles() -> bool:
        found = re.search(r"SigCgt:\s+(\w+)", status.read_text())
        return found is not None and bool(int(found[1], 16) >> (signal.SIGHUP - 1) & 1)

    wait_until(handles, "the process handles signals", pause=0.001)


def test_daemon_exits_with_0_if_terminated_at_any_moment(store_url: str, tmp_path: Path) -> None:
    random = Random(61)
    open_store(store_url, create=True, settings=QUICK).close()
    slowest = 0.0
    for number in range(_TERMINATIONS):
        daemon = make_daemon(store_url, tmp_path, number)
        moment = random.uniform(0.0, _LATEST)
        with daemon.started():
            assert daemon.process is not None
            wait_until_handling(daemon)
            time.sleep(moment)
            daemon.check()
            began = time.monotonic()
            daemon.process.send_signal(random.choice([signal.SIGTERM, signal.SIGINT]))
            code = daemon.process.wait(TIMEOUT)
        slowest = max(slowest, time.monotonic() - began)
        assert code == 0, (number, moment, daemon.log.read_text()[-3000:])
    print(f"slowest shutdown {slowest:.1f} s")
    assert_consistent(store_url)


def test_daemon_reloaded_at_any_moment_ingests_its_spool(store_url: str, tmp_path: Path) -> None:
    random = Random(62)
    open_store(store_url, create=True, settings=QUICK).close()
    for number in range(_RELOADS):
        daemon = make_daemon(store_url, tmp_path, number)
        with daemon.started():
            assert daemon.process is not None
            wait_until_handling(daemon)
            time.sleep(random.uniform(0.0, 4.0))
            daemon.check()
            for _ in range(random.choice([1, 1, 5])):
                os.kill(daemon.process.pid, signal.SIGHUP)
            daemon.wait_until_ready()
            os.kill(daemon.process.pid, signal.SIGHUP)
            wait_until((daemon.spool / "done" / f"{number}.pipes").exists, "the file is ingested")
            daemon.end()
    assert_consistent(store_url)


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_readiness_returns_soon_after_an_outage(own_server: Any, tmp_path: Path, seconds: float) -> None:
    url = own_server.get_uri()
    open_store(url, create=True, settings=QUICK).close()
    daemon = Daemon(url, tmp_path)
    with daemon.running():
        feeding = feed_all_ways(daemon, seed=3, pause=0.1)
        daemon.wait_until_ready()
        took = []
        for _ in range(3):
            feeding.wait_for_more()
            own_server.stop()
            wait_until(daemon.unready_reasons, "the daemon is not ready", pause=0.2)
            time.sleep(seconds)
            own_server.ensure_postgres_running()
            began = time.monotonic()
            daemon.wait_until_ready()
            took.append(time.monotonic() - began)
        print(f"ready after {', '.join(f'{one:.1f}' for one in took)} s")
        assert max(took) <= _READY_SECONDS
        feeding.finish()
        daemon.end()
    assert_consistent(url)
