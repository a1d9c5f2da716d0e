"""Opening a store: URLs, settings, error messages, and files that are moved or deleted while the store is open."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.building import integrity, query

from hierogram.samplers.grammar.settings import DIRICHLET
from hierogram.storage.database.connection import convert_errors, hide_password, parse_url, writing_connection
from hierogram.storage.exceptions import StoreError, StoreMissingError, StoreUnavailableError, StoreUrlError
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

OTHER = Settings(
    model=DIRICHLET,
    discount=0.25,
    strength=100.0,
    rate=3.5,
    span_limit=0,
    seed=2**62,
    round_sweeps=5,
    sweeps_per_level=3,
    levels=2,
    max_tokens=80,
    key_salt=9,
)


def test_opening_does_not_create_a_missing_store(store_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreMissingError, match="hierogram init"):
        open_store(store_url)
    assert list(tmp_path.iterdir()) == []


def test_settings_given_at_creation_are_stored(store_url: str) -> None:
    with open_store(store_url, create=True, settings=OTHER) as store:
        assert store.settings() == OTHER
    with open_store(store_url, create=True) as store:
        assert store.settings() == OTHER
        with store.snapshot() as snapshot:
            assert snapshot.settings() == OTHER


def test_integers_are_accepted_for_real_numbers(store_url: str) -> None:
    with open_store(store_url, create=True, settings=Settings(strength=5, rate=2)) as store:
        assert store.settings() == Settings()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM settings WHERE name = 'seed'", "seed is missing"),
        ("UPDATE settings SET value = '1.5' WHERE name = 'seed'", "seed must be a whole number, got 1.5"),
        ("UPDATE settings SET value = 'true' WHERE name = 'rate'", "rate must be a number, got True"),
        ("UPDATE settings SET value = '3' WHERE name = 'model'", "model must be a string, got 3"),
        ("UPDATE settings SET value = '{' WHERE name = 'levels'", "levels is not JSON"),
    ],
)
def test_tampered_settings_are_reported(store: Store, store_url: str, statement: str, message: str) -> None:
    query(store_url, statement)
    with pytest.raises(StoreError, match=message):
        store.settings()
    assert any(message in problem for problem in integrity(store))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("grammar.db", "sqlite:///grammar.db"),
        ("/var/lib/grammar.db", "sqlite:////var/lib/grammar.db"),
        ("sqlite:///some/where.sqlite3", "sqlite:///some/where.sqlite3"),
        ("postgresql://me:secret@host:5433/grammar", "postgresql://me:***@host:5433/grammar"),
        ("postgres://me@host/grammar", "postgresql://me@host/grammar"),
        ("postgresql+psycopg://host/grammar", "postgresql://host/grammar"),
    ],
)
def test_store_urls_are_shown_in_canonical_form_without_password(text: str, shown: str) -> None:
    assert hide_password(parse_url(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "grammar", "sqlite://", "sqlite:///:memory:", "mysql://host/x", "http://host/x", "a b://"]
)
def test_invalid_store_urls_are_rejected(text: str) -> None:
    with pytest.raises(StoreUrlError):
        open_store(text)


def test_the_error_for_a_missing_postgres_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreUrlError, match=r"Postgres requires psycopg: run pip install '\.\[postgres\]'"):
        open_store("postgresql://127.0.0.1:1/grammar")


def test_errors_do_not_show_passwords() -> None:
    with pytest.raises(StoreUnavailableError) as raised:
        open_store("postgresql://me:secret@127.0.0.1:1/grammar?connect_timeout=2")
    assert "secret" not in str(raised.value)
    assert "127.0.0.1:1/grammar" in str(raised.value)


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "letter.db"
    file.write_bytes(b"Dear Sir or Madam, " * 100)
    for create in (False, True):
        with pytest.raises(StoreUnavailableError, match="not an SQLite database"):
            open_store(str(file), create=create)
    assert file.read_bytes() == b"Dear Sir or Madam, " * 100


def test_the_folder_of_a_new_store_must_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreUrlError, match=r"nowhere does not exist"):
        open_store(str(tmp_path / "nowhere" / "x.db"), create=True)


def test_opening_a_store_imports_no_heavy_package(tmp_path: Path) -> None:
    url = str(tmp_path / "x.db")
    open_store(url, create=True).close()
    script = (
        "import sys; from hierogram.storage.store import open_store\n"
        f"with open_store({url!r}) as store: store.status(); store.find_rules('a')\n"
        "heavy = 'numba', 'numpy', 'alembic', 'psycopg', 'sqlalchemy.dialects.postgresql'\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("database or disk is full", "the disk is full .*: free some space"),
        ('could not extend file "base/5/1": wrote only 4096 of 8192 bytes', "the disk is full .*: free some space"),
        ("No space left", "the disk is full .*: free some space"),
        ("attempt to write a readonly database", "the file of the store and its folder must be writable"),
        ("unable to open database file", "the file of the store and its folder must be writable"),
    ],
)
def test_a_full_disk_or_an_unwritable_folder_is_reported_with_advice(message: str, advice: str) -> None:
    url = parse_url("sqlite:///s.db")
    with pytest.raises(StoreUnavailableError, match=rf"s\.db: .*{advice}"), convert_errors(url):
        raise sqlite3.OperationalError(message)


def test_a_new_store_is_in_its_file_and_not_only_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path), create=True):
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
        with open_store(str(copy)) as copied:
            assert copied.count_pairs() == 0


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_writes_to_a_moved_file_are_not_reported_as_stored(tmp_path: Path, ending: str, replaced: bool) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path), create=True) as store:
        store.finish_ingest(store.begin_ingest("a", "o", "f"))
        file, moved = Path(f"{path}{ending}"), tmp_path / "moved"
        file.rename(moved)
        if replaced:
            shutil.copy(moved, file)
        for what in (lambda: store.begin_ingest("b", "o", "f"), store.count_pairs, store.status):
            with pytest.raises(StoreUnavailableError, match=r"was replaced" if replaced else r"was deleted"):
                what()
        assert replaced or not file.exists()
        moved.rename(file)
        store.finish_ingest(store.begin_ingest("b", "o", "f"))
    assert query(str(path), "SELECT name FROM corpora ORDER BY name") == [("a",), ("b",)]


def test_a_transaction_fails_if_its_file_is_moved(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path), create=True) as store:

        def move_and_commit() -> None:
            with writing_connection(store.engine) as connection:
                connection.exec_driver_sql("UPDATE store_state SET rejected_lines = 7")
                path.rename(tmp_path / "moved")

        with pytest.raises(StoreUnavailableError, match="was deleted"):
            move_and_commit()
        (tmp_path / "moved").rename(path)
        assert store.status().rejected_lines == 0


def test_closing_a_store_copies_its_deleted_log_into_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path), create=True) as store:
        store.finish_ingest(store.begin_ingest("a", "o", "f"))
        path.with_name("store.db-wal").unlink()
        with pytest.raises(StoreUnavailableError, match="was deleted"):
            store.begin_ingest("b", "o", "f")
    assert query(str(path), "SELECT name FROM corpora") == [("a",)]
    assert query(str(path), "PRAGMA integrity_check") == [("ok",)]
