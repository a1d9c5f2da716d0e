"""Only complete files and versions appear, even if the writing process is killed."""

import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.storage.building import commit, delta, export_rows

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports import publication
from hierogram.daemon.exports.exporting import export, publish
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.publication import (
    Versions,
    list_versions,
    lock_versions,
    prune_versions,
    publish_files,
    publish_folder,
    version_name,
    working_folder,
)
from hierogram.daemon.files import atomic_write
from hierogram.storage.store import Store, open_store

EXPORTER = """
import sys
from pathlib import Path
from hierogram.daemon.exports.exporting import export, publish
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.publication import Versions
from hierogram.storage.store import open_store
store, folder = open_store(sys.argv[1]), Path(sys.argv[2])
options = ExportOptions(format="moses", current_sample=True)
print("ready", flush=True)
while True:
    publish(store, Versions(folder / "versions", "news", 2), options)
    export(store, folder / "file" / "g.gz", options)
    print("done", flush=True)
"""


def test_new_version_sorts_last_even_if_the_clock_is_set_back(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    made = []
    for wait in (0, 0, 0, -3600, 1):
        name = version_name(tmp_path, "news", moment + timedelta(seconds=wait))
        (tmp_path / name).mkdir()
        made.append(name)
        if len(made) == 3:
            (tmp_path / made[0]).rmdir()
    noon = "news-20260301T120000Z"
    assert made == [noon, *(f"{noon}-{n}" for n in (2, 3, 4)), "news-20260301T120001Z"]
    assert [path.name for path in list_versions(tmp_path, "news")] == made[1:]


def test_files_are_on_the_disk_before_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, list[str]]] = []

    def sync(path: Path) -> None:
        synced.append((path.name, sorted(file.name for file in (tmp_path / "final").iterdir())))

    monkeypatch.setattr(publication, "flush_to_disk", sync)
    (tmp_path / "final").mkdir()
    files = []
    for name in ("a", "b"):
        (tmp_path / f"new-{name}").write_text(name)
        files.append((tmp_path / f"new-{name}", tmp_path / "final" / name))
    publish_files(files)
    assert synced == [("new-a", []), ("new-b", []), ("final", ["a", "b"])]


