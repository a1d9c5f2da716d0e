"""The spool: selection and order of files, and the folders to which they are moved."""

import gzip
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES
from tests.daemon.serving.spool_loop import ScanLimit, nothing, read, run
from tests.daemon.text.memories import HEAD, TAIL, unit
from tests.storage.building import integrity, query

from hierogram.daemon.exceptions import InputError, SpoolError
from hierogram.daemon.serving import spool as spool_module
from hierogram.daemon.serving.spool import (
    FileMoveError,
    SpoolInput,
    StoppedError,
    create_spool,
    find_inputs,
    move_input,
)
from hierogram.daemon.text.reading import IngestOptions
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("sqlite")

TEXT = "".join(line + "\n" for line in LINES)


def put(path: Path, text: str = TEXT, *, changed: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (changed, changed))
    return path


def names(folder: Path) -> list[tuple[str, str | None]]:
    return [(offer.name, offer.corpus) for offer in find_inputs(folder)[0]]


def test_complete_files_are_taken_oldest_first(spool: Path) -> None:
    put(spool / "b.bars", changed=1)
    put(spool / "a.jsonl.gz", changed=3)
    put(spool / "news" / "c", changed=2)
    put(spool / "written.bars.part")
    put(spool / ".hidden")
    put(spool / "done" / "x.bars")
    put(spool / "failed" / "x.bars")
    put(spool / ".moving" / "x.bars")
    (spool / "news" / "deeper").mkdir()
    assert names(spool) == [("b.bars", None), ("c", "news"), ("a.jsonl.gz", None)]


def test_three_files_are_one_input_once_all_have_arrived(spool: Path) -> None:
    put(spool / "x.source", changed=1)
    put(spool / "x.target.zst", changed=9)
    put(spool / "y.v2.alignment", changed=1)
    found, incomplete = find_inputs(spool)
    assert found == []
    assert [str(files) for files in incomplete] == [
        "x.source and x.target.zst: waiting for x.alignment",
        "y.v2.alignment: waiting for y.v2.source and y.v2.target",
    ]
    put(spool / "x.alignment.gz", changed=2)
    put(spool / "z.bars", changed=5)
    found, incomplete = find_inputs(spool)
    assert [offer.name for offer in found] == ["z.bars", "x.source + x.target.zst + x.alignment.gz"]
    assert [files.files for files in incomplete] == [("y.v2.alignment",)]
    put(spool / "y.v2.source.bz2", changed=6)
    put(spool / "y.v2.target.xz", changed=6)
    found, incomplete = find_inputs(spool)
    assert [offer.name for offer in found][-1] == "x.source + x.target.zst + x.alignment.gz"
    assert "y.v2.source.bz2 + y.v2.target.xz + y.v2.alignment" in [offer.name for offer in found]


@pytest.mark.database("sqlite")
def test_notes_on_a_file_are_logged(store: Store, spool: Path) -> None:
    put(spool / "a.pipes", "l &apos; ami ||| the friend\n")
    log, _ = run(store, ScanLimit(nothing), folder=spool)
    [note] = [line for line in log if line["event"] == "note on file"]
    assert (note["file"], note["note"], note["log_level"]) == ("a.pipes", "escaped", "warning")


