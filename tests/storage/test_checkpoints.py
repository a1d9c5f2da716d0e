"""The log of an SQLite store gets into its file beside the commits."""

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.storage.building import delta

from hierogram.storage import checkpoints
from hierogram.storage.checkpoints import Checkpoints
from hierogram.storage.store import open_store


def rows_in_file(path: Path, copy: Path, table: str) -> int:
    """How many rows the file has by itself, without its log."""
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        try:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def test_the_log_is_copied_once_enough_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_ROWS", 100)
    path = tmp_path / "x.db"
    copies = Checkpoints(str(path))
    expected = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        for rows, copied in ((60, False), (60, True), (30, False), (90, True)):
            connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(rows)])
            copies.committed(connection)
            copies.close()
            if copied:
                expected = connection.execute("SELECT count(*) FROM t").fetchone()[0]
            assert rows_in_file(path, tmp_path / "copy.db", "t") == expected
        with closing(sqlite3.connect(path, isolation_level=None)) as another:
            another.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(110)])
            copies.committed(another)
            copies.close()
        assert rows_in_file(path, tmp_path / "copy.db", "t") == 350


def test_a_copy_that_fails_is_let_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_ROWS", 1)
    copies = Checkpoints(str(tmp_path))
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a)")
        for n in range(3):
            connection.execute("INSERT INTO t VALUES (?)", (n,))
            copies.committed(connection)
            copies.close()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_a_commit_without_a_thread_to_be_had_is_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_ROWS", 1)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "store.db"
    with open_store(str(path), create=True) as store:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            store.commit([], [delta("a", "x", 1)])
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 0
        store.commit([], [delta("b", "y", 1)])
        store.engine.get_execution_options()["hierogram_checkpoints"].close()
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 2


def test_a_store_copies_its_log_while_it_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path), create=True) as store:
        store.commit([], [delta("a", "x", 1)])
        copies = store.engine.get_execution_options()["hierogram_checkpoints"]
        copies.close()
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 0
        monkeypatch.setattr(checkpoints, "_ROWS", 1)
        store.commit([], [delta("b", "y", 1)])
        copies.close()
        assert rows_in_file(path, tmp_path / "copy.db", "rules") == 2
        store.commit([], [delta("c", "y", 1)])
    assert rows_in_file(path, tmp_path / "copy.db", "rules") == 3
    assert not path.with_name("store.db-wal").exists()
