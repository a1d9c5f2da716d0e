"""The daemon reports a lost database or a full disk, loses nothing, and recovers."""

from pathlib import Path
from typing import Any

import pytest
from tests.daemon.campaigns.daemon import (
    Daemon,
    Feeding,
    HttpFeeder,
    PairStream,
    SpoolFeeder,
    assert_all_stored_once,
    assert_consistent,
    feed_all_ways,
    wait_until,
)
from tests.daemon.conftest import QUICK

from hierogram.storage.store import open_store


def assert_alive(daemon: Daemon) -> None:
    answer = daemon.get("/healthz")
    assert answer is not None
    assert answer.status_code == 200


@pytest.mark.slow
def test_daemon_loses_no_pairs_in_a_restart_of_the_database_server(own_server: Any, tmp_path: Path) -> None:
    url = own_server.get_uri()
    open_store(url, create=True, settings=QUICK).close()
    daemon = Daemon(url, tmp_path)
    with daemon.running():
        feeding = feed_all_ways(daemon, seed=1, pause=0.1)
        daemon.wait_until_ready()
        feeding.wait_for_more()
        own_server.stop()
        [reason, *_] = wait_until(daemon.unready_reasons, "the daemon is not ready", pause=0.2)
        assert "store" in reason or "connection" in reason or "server" in reason
        assert_alive(daemon)
        feeding.check()
        own_server.ensure_postgres_running()
        daemon.wait_until_ready()
        assert_all_stored_once(daemon, feeding)


@pytest.mark.slow
def test_a_daemon_reports_a_full_disk_and_recovers(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    url = f"sqlite:///{file}"
    open_store(url, create=True, settings=QUICK).close()
    daemon = Daemon(url, tmp_path)
    with daemon.running():
        http = HttpFeeder(PairStream("http", 2), max_pairs=200)
        feeding = Feeding(daemon, [SpoolFeeder(PairStream("spool", 2), max_pairs=200), http], pause=0.05)
        feeding.wait_for_more()
        size = max(path.stat().st_size for path in tmp_path.iterdir() if path.is_file())
        daemon.limit_files(size + (1 << 16))
        reasons = wait_until(daemon.unready_reasons, "the daemon is not ready", pause=0.2)
        assert any("check disk space" in reason or "disk is full" in reason for reason in reasons), reasons
        wait_until(lambda: 503 in http.statuses, "a body is refused")
        assert_alive(daemon)
        feeding.check()
        assert_consistent(url)
        daemon.limit_files(1 << 40)
        daemon.wait_until_ready()
        assert_all_stored_once(daemon, feeding)