@pytest.mark.database("sqlite", "postgres")
def test_an_ingested_file_is_stored_in_its_corpus_and_moved_to_done(spool: Path, store: Store) -> None:
    for name, column in zip(
        ("x.source", "x.target", "x.alignment"), zip(*(line.split(" ||| ") for line in LINES), strict=True), strict=True
    ):
        put(spool / "law" / name, "".join(text + "\n" for text in column))
    (spool / "done" / "law").mkdir()
    put(spool / "done" / "law" / "x.target")
    [offer] = find_inputs(spool)[0]
    report = read(store, offer)
    assert (report.corpus, report.totals.accepted) == ("law", 9)
    move_input(offer)
    assert find_inputs(spool) == ([], [])
    assert sorted(path.name for path in (spool / "done" / "law").iterdir()) == [
        "x.alignment",
        "x.source",
        "x.target",
        "x.target.1",
    ]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b"\x1f\x8b\x08 broken"), "truncated gzip data|gzip data cannot be decompressed"),
        (lambda path: path.write_bytes(b"what is this"), "expected JSON"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/etc/hostname"), "not a regular file"),
    ],
    ids=["damaged", "no format", "fifo", "link"],
)
def test_an_unreadable_file_is_moved_aside_with_the_reason(
    spool: Path, store: Store, make: object, reason: str
) -> None:
    assert callable(make)
    make(spool / "bad.gz")
    [offer] = find_inputs(spool)[0]
    with pytest.raises(InputError, match=reason) as raised:
        read(store, offer)
    move_input(offer, str(raised.value))
    assert find_inputs(spool) == ([], [])
    assert (spool / "failed" / "bad.gz.reason").read_text() == f"{raised.value}\n"
    assert os.path.lexists(spool / "failed" / "bad.gz")
    assert store.count_pairs() == 0


def test_interrupted_file_is_read_again_without_storing_pairs_twice(spool: Path, store: Store) -> None:
    put(spool / "x.bars")
    [offer] = find_inputs(spool)[0]

    def stop() -> None:
        if store.count_pairs():
            raise StoppedError

    with pytest.raises(StoppedError):
        read(store, offer, stop)
    assert read(store, offer).totals.duplicates == 9
    assert store.count_pairs() == 9
    assert integrity(store) == []


def test_an_unusable_folder_is_reported(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match=r"file(/done)? cannot be created"):
        create_spool(tmp_path / "file")
    with pytest.raises(SpoolError, match="cannot be read"):
        find_inputs(tmp_path / "nowhere")
    (spool / "done").rmdir()
    (spool / "done").write_text("")
    with pytest.raises(SpoolError, match=r"x\.bars cannot be moved to .*: .*done cannot be written: Not a dir"):
        move_input(SpoolInput(spool, None, (put(spool / "x.bars"),)))


def test_source_and_target_are_taken_without_an_alignment_if_marked(spool: Path, store: Store) -> None:
    put(spool / "x.source", "la maison\nun chat\n")
    put(spool / "x.target", "the house\na cat\n")
    put(spool / "y.unaligned", "")
    assert [str(files) for files in find_inputs(spool)[1]] == [
        "x.source and x.target: waiting for x.alignment",
        "y.unaligned: waiting for y.source and y.target and y.alignment",
    ]
    put(spool / "x.unaligned", "")
    [offer] = find_inputs(spool)[0]
    assert offer.name == "x.source + x.target"
    assert read(store, offer).totals.accepted == 2
    assert store.count_pairs(["unaligned"]) == 2
    move_input(offer)
    assert sorted(path.name for path in (spool / "done").iterdir()) == ["x.source", "x.target", "x.unaligned"]
    assert len(find_inputs(spool)[1]) == 1


def test_source_and_target_are_taken_without_an_alignment_after_a_timeout(spool: Path) -> None:
    put(spool / "x.source")
    put(spool / "x.target")
    assert find_inputs(spool, unaligned_after=3600)[0] == []
    os.utime(spool / "x.target")
    time.sleep(0.02)
    assert [offer.name for offer in find_inputs(spool, unaligned_after=0.01)[0]] == ["x.source + x.target"]
    put(spool / "x.alignment")
    [offer] = find_inputs(spool, unaligned_after=0.01)[0]
    assert len(offer.paths) == 3


def test_files_dated_far_in_the_future_do_not_wait(spool: Path) -> None:
    put(spool / "x.source", changed=int(time.time()) + 100_000_000)
    put(spool / "x.target")
    assert find_inputs(spool, unaligned_after=3600)[0] != []
    put(spool / "x.source", changed=int(time.time()) + 10)
    assert find_inputs(spool, unaligned_after=3600)[0] == []


