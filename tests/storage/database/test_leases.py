"""One process at a time may commit to the grammar. Other processes get its name, and its death does not block them."""

import subprocess
import sys

import pytest
from tests.storage.building import commit, delta, ingest, pair, query, update

from hierogram.storage.database.leases import has_ended, process_identity
from hierogram.storage.exceptions import LeaseLostError, StoreHeldError
from hierogram.storage.store import Store, open_store

PAST = "2000-01-01 00:00:00+00"


def expire(url: str) -> None:
    moment = PAST[:19] if url.startswith("sqlite") else PAST
    query(url, f"UPDATE leases SET expires_at = '{moment}'")


def test_a_second_writer_learns_who_holds_the_store(store: Store, store_url: str) -> None:
    store.take_lease("hierogram serve", 60)
    with open_store(store_url) as other:
        with pytest.raises(
            StoreHeldError, match=r"is being written by `hierogram serve` \(process \d+ on .*, since .* UTC\)"
        ):
            other.take_lease("hierogram learn", 60)
        with pytest.raises(StoreHeldError, match="hierogram serve"):
            commit(other, [], [delta("a", "x", 1)])
        ingest(other, [pair("a", "b")])
        lease = other.lease()
        assert lease is not None
        assert lease.command == "hierogram serve"
        commit(store, [update(1)], [delta("a", "x", 1)])
        store.release_lease()
        assert other.lease() is None
        other.take_lease("hierogram learn", 60)
        commit(other, [], [delta("a", "x", 1)])


def test_an_expired_lease_can_be_taken_and_its_holder_cannot_write(store: Store, store_url: str) -> None:
    store.take_lease("hierogram serve", 60)
    expire(store_url)
    store.renew_lease(60)
    assert store.lease() is not None
    expire(store_url)
    assert store.lease() is None
    # No other process has taken the lease in between, so the holder may continue.
    commit(store, [], [delta("a", "x", 1)])
    with open_store(store_url) as other:
        other.take_lease("hierogram learn", 60)
        for write in (lambda: commit(store, [], [delta("a", "x", 1)]), lambda: store.renew_lease(60)):
            with pytest.raises(LeaseLostError, match="lost the lease on the grammar to `hierogram learn`"):
                write()
        other.release_lease()
    with pytest.raises(LeaseLostError, match="lost the lease on the grammar, because it was not renewed in time"):
        commit(store, [], [delta("a", "x", 1)])


def test_leases_of_a_process_that_has_ended_are_void_immediately(store: Store, store_url: str) -> None:
    script = (
        "import os, sys\n"
        "from hierogram.storage.store import open_store\n"
        "store = open_store(sys.argv[1])\n"
        "store.take_lease('hierogram serve', 3600)\n"
        "store.begin_ingest('corpus', 'file.txt', 'bars')\n"
        "os._exit(0)\n"
    )
    mine = store.begin_ingest("corpus", "other.txt", "bars")
    subprocess.run([sys.executable, "-c", script, store_url], check=True)
    assert store.lease() is None
    store.take_lease("hierogram learn", 60)
    [abandoned] = store.close_abandoned_batches()
    rows = dict(query(store_url, "SELECT id, state FROM ingest_batches"))
    assert rows == {mine: "running", abandoned: "failed"}
    [(error,)] = query(store_url, f"SELECT error FROM ingest_batches WHERE id = {abandoned}")
    assert "died before the end of the input: ingest the input again" in str(error)
    assert store.close_abandoned_batches() == []
    store.finish_ingest(mine)
    assert query(store_url, "SELECT name FROM leases") == [("grammar",)]


def test_running_or_remote_processes_have_not_ended() -> None:
    process = process_identity()
    assert not has_ended(process)
    machine, pid, started = process.split(" ")
    assert has_ended(f"{machine} {pid} {int(started) + 1}")
    assert not has_ended(f"elsewhere {pid} {int(started) + 1}")