def test_a_file_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    with pytest.raises(KeyboardInterrupt):
        interrupt(path)
    assert path.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(path.read_bytes)
        with atomic_write(path) as file:
            file.write(b"whole")
        assert read.result(timeout=30) == b"whole"
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.database("sqlite")
def test_an_export_does_not_replace_a_device(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "grammar.cdec"
    path.symlink_to("/dev/null")
    with pytest.raises(ExportError, match="is a device or a pipe"):
        export(store, path)
    assert path.is_char_device()
    assert list(folder.iterdir()) == [path]


def interrupt(path: Path) -> None:
    with atomic_write(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def check_complete(folder: Path) -> int:
    """Check that every visible file is complete, and return the number of versions."""
    seen = [path for path in (folder / "versions").iterdir() if not path.name.startswith(".")]
    found = [path for path in seen if path.name != "latest"]
    for version in found:
        manifest = json.loads((version / "manifest.json").read_text())
        for file in ({"name": manifest["file"], **manifest}, *manifest["extra_files"]):
            content = (version / file["name"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file["sha256"]
            if file["name"].endswith(".gz"):
                gzip.decompress(content)
    latest = folder / "versions" / "latest"
    if latest.is_symlink():
        assert (latest / "manifest.json").exists()
    for path in (folder / "file").iterdir():
        if path.name == "g.gz":
            assert gzip.decompress(path.read_bytes()).endswith(b" ||| |||\n")
        elif path.name == "g.gz.json":
            assert json.loads(path.read_text())["rules"]
        else:
            assert path.name in ("g.glue.gz", "g.ini") or path.name.startswith(".")
    return len(found)


@contextmanager
def exporter(url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that exports repeatedly, and kill it at the end."""
    process = subprocess.Popen([sys.executable, "-c", EXPORTER, url, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def kill_again_and_again(folder: Path, times: int, seed: int) -> None:
    url = f"sqlite:///{folder}/store.db"
    with open_store(url, create=True) as store:
        commit(store, [], [delta(f"s{n}", f"t{n % 50}", 1 + n % 7) for n in range(2_000)])
    (folder / "file").mkdir()
    (folder / "versions").mkdir()
    # The first round measures the duration of both exports. Later rounds are killed after a random time of that order.
    with exporter(url, folder) as process:
        started = time.monotonic()
        assert process.stdout.readline() == b"done\n"
        length = time.monotonic() - started
    left = set(folder.rglob(".*.tmp"))
    draw = random.Random(seed)
    interrupted = 0
    for _ in range(times):
        with exporter(url, folder) as process:
            time.sleep(draw.uniform(0.0, 1.1 * length))
        found = set(folder.rglob(".*.tmp"))
        interrupted += bool(found - left)
        left = found
        check_complete(folder)
    assert interrupted > times // 2
    with open_store(url) as store:
        chosen = ExportOptions(format="moses", current_sample=True)
        made = publish(store, Versions(folder / "versions", "news", 2), chosen)
        assert check_complete(folder) <= 3
        assert (folder / "versions" / "latest").resolve() == made.folder
        for hidden in (folder / "versions").glob(".news.*.tmp"):
            # Hidden folders that remain are deleted versions, which have no lock. They are removed after a minute.
            assert not (hidden / "lock").exists()
        assert {row.state for row in export_rows(store)} <= {"done", "running"}
        store.close_abandoned_exports()
        assert {row.state for row in export_rows(store)} <= {"done", "failed"}


@pytest.mark.slow
def test_killing_the_exporter_leaves_no_incomplete_file_or_version(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 5, 1)


@pytest.mark.campaign
@pytest.mark.timeout(14_400)
def test_killing_the_exporter_many_times_leaves_no_incomplete_file_or_version(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 200, 2)


def test_only_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    with working_folder(tmp_path, "news") as living:
        dead = tmp_path / ".news.dead.tmp"
        dead.mkdir()
        (dead / "lock").touch()
        fresh = tmp_path / ".news.fresh.tmp"
        fresh.mkdir()
        old = tmp_path / ".news.old.tmp"
        old.mkdir()
        os.utime(old, (0, 0))
        other = tmp_path / ".new[s].dead.tmp"
        other.mkdir()
        with working_folder(tmp_path, "news"):
            assert living.exists()
            assert fresh.exists()
            assert other.exists()
            assert not dead.exists()
            assert not old.exists()
    assert not living.exists()


def test_each_export_name_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with lock_versions(tmp_path, "a"), lock_versions(tmp_path, "b"), pytest.raises(ExportError, match="another export"):
        lock_versions(tmp_path, "a").__enter__()
    with lock_versions(tmp_path, "a"):
        pass


def make_version(folder: Path, name: str) -> Path:
    written = folder / "written"
    written.mkdir()
    (written / "x").write_text("x")
    publish_folder(written, folder / name)
    return folder / name


def test_versions_expire_by_number_and_age(tmp_path: Path) -> None:
    names = ["news-20260101T000000Z", "news-20260102T000000Z", "news-20260102T000000Z-2", "news-20260103T000000Z"]
    made = [make_version(tmp_path, name) for name in names]
    other = make_version(tmp_path, "news-old-20260101T000000Z")
    make_version(tmp_path, "news-20260104T000000Z")
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").symlink_to(names[0])
    assert [path.name for path in list_versions(tmp_path, "news")] == [*names, "news-20260104T000000Z"]
    now = datetime(2026, 1, 4, 12, tzinfo=UTC)
    gone = prune_versions(Versions(tmp_path, "news", 3, timedelta(days=2)), now)
    # The oldest version has expired, but `latest` points to it.
    assert set(gone) == {made[1], made[2]}
    assert made[0].exists()
    assert other.exists()
    assert prune_versions(Versions(tmp_path, "news"), now) == []
