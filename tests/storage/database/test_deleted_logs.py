"""Commits in a deleted log of an open SQLite store are copied into the file, unless it or a new log has other content.

Small commits are copied into the file soon, before their log can be deleted.
"""

import multiprocessing
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.conftest import make_new
from tests.storage.building import ingest, integrity, pair, query

from hierogram.storage.database import sqlite_files
from hierogram.storage.database.sqlite_files import Checkpointer
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.store import open_store

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])
NEVER = 1_000.0


def commit_on_request(path: str, soon: float, requests: Connection) -> None:
    """Commit to a store or read it on request, and send the results. Runs in a separate process."""
    sqlite_files._SOON_SECONDS = soon
    store = open_store(path)
    number = 0
    while True:
        request = requests.recv()
        try:
            if request == "commit":
                ingest(store, [pair(f"un chat {number + k}", f"a cat {number + k}", "0-0 1-1") for k in range(20)])
                number += 20
            else:
                store.count_pairs()
            requests.send("done")
        except StoreUnavailableError as error:
            requests.send(str(error))


class Committer:
    """A process that commits to a store or reads it on request. A call returns `done` or the error message."""

    def __init__(self, path: Path, soon: float) -> None:
        self._requests, theirs = FORKS.Pipe()
        self._process = FORKS.Process(target=commit_on_request, args=(str(path), soon, theirs))
        self._process.start()
        theirs.close()

    def __call__(self, what: str) -> str:
        self._requests.send(what)
        result: str = self._requests.recv()
        return result

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._requests.close()


@contextmanager
def running_committer(path: Path, soon: float) -> Iterator[Committer]:
    make_new(str(path))
    committer = Committer(path, soon)
    try:
        yield committer
    finally:
        committer.kill()


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def delete_log_and_index(path: Path) -> None:
    delete_log(path)
    path.with_name(f"{path.name}-shm").unlink()


def delete_log_and_look(path: Path) -> None:
    """Delete the log and read the database as another program does, which makes an empty log."""
    delete_log(path)
    with closing(sqlite3.connect(path)) as connection, closing(connection.execute("PRAGMA schema_version")) as found:
        found.fetchall()
        assert path.with_name(f"{path.name}-wal").stat().st_size == 0
        connection.commit()


@pytest.mark.parametrize("delete", [delete_log, delete_log_and_index, delete_log_and_look])
@pytest.mark.parametrize("then", ["commit", "look"])
def test_commits_survive_a_deleted_log_that_is_noticed(
    tmp_path: Path, delete: Callable[[Path], None], then: str
) -> None:
    path = tmp_path / "s.db"
    with running_committer(path, NEVER) as committer:
        assert [committer("commit"), committer("commit")] == ["done"] * 2
        delete(path)
        output = committer(then)
        assert "start again (the commits in the log were copied into" in output
        assert "were copied" in committer("commit")
        committer.kill()
    assert query(str(path), "SELECT count(*) FROM sentence_pairs") == [(40,)]
    with open_store(str(path)) as store:
        assert integrity(store) == []
        ingest(store, [pair("un chien", "a dog", "0-0 1-1")])
        assert store.count_pairs() == 41


def test_commits_survive_a_log_deleted_soon_after_them(tmp_path: Path) -> None:
    """The process does not use the store after the deletion, so its timer must have copied the log before."""
    path = tmp_path / "s.db"
    with running_committer(path, 0.05) as committer:
        assert committer("commit") == "done"
        time.sleep(1)
        delete_log(path)
        committer.kill()
    assert query(str(path), "SELECT count(*) FROM sentence_pairs") == [(20,)]


def test_a_deleted_log_is_not_copied_if_a_new_log_has_content(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with running_committer(path, NEVER) as committer:
        assert committer("commit") == "done"
        delete_log(path)
        path.with_name(f"{path.name}-wal").write_bytes(bytes(32))
        before = path.read_bytes()
        assert "restore the file" in committer("look")
        assert path.read_bytes() == before
        committer.kill()


def test_a_deleted_log_is_not_copied_over_writes_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with running_committer(path, NEVER) as committer:
        assert committer("commit") == "done"
        delete_log_and_index(path)
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_autocheckpoint=0")
            other.execute("CREATE TABLE others (a)")
            other.execute("INSERT INTO others VALUES (1)")
            other.commit()
            before = path.read_bytes()
            output = committer("look")
            assert "was replaced" in output
            assert "restore the file" in output
            assert path.read_bytes() == before
        committer.kill()
    assert query(str(path), "PRAGMA integrity_check") == [("ok",)]
    assert query(str(path), "SELECT a FROM others") == [(1,)]


def test_small_commits_are_copied_soon_without_another_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "_SOON_SECONDS", 0.05)
    copies: list[float] = []
    monkeypatch.setattr(Checkpointer, "_copy", lambda _: copies.append(time.monotonic()))
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a)")
        checkpointer = Checkpointer(str(tmp_path / "x.db"), lambda: None)
        for expected in (1, 2):
            # The three commits share one copy.
            for _ in range(3):
                connection.execute("INSERT INTO t VALUES (0)")
                checkpointer.record_commit(connection, synced=True)
            assert len(copies) == expected - 1
            end = time.monotonic() + 10
            while len(copies) < expected:
                assert time.monotonic() < end
                time.sleep(0.01)
        connection.execute("INSERT INTO t VALUES (0)")
        checkpointer.record_commit(connection, synced=True)
        checkpointer.close()
        time.sleep(0.2)
        assert len(copies) == 2


def test_a_large_log_is_copied_later_than_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(Checkpointer, "_start_timer", lambda _, seconds: waits.append(seconds))
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a)")
        for size in (1 << 20, 5 << 20):
            path.with_name("x.db-wal").write_bytes(bytes(size))
            checkpointer = Checkpointer(str(path), lambda: None)
            checkpointer.record_commit(connection, synced=True)
            checkpointer.close()
    assert waits == [1.0, 30.0]