@pytest.mark.parametrize("lines", [3, 1_000])
def test_an_empty_alignment_file_beside_nonempty_sides_is_refused(spool: Path, store: Store, lines: int) -> None:
    put(spool / "x.source", "la maison\n" * lines)
    put(spool / "x.target", "the house\n" * lines)
    put(spool / "x.alignment", "")
    [offer] = find_inputs(spool)[0]
    with pytest.raises(InputError, match=r"x\.alignment: empty, but .*x\.source is not"):
        read(store, offer)
    assert store.status().rejected_lines == store.count_pairs() == 0


@pytest.mark.slow
def test_tables_and_translation_memories_use_the_languages_of_the_spool(spool: Path, store: Store) -> None:
    put(spool / "a.tsv", "L'eau.\tThe water.\n", changed=1)
    put(spool / "b.tmx", HEAD + unit(("en", "A cat."), ("fr", "Un chat.")) + TAIL, changed=2)
    for offer in find_inputs(spool)[0]:
        read(store, offer, options=IngestOptions(("fr", "en")))
    assert [(row.source, row.target) for row in store.pairs()] == [
        ("L' eau .", "The water ."),
        ("Un chat .", "A cat ."),
    ]


def test_waiting_files_are_reported_once(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "b.source").write_text("la\n")
    (folder / "b.target").write_text("the\n")
    message = "b.source and b.target: waiting for b.alignment"
    log, health = run(store, ScanLimit(nothing, nothing, nothing), folder=folder)
    [entry] = log
    assert (entry["event"], entry["files"], entry["reason"]) == (
        "files are waiting",
        ["b.source", "b.target"],
        message,
    )
    assert (health.spool.waiting, health.spool.incomplete) == (2, (message,))
    log, health = run(store, ScanLimit(nothing, lambda: (folder / "b.unaligned").touch(), nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["files are waiting", "file ingested"]
    assert (health.spool.waiting, health.spool.incomplete, health.spool.done) == (0, (), 1)
    assert store.count_pairs(["unaligned"]) == 1


@pytest.mark.parametrize(
    ("name", "content"), [("x.pipes", b""), ("x.jsonl", b"\xef\xbb\xbf"), ("x.pipes.gz", gzip.compress(b"", mtime=0))]
)
def test_a_file_without_lines_gets_a_note(
    store: Store, store_url: str, tmp_path: Path, name: str, content: bytes
) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / name).write_bytes(content)
    log, _ = run(store, ScanLimit(nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["file ingested", "note on file"]
    assert (log[1]["note"], log[1]["reason"]) == ("empty-input", "no lines to store")
    assert query(store_url, "SELECT notes FROM ingest_batches") == [("empty-input: no lines to store",)]


def test_files_that_arrive_one_by_one_are_not_reported(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "b.source").write_text("la\n")
    parts = [lambda: (folder / "b.target").write_text("the\n"), lambda: (folder / "b.alignment").write_text("0-0\n")]
    log, _ = run(store, ScanLimit(*parts, nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["file ingested"]


def test_the_spool_loop_takes_source_and_target_after_the_configured_time(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "b.source").write_text("la\n")
    (folder / "b.target").write_text("the\n")
    ripe = threading.Event()
    run(store, ScanLimit(lambda: ripe.wait(0.05), nothing), folder=folder, unaligned_after=0.02)
    assert store.count_pairs(["unaligned"]) == 1


def test_an_empty_alignment_file_is_moved_to_failed_with_its_source_and_target(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    for name, content in (("source", "la\n" * 1_000), ("target", "the\n" * 1_000), ("alignment", "")):
        (folder / f"b.{name}").write_text(content)
    log, health = run(store, ScanLimit(nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["file failed"]
    assert health.spool.failed == 1
    assert {path.name for path in (folder / "failed").iterdir()} == {
        name + more for name in ("b.source", "b.target", "b.alignment") for more in ("", ".reason")
    }
    assert "b.alignment: empty, but" in (folder / "failed" / "b.source.reason").read_text()
    assert store.count_pairs() == store.status().rejected_lines == 0


@pytest.mark.database("sqlite", "postgres")
def test_a_file_moved_aside_has_a_row_and_an_event(store: Store, store_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    (folder / "law").mkdir(parents=True)
    (folder / "law" / "caf\udce9.gz").write_bytes(b"what is this")
    for ending in ("source", "target", "alignment"):
        (os.mkfifo if ending == "source" else Path.touch)(folder / f"b.{ending}")
    _, health = run(store, ScanLimit(nothing), folder=folder, corpus="news")
    assert health.spool.failed == store.status().failed_files == 2
    rows = query(store_url, "SELECT corpus, file, path, reason FROM failed_files ORDER BY corpus")
    assert [row[:3] for row in rows] == [
        ("law", r"caf\xe9.gz", rf"{folder}/failed/law/caf\xe9.gz"),
        ("news", "b.source + b.target + b.alignment", f"{folder}/failed/b.source"),
    ]
    assert "expected JSON" in str(rows[0][3])
    assert "b.source: not a regular file" in str(rows[1][3])
    events = {(event.detail or {})["corpus"]: event for event in store.events(kinds=["file-failed"]).events}
    for row in rows:
        assert events[str(row[0])].detail == dict(zip(("corpus", "file", "path", "reason"), row, strict=True))


def test_a_file_that_cannot_be_moved_has_no_row_and_no_event(
    store: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "a.gz").write_bytes(b"what is this")

    def stuck(*_: object) -> str:
        raise FileMoveError("a.gz cannot be moved")

    monkeypatch.setattr(spool_module, "move_input", stuck)
    log, _ = run(store, ScanLimit(nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["file cannot be moved"]
    assert query(store_url, "SELECT count(*) FROM failed_files") == [(0,)]
    assert store.events(kinds=["file-failed"]).events == []


def test_the_spool_tokenizes_running_text_by_the_languages_of_the_store(store_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "a.tsv").write_text("L'eau.\tThe water.\n")
    (folder / "b.en").write_text("")
    with open_store(store_url, create=True, settings=Settings(languages=("fr", "en"))) as store:
        log, _ = run(store, ScanLimit(nothing), folder=folder)
        [note] = [line["reason"] for line in log if line.get("note") == "tokenization"]
        assert note == (
            "text is tokenized by the rules of fr and en, because it is running text: 2 of 2 lines have punctuation "
            "attached to words"
        )
        assert [(row.source, row.target) for row in store.pairs()] == [("L' eau .", "The water .")]
        with pytest.raises(SpoolError, match="languages en,fr: the languages of the store are fr,en"):
            run(store, ScanLimit(), folder=folder, languages="en,fr")


def test_one_language_instead_of_two_prevents_the_start(store: Store, tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="expected two languages"):
        run(store, ScanLimit(), folder=tmp_path / "spool", languages="fr")


def test_files_of_running_text_are_refused_if_the_tokenizer_is_missing(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pythainlp", None)
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "a.tsv").write_text("น้ำ.\tThe water.\n")
    (folder / "b.tsv").write_text("น้ำ .\tThe water .\n")
    with open_store(store_url, create=True, settings=Settings(languages=("th", "en"))) as store:
        run(store, ScanLimit(nothing), folder=folder)
        assert [(row.source, row.target) for row in store.pairs()] == [("น้ำ .", "The water .")]
        assert store.settings().tokenize is False
    [(reason,)] = query(store_url, "SELECT reason FROM failed_files")
    assert "tokenizing th requires pythainlp" in str(reason)
    with (
        open_store(
            f"sqlite:///{tmp_path}/tokenizing.db", create=True, settings=Settings(languages=("th", "en"), tokenize=True)
        ) as store,
        pytest.raises(SpoolError, match="requires pythainlp"),
    ):
        run(store, ScanLimit(), folder=folder)
