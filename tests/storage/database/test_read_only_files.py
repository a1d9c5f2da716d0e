"""A store whose file or folder is not writable for the process can be read, but not changed."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.storage.building import ingest, pair

from hierogram.storage.browsing.reader import Reader
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.store import open_store

_DROP_FROM_BOUNDING_SET, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2

READ = """
import sys
from hierogram.storage.browsing.sql_runner import SqlRunner
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.store import open_store

path = sys.argv[1]
with open_store(path) as store:
    print(store.read_only, store.count_pairs(), [row.source for row in store.pairs()])
    try:
        store.begin_ingest("a", "b", "c")
    except StoreUnavailableError as error:
        print(error)
with Reader(path) as reader, reader.read() as transaction:
    print(transaction.row("SELECT count(*) FROM sentence_pairs"))
print(SqlRunner(path).query("SELECT count(*) FROM sentence_pairs", 20, 10).rows)
"""


def obey_permissions() -> None:
    """Let file permissions apply to the program that starts next, even if its user is root."""
    if os.geteuid() == 0:
        for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "store"
    folder.mkdir()
    with open_store(str(folder / "s.db"), create=True) as store:
        ingest(store, [pair("la maison", "the house", "0-0 1-1")])
    yield folder / "s.db"
    folder.chmod(0o755)


def forbid_folder(path: Path) -> None:
    path.chmod(0o444)
    path.parent.chmod(0o555)


def forbid_file(path: Path) -> None:
    path.chmod(0o444)


def forbid_folder_alone(path: Path) -> None:
    path.parent.chmod(0o555)


@pytest.mark.slow
@pytest.mark.parametrize("forbid", [forbid_folder, forbid_file, forbid_folder_alone])
@pytest.mark.parametrize("in_use", [False, True])
def test_a_read_only_store_can_be_read(path: Path, forbid: Callable[[Path], None], in_use: bool) -> None:
    script = [sys.executable, "-c", READ, str(path)]
    writer = open_store(str(path)) if in_use else None
    if writer is not None:
        ingest(writer, [pair("un chat", "a cat", "0-0 1-1")])
    before = sorted(path.parent.iterdir())
    forbid(path)
    ran = subprocess.run(script, check=False, capture_output=True, text=True, preexec_fn=obey_permissions)
    number = 1 + in_use
    assert ran.stderr == ""
    first, refused, *counts = ran.stdout.splitlines()
    assert first == f"True {number} {['la maison', 'un chat'][:number]}"
    assert "the file of the store and its folder must be writable" in refused
    assert counts == [f"({number},)", f"[[{number}]]"]
    if not in_use and forbid is not forbid_file:
        assert sorted(path.parent.iterdir()) == before
    if writer is not None:
        writer.close()


@pytest.fixture
def forbidden(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a store that appears read-only to permission checks."""
    access = os.access

    def may(entry: str | Path, mode: int) -> bool:
        return access(entry, mode) and not (mode & os.W_OK and str(entry) in (str(path), str(path.parent)))

    monkeypatch.setattr(os, "access", may)
    return path


def test_a_read_only_store_shows_later_writes_of_other_processes(
    forbidden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(forbidden)) as store, Reader(str(forbidden)) as reader:
        assert store.count_pairs() == 1
        assert not forbidden.with_name("s.db-wal").exists()
        with monkeypatch.context() as patched:
            patched.setattr(os, "access", lambda *_: True)
            writer = open_store(str(forbidden))
        ingest(writer, [pair("un chat", "a cat", "0-0 1-1")])
        assert store.count_pairs() == 2
        with reader.read() as look:
            assert look.row("SELECT count(*) FROM sentence_pairs") == (2,)
        ingest(writer, [pair("un chien", "a dog", "0-0 1-1")])
        writer.close()
        assert store.count_pairs() == 3


def test_nothing_is_written_into_a_read_only_store(forbidden: Path) -> None:
    before = forbidden.read_bytes()
    with open_store(str(forbidden)) as store:
        assert store.read_only
        assert store.status().pairs["waiting"] == 1
        with pytest.raises(
            StoreUnavailableError, match=r"s\.db: the file of the store and its folder must be writable"
        ):
            ingest(store, [pair("un chat", "a cat", "0-0 1-1")])
    assert forbidden.read_bytes() == before
    assert sorted(forbidden.parent.iterdir()) == [forbidden]
