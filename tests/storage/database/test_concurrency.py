"""Concurrent writers lose nothing and do not wait forever. Invalid cache sizes and states of pairs are refused."""

from pathlib import Path

import pytest
from tests.storage.building import commit, delta, integrity, make_pairs, pair, read_counts
from tests.storage.database.writers import WRITERS, run_concurrently

from hierogram.storage.database import connection as connections
from hierogram.storage.database import postgres
from hierogram.storage.database.connection import make_engine, parse_url, reading, writing_connection
from hierogram.storage.exceptions import StoreUnavailableError, StoreUrlError
from hierogram.storage.store import Store, open_store

COMMITS = 15


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["one store object", "a store object each"])
def test_counts_from_several_writers_add_up(store: Store, store_url: str, shared: bool) -> None:
    def work(number: int) -> None:
        own = store if shared else open_store(store_url)
        for n in range(COMMITS):
            commit(own, [], [delta("shared word", "rule", 1), delta(f"of{number} s{n}", "rule word", 1)])
        if not shared:
            own.close()

    run_concurrently(work)
    counts = read_counts(store)
    assert counts.pop(("shared word", "rule")) == (WRITERS * COMMITS, 0)
    assert len(counts) == WRITERS * COMMITS
    assert store.position() == WRITERS * COMMITS
    assert integrity(store) == []


def test_pairs_ingested_by_concurrent_writers_are_stored_once(store: Store) -> None:
    lines = [pair(f"s{n}", f"t{n % 7}") for n in range(200)]

    def work(number: int) -> None:
        batch = store.begin_ingest("corpus", f"copy {number}", "bars")
        for start in range(0, len(lines), 20):
            store.add_pairs(batch, make_pairs(lines[start : start + 20]))
        store.finish_ingest(batch)

    run_concurrently(work)
    assert sorted(row.source for row in store.pairs()) == sorted(line.source for line in lines)
    assert integrity(store) == []


def test_concurrent_creation_makes_one_store(store_url: str) -> None:
    def work(number: int) -> None:
        with open_store(store_url, create=True) as store:
            commit(store, [], [delta("a", "x", 1)])

    run_concurrently(work)
    with open_store(store_url) as store:
        assert read_counts(store) == {("a", "x"): (WRITERS, 0)}
        assert store.position() == WRITERS


@pytest.mark.slow
def test_a_writer_does_not_wait_forever(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_BUSY_SECONDS", 1)
    monkeypatch.setitem(postgres._SETTINGS, "lock_timeout", "1s")
    with open_store(store_url) as other, open_store(store_url) as blocking, blocking._writing():
        with pytest.raises(StoreUnavailableError, match="locked by another process for too long"):
            commit(other, [], [delta("a", "x", 1)])
        assert other.position() == 0
    commit(store, [], [delta("a", "x", 1)])
    assert store.position() == 2


@pytest.mark.slow
def test_a_thread_does_not_wait_forever_for_another(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_BUSY_SECONDS", 1)
    monkeypatch.setitem(postgres._SETTINGS, "lock_timeout", "1s")
    with (
        open_store(store_url) as other,
        other._writing(),
        pytest.raises(StoreUnavailableError, match="for too long"),
        other._writing(),
    ):
        pass
    assert store.position() == 1


def test_threads_write_through_one_connection_with_the_large_cache(tmp_path: Path) -> None:
    engine = make_engine(parse_url(f"sqlite:///{tmp_path / 'x.db'}?cache_mb=5"))
    writers = []

    def work(_number: int) -> None:
        with writing_connection(engine) as connection:
            assert connection.exec_driver_sql("PRAGMA cache_size").scalar_one() == -5 * 1024
            writers.append(connection.connection.driver_connection)

    run_concurrently(work)
    assert len(writers) == WRITERS
    assert len(set(map(id, writers))) == 1
    with reading(engine) as connection:
        assert connection.connection.driver_connection is not writers[0]
        assert connection.exec_driver_sql("PRAGMA cache_size").scalar_one() == -5 * 256
        # The writer has 5 MB, and all readers together have the minimum of 4 MB.
        assert connection.exec_driver_sql("PRAGMA soft_heap_limit").scalar_one() == 9 << 20
    engine.dispose()


@pytest.mark.parametrize("cache", ["0", "-1", "much", "1.5", "1&cache_mb=2"])
def test_invalid_cache_sizes_are_refused(cache: str) -> None:
    with pytest.raises(StoreUrlError, match="cache_mb must be a whole number of megabytes"):
        parse_url(f"sqlite:///x.db?cache_mb={cache}")
