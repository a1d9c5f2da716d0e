"""Files from untrusted users in the spool: each is ingested or moved aside with the reason, and the loop continues."""

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.daemon.serving.spool_loop import ScanLimit, nothing, run
from tests.daemon.text.memories import HEAD, TAIL, unit

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.files import append_suffix, printable
from hierogram.daemon.serving import spool as spooling
from hierogram.daemon.text.reading import STORE_DEFAULTS, InputHeader, read_in_sandbox
from hierogram.storage.exceptions import StoreRefusedError, WorkerProcessError
from hierogram.storage.records.pairs import RejectedLine
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

pytestmark = pytest.mark.database("sqlite")

GOOD = b"la maison ||| the house ||| 0-0 1-1\n"
BAD = b"what is this\n"


def put(folder: Path, name: bytes, content: bytes) -> Path:
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(folder: Path) -> list[bytes]:
    return sorted(os.listdir(os.fsencode(folder)))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"maison", "maison"),
        ("mäison \u200cها".encode(), "mäison \u200cها"),
        (b"caf\xe9", r"caf\xe9"),
        (b"a\nb\x1b[31m", r"a\nb\x1b[31m"),
        ("a\u2028b".encode(), r"a\u2028b"),
    ],
)
def test_names_are_shown_in_a_form_that_logs_and_stores_accept(name: bytes, shown: str) -> None:
    assert printable(os.fsdecode(name)) == shown
    json.dumps(printable(os.fsdecode(name)), ensure_ascii=False).encode()


