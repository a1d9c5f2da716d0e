"""A daemon whose store is behind a PgBouncer in transaction mode."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, QUICK
from tests.daemon.serving.conftest import Daemon, drop, until

from hierogram.daemon.learning.verifying import verify
from hierogram.storage.store import open_store


@pytest.mark.slow
def test_a_daemon_behind_a_pooler_ingests_learns_resamples_and_withdraws(
    make_database: Callable[[], str], pooler: Callable[[str], str], serve: Callable[..., Daemon], tmp_path: Path
) -> None:
    direct = make_database()
    url = pooler(direct)
    open_store(url, create=True, settings=QUICK).close()
    daemon = serve("--store", url, "--spool", str(tmp_path / "spool"))
    daemon.until("daemon started")
    drop(tmp_path / "spool", "one.bars", "".join(line + "\n" for line in LINES))
    with open_store(direct) as store:
        until(lambda: store.count_pairs(["settled"]) == len(LINES))
        settled = store.status().sweeps
        # Settled pairs are resampled while no pair is new.
        until(lambda: store.status().sweeps > settled + 8)
        store.request_withdrawals([1])
        until(lambda: store.pairs_by_id([1]) == [])
        assert daemon.end() == 0
        assert verify(store).problems == []
    assert not [line for line in daemon.log if "loop failed" in line]
