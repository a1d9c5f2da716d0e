"""The log of an SQLite store is synced to disk and copied into the file in the background."""

import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.storage.building import commit, delta

from hierogram.storage.database import sqlite_files
from hierogram.storage.database.sqlite_files import Checkpointer
from hierogram.storage.store import open_store


def rows_in_file(path: Path, copy: Path, table: str) -> int:
    """Return the number of rows of a table in the file without its log, 0 if the table does not exist there."""
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        try:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def test_the_log_is_copied_into_the_file_after_enough_changed_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_files, "_MAX_ROWS", 100)
    path = tmp_path / "x.db"
    checkpointer = Checkpointer(str(path), lambda: None)
    expected = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        for rows, copied in ((60, False), (60, True), (30, False), (90, True)):
            connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(rows)])
            checkpointer.record_commit(connection, synced=True)
            checkpointer.close()
            if copied:
                expected = connection.execute("SELECT count(*) FROM t").fetchone()[0]
            assert rows_in_file(path, tmp_path / "copy.db", "t") == expected
        with closing(sqlite3.connect(path, isolation_level=None)) as another:
            another.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(110)])
            checkpointer.record_commit(another, synced=True)
            checkpointer.close()
        assert rows_in_file(path, tmp_path / "copy.db", "t") == 350


def test_commits_during_a_copy_are_also_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "_MAX_ROWS", 1)
    path = tmp_path / "x.db"
    checkpointer = Checkpointer(str(path), lambda: None)
    passes: list[str] = []
    connect = sqlite3.connect
    with closing(connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (0)")

        def commit_after_the_first(statement: str) -> None:
            passes.append(statement)
            if len(passes) == 2:
                with other:
                    other.execute("INSERT INTO t VALUES (0)")

        def watched(file: str, isolation_level: None) -> sqlite3.Connection:
            copier = connect(file, isolation_level=isolation_level)
            copier.set_trace_callback(commit_after_the_first)
            return copier

        with closing(connect(path, check_same_thread=False)) as other, monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", watched)
            checkpointer.record_commit(connection, synced=True)
            checkpointer.close()
        assert len(passes) == 3
        assert rows_in_file(path, tmp_path / "copy.db", "t") == 2


def test_a_failed_copy_of_the_log_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "_MAX_ROWS", 1)
    checkpointer = Checkpointer(str(tmp_path), lambda: None)
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a)")
        for n in range(3):
            connection.execute("INSERT INTO t VALUES (?)", (n,))
            checkpointer.record_commit(connection, synced=True)
            checkpointer.close()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_a_commit_succeeds_if_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "_MAX_ROWS", 1)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "store.db"
    with open_store(str(path), create=True) as store:
        checkpointer = store.engine.get_execution_options()["hierogram_checkpointer"]
        # End the thread that may have started while the store was created.
        checkpointer.close()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            commit(store, [], [delta("a", "x", 1)])
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 0
        commit(store, [], [delta("b", "y", 1)])
        checkpointer.close()
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 2


def test_a_store_copies_its_log_while_it_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path), create=True) as store:
        commit(store, [], [delta("a", "x", 1)])
        checkpointer = store.engine.get_execution_options()["hierogram_checkpointer"]
        checkpointer.close()
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 0
        monkeypatch.setattr(sqlite_files, "_MAX_ROWS", 1)
        commit(store, [], [delta("b", "y", 1)])
        checkpointer.close()
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 2
        commit(store, [], [delta("c", "y", 1)])
    assert rows_in_file(path, tmp_path / "copy.db", "rules") == 3
    assert not path.with_name("store.db-wal").exists()


@pytest.fixture
def synced_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files in the folder that `os.fsync` syncs. Syncs by SQLite itself are not listed."""
    names: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        files = {path.stat().st_ino: path.name for path in tmp_path.iterdir()}
        names.append(files[os.fstat(descriptor).st_ino])
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return names


def test_a_commit_without_sync_is_synced_soon_after(tmp_path: Path, synced_files: list[str]) -> None:
    with open_store(str(tmp_path / "store.db"), create=True) as store:
        checkpointer = store.engine.get_execution_options()["hierogram_checkpointer"]
        store.finish_ingest(store.begin_ingest("c", "o", "f"))
        checkpointer.close()
        assert synced_files == []
        commit(store, [], [delta("a", "x", 1)])
        checkpointer.close()
        assert synced_files == ["store.db-wal"]


def test_a_copy_requested_during_a_sync_is_made_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()
    done = []

    def sync(_: Checkpointer) -> None:
        done.append("sync")
        begun.set()
        assert may_end.wait(10)

    monkeypatch.setattr(Checkpointer, "_sync", sync)
    monkeypatch.setattr(Checkpointer, "_copy", lambda _: done.append("copy"))
    monkeypatch.setattr(sqlite_files, "_MAX_ROWS", 1)
    checkpointer = Checkpointer(str(tmp_path / "x.db"), lambda: None)
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        checkpointer.record_commit(connection, synced=False)
        assert begun.wait(10)
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (1)")
        checkpointer.record_commit(connection, synced=True)
        may_end.set()
        checkpointer.close()
    assert done == ["sync", "copy"]


def test_a_failed_sync_of_the_log_is_ignored(tmp_path: Path) -> None:
    checkpointer = Checkpointer(str(tmp_path / "missing" / "x.db"), lambda: None)
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        for _ in range(2):
            checkpointer.record_commit(connection, synced=False)
            checkpointer.close()
        assert connection.execute("SELECT 1").fetchone() == (1,)