@pytest.mark.parametrize("name", [b"x" * 255, b"\xff" * 255, "é".encode() * 127, "語".encode() * 85, b"x" * 249])
def test_names_are_shortened_to_the_limit_of_the_file_system(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / append_suffix(tmp_path, os.fsdecode(name), ".reason")
    path.write_text("why")
    assert path.name.endswith(".reason")
    assert name.startswith(os.fsencode(path.name).rpartition(b"~")[0][:100])
    if name[0] != 0xFF:
        path.name.encode().decode()
    assert append_suffix(tmp_path, "x", ".reason") == "x.reason"
    assert append_suffix(tmp_path, "x" * 254 + "y", ".1") != append_suffix(tmp_path, "x" * 255, ".1")


@pytest.mark.database("sqlite", "postgres")
def test_files_with_any_bytes_in_their_names_are_ingested_or_moved_aside(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    put(folder, b"good\xff.bars", GOOD)
    put(folder, b"bad\xff\n.bars", BAD)
    put(folder, b"n\xe9ws/good", GOOD)
    put(folder, b"n\xe9ws/bad", BAD)
    put(folder, b"lonely\xfe.source", GOOD)
    log, health = run(store, ScanLimit(nothing, nothing), folder=folder)
    assert sorted(entry["event"] for entry in log) == [
        *["file failed"] * 2,
        *["file ingested"] * 2,
        "files are waiting",
    ]
    assert (health.spool.done, health.spool.failed, health.spool.waiting) == (2, 2, 1)
    json.dumps([log, health.spool.incomplete], ensure_ascii=False, default=str).encode()
    assert names(folder / "done") == [b"good\xff.bars", b"n\xe9ws"]
    assert names(folder / "failed") == [b"bad\xff\n.bars", b"bad\xff\n.bars.reason", b"n\xe9ws"]
    assert (folder / "failed" / os.fsdecode(b"bad\xff\n.bars.reason")).read_text()
    assert store.count_pairs() == 2
    assert {entry["corpus"] for entry in log if entry["event"] == "file ingested"} == {"default", r"n\xe9ws"}


@pytest.mark.slow
@pytest.mark.parametrize("length", [249, 250, 255])
def test_files_with_long_names_are_moved_aside_with_their_reason(store: Store, tmp_path: Path, length: int) -> None:
    folder = tmp_path / "spool"
    for turn in range(2):
        put(folder, b"x" * length, BAD)
        put(folder, b"y" * length, GOOD)
        log, _health = run(store, ScanLimit(nothing), folder=folder)
        assert sorted(entry["event"] for entry in log) == ["file failed", "file ingested"], turn
    failed, done = names(folder / "failed"), names(folder / "done")
    assert (len(failed), len(done)) == (4, 2)
    reasons = [name for name in failed if name.endswith(b".reason")]
    assert len(reasons) == 2
    assert all(
        b"expected JSON" in Path(os.fsdecode(folder / "failed" / os.fsdecode(name))).read_bytes() for name in reasons
    )


def test_a_folder_and_a_file_may_have_the_same_name(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    put(folder, b"news", GOOD)
    put(folder, b"old", BAD)
    run(store, ScanLimit(nothing), folder=folder)
    put(folder, b"news/a", GOOD)
    put(folder, b"old/b", BAD)
    log, _ = run(store, ScanLimit(nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["file ingested", "file failed"]
    put(folder, b"news/c", GOOD)
    run(store, ScanLimit(nothing), folder=folder)
    assert names(folder / "done") == [b"news", b"news.1"]
    assert names(folder / "done" / "news.1") == [b"a", b"c"]
    assert names(folder / "failed" / "old.1") == [b"b", b"b.reason"]


class IngestFault:
    """Fault that raises an error in the first `times` calls that ingest a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, error: Exception) -> None:
        self.left = times
        kept = spooling.store_input

        def ingest(*given: object, **named: object) -> object:
            if self.left:
                self.left -= 1
                raise error
            return kept(*given, **named)

        monkeypatch.setattr(spooling, "store_input", ingest)


@pytest.mark.parametrize(
    "error", [WorkerProcessError("no progress"), UnicodeError("odd\udcff"), StoreRefusedError("too big")]
)
def test_file_is_retried_after_one_failure_and_moved_aside_after_two(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    folder = tmp_path / "spool"
    put(folder, b"x\xff", GOOD)
    IngestFault(monkeypatch, 1, error)
    log, health = run(store, ScanLimit(nothing, nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["reading failed, will be retried", "file ingested"]
    put(folder, b"y\xff", GOOD)
    IngestFault(monkeypatch, 2, error)
    log, health = run(store, ScanLimit(nothing, nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["reading failed, will be retried", "file failed"]
    assert (health.spool.done, health.spool.failed) == (0, 1)
    [reason] = [name for name in names(folder / "failed") if name.endswith(b".reason")]
    text = Path(os.fsdecode(os.path.join(os.fsencode(folder / "failed"), reason))).read_text()
    assert text.endswith(f"{printable(str(error))} (2 times)\n")


def test_a_file_that_cannot_be_moved_blocks_no_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "spool"
    put(folder, b"a", GOOD)
    kept = os.rename

    def rename(name: str, target: str, **folders: int) -> None:
        if name == "a":
            raise PermissionError(1, "Operation not permitted")
        kept(name, target, **folders)

    monkeypatch.setattr(os, "rename", rename)
    log, health = run(store, ScanLimit(nothing, lambda: put(folder, b"b", GOOD), nothing, nothing), folder=folder)
    assert [entry["event"] for entry in log if entry["event"] != "files are waiting"] == [
        "file cannot be moved",
        "file ingested",
    ]
    assert health.spool.waiting == 1
    assert re.fullmatch(r"a: a cannot be moved to .*/done: Operation not permitted", health.spool.incomplete[0])
    assert names(folder / "done") == [b"b"]


def test_a_file_that_grows_during_reading_is_moved_aside(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    path = put(folder, b"grows", GOOD * 20_000)
    done = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not done.wait(0.002):
                file.write(GOOD)

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        log, _ = run(store, ScanLimit(nothing), folder=folder)
    finally:
        done.set()
        growing.join()
    [entry] = log
    assert entry["event"] == "file failed"
    assert "while it was read" in entry["reason"]


def documents() -> Iterator[tuple[str, Callable[[], Iterator[bytes]], str]]:
    sound = unit(("fr", "la maison"), ("en", "the house")).encode()
    head, tail = HEAD.encode(), TAIL.encode()

    def many(piece: bytes, times: int, before: bytes = b"", after: bytes = b"") -> Callable[[], Iterator[bytes]]:
        def content() -> Iterator[bytes]:
            yield head + sound + before
            for _ in range(times):
                yield piece
            yield after + tail

        return content

    def names_of_elements() -> Iterator[bytes]:
        yield head
        yield b"".join(b"<e%d/>" % k for k in range(100_000))

    yield "attribute", many(b"x" * 65536, 400, b'<tu id="', b'"></tu>'), "a tag, comment or declaration has more than"
    yield "comment", many(b"<" * 65536, 400, b"<!--", b"-->"), "a tag, comment or declaration has more than"
    yield "depth", many(b"<a>" * 10_000, 10), "elements are nested more than 256 levels deep"
    yield (
        "attributes",
        many(b"", 0, b"<tu " + b" ".join(b'a%d=""' % k for k in range(50_000)) + b">"),
        "names of elements",
    )
    yield "names", names_of_elements, "names of elements"
    yield (
        "unit",
        many(b"<tuv><seg>a</seg></tuv>" * 10_000, 100, b"<tu>", b"</tu>"),
        r"unit 2 has more than 16,777,216 bytes",
    )
    yield "encoding", lambda: iter([b'<?xml version="1.0" encoding="utf-7"?><tmx>']), "encoding|well-formed"


@pytest.mark.slow
@pytest.mark.parametrize(("content", "reason"), [pytest.param(*more, id=name) for name, *more in documents()])
def test_translation_memories_beyond_the_limits_or_in_an_unknown_encoding_are_refused(
    tmp_path: Path, content: Callable[[], Iterator[bytes]], reason: str
) -> None:
    path = tmp_path / "x.tmx"
    with path.open("wb") as file:
        file.writelines(content())
    with pytest.raises(InputError, match=reason):
        list(read_in_sandbox(nothing, [str(path)], Settings(), STORE_DEFAULTS))


def test_only_oversized_units_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x.tmx"
    sound, large = unit(("fr", "la maison"), ("en", "the house")), unit(("fr", "la " * 1_000_000), ("en", "the"))
    path.write_text(HEAD + sound + large + unit(*[("fr", "a")] * 2_000) + sound + TAIL)
    begun, *parts = read_in_sandbox(nothing, [str(path)], Settings(), STORE_DEFAULTS)
    assert isinstance(begun, InputHeader)
    [part] = parts
    assert not isinstance(part, InputHeader)
    assert len(part.pairs) == 2
    [rejected] = part.rejected
    assert isinstance(rejected, RejectedLine)
    assert (rejected.line, rejected.lines, rejected.reason) == (2, 2, "line-too-long")


def test_a_line_longer_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.bars"
    with path.open("wb") as file:
        file.write(GOOD)
        # A sparse file of 1 TiB, which must not be read to its end.
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="a line has more than 268,435,456 bytes"):
        list(read_in_sandbox(nothing, [str(path)], Settings(), STORE_DEFAULTS))
