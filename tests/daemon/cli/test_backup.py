"""A backup is a complete store or is not written, even during concurrent writes."""

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from tests.conftest import CopyStore
from tests.daemon.conftest import Run, learned_store_maker
from tests.daemon.learning.stores import contents, fill, some_pairs

from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.storage.database.backup import postgres_commands
from hierogram.storage.exceptions import StoreError
from hierogram.storage.store import Store, open_store


@pytest.fixture
def file(tmp_path: Path, copy_store: CopyStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite store learned from the small corpus."""
    path = tmp_path / "store.db"
    copy_store("learned", f"sqlite:///{path}", learned_store_maker(tmp_path_factory))
    return path


def test_backup_is_a_complete_store(hierogram: Run, file: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        before = contents(store)
    ran = hierogram("--store", str(file), "backup", "copy.db", "--json")
    assert (ran.code, ran.err) == (0, "")
    report = json.loads(ran.out)
    assert report == {"store": f"sqlite:///{file}", "file": "copy.db", "bytes": (tmp_path / "copy.db").stat().st_size}
    assert [path.name for path in tmp_path.iterdir() if "copy.db" in path.name] == ["copy.db"]
    assert hierogram("--store", "copy.db", "verify").code == 0
    with open_store("copy.db") as copy:
        assert contents(copy) == before
        fill(copy, some_pairs(5))
        learn(copy, sweeps=1)
        assert verify(copy).problems == []


def test_backup_replaces_a_file_only_with_force_and_never_a_used_store(
    hierogram: Run, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "copy.db").write_text("mine")
    chosen = ("--store", str(file), "backup")
    ran = hierogram(*chosen, "copy.db")
    assert (ran.code, "or the option force to replace it" in ran.err) == (2, True)
    assert (tmp_path / "copy.db").read_text() == "mine"
    assert "copied from sqlite:///" in hierogram(*chosen, "copy.db", "--force").out
    assert hierogram("--store", "copy.db", "verify").code == 0
    (tmp_path / "used.db-wal").write_text("")
    for target, message in (
        (str(file), "is the store itself"),
        ("nowhere/copy.db", "the folder nowhere does not exist"),
        (str(tmp_path), "is a folder"),
        ("used.db", "is a store in use"),
    ):
        ran = hierogram(*chosen, target, "--force")
        assert (ran.code, message in ran.err) == (2, True), ran


def test_backup_during_writes_has_the_state_before_them_and_no_lease(file: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{file}") as store, open_store(f"sqlite:///{file}") as other:
        other.take_lease("hierogram serve", 600)
        before = contents(store)
        steps = []

        def write(done: int, total: int) -> None:
            steps.append((done, total))
            fill(other, some_pairs(3, seed=len(steps)))

        store.back_up(tmp_path / "copy.db", write)
        assert steps
        assert steps[-1][0] == steps[-1][1]
        assert store.count_pairs() > 9
    with open_store(str(tmp_path / "copy.db")) as copy:
        assert copy.lease() is None
        assert (contents(copy), verify(copy).problems) == (before, [])


def test_backups_succeed_while_a_store_learns(file: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        learning = threading.Thread(target=learn, args=(store,), kwargs={"sweeps": 30})
        learning.start()
        number = 0
        while learning.is_alive() or not number:
            number += 1
            with open_store(f"sqlite:///{file}") as another:
                another.back_up(tmp_path / f"copy-{number % 3}.db")
        learning.join()
    for path in tmp_path.glob("copy-*.db"):
        with open_store(str(path)) as copy:
            assert verify(copy).problems == []


def test_failed_backup_keeps_the_previous_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("the last one")

    def fail(_done: int, _total: int) -> None:
        raise OSError("the disk is gone")

    with open_store(f"sqlite:///{file}") as store, pytest.raises(StoreError, match="the disk is gone"):
        store.back_up(tmp_path / "copy.db", fail)
    assert (tmp_path / "copy.db").read_text() == "the last one"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_damaged_store_is_not_backed_up_and_errors_recommend_an_older_backup(
    hierogram: Run, file: Path, tmp_path: Path
) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'rule_history'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(file.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    file.write_bytes(content)
    ran = hierogram("--store", str(file), "backup", "copy.db")
    assert (ran.code, "restore an older backup" in ran.err) == (3, True), ran
    assert not (tmp_path / "copy.db").exists()
    for command in ("verify", "repair"):
        ran = hierogram("--store", str(file), command)
        assert ran.code == 1, ran
        assert "SQLite reports a damaged file" in ran.out
        assert "restore a backup" in ran.err


@pytest.mark.database("sqlite")
def test_backup_to_a_missing_folder_is_an_error(learned: Store) -> None:
    with pytest.raises(StoreError, match="the backup cannot be written"):
        learned.back_up(Path("/nowhere/x.db"))


@pytest.mark.database("postgres")
def test_backing_up_a_postgres_store_recommends_pg_dump(hierogram: Run, learned: Store, learned_url: str) -> None:
    with pytest.raises(StoreError, match="pg_dump"):
        learned.back_up(Path("x.db"))
    ran = hierogram("--store", learned_url, "backup", "monday.dump")
    assert ran.code == 2
    assert "pg_dump --format=custom --file=monday.dump --dbname=" in ran.err
    assert "pg_restore --clean --if-exists --dbname=" in ran.err


def test_postgres_commands_contain_no_password() -> None:
    url = "postgresql://me:secret@db.example:5433/news?sslmode=require&password=secret"
    back_up, bring_back = postgres_commands(url, "my file")
    assert back_up == (
        "pg_dump --format=custom --file='my file' --dbname='postgresql://me@db.example:5433/news?sslmode=require'"
    )
    assert bring_back == (
        "pg_restore --clean --if-exists --dbname='postgresql://me@db.example:5433/news?sslmode=require' 'my file'"
    )
