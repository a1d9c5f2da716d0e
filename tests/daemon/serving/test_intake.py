"""The loop that takes in what lies in the spool: what waits is told, what cannot be is set apart."""

import threading
from pathlib import Path

import pytest
from tests.daemon.serving.looks import Looks, nothing, run

from hierogram.daemon.exceptions import SpoolError
from hierogram.storage.records import Settings
from hierogram.storage.store import Store, open_store


def test_files_that_wait_for_others_are_told_once(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "b.source").write_text("la\n")
    (folder / "b.target").write_text("the\n")
    told = "b.source and b.target: waiting for b.alignment"
    log, board = run(store, Looks(nothing, nothing, nothing), folder=folder)
    [entry] = log
    assert (entry["event"], entry["files"], entry["reason"]) == (
        "files wait for others",
        ["b.source", "b.target"],
        told,
    )
    assert (board.spool.waiting, board.spool.incomplete) == (2, (told,))
    log, board = run(store, Looks(nothing, lambda: (folder / "b.unaligned").touch(), nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["files wait for others", "file taken in"]
    assert (board.spool.waiting, board.spool.incomplete, board.spool.done) == (0, (), 1)
    assert store.count_pairs(["unaligned"]) == 1


def test_files_come_one_after_the_other_without_a_word(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "b.source").write_text("la\n")
    parts = [lambda: (folder / "b.target").write_text("the\n"), lambda: (folder / "b.alignment").write_text("0-0\n")]
    log, _ = run(store, Looks(*parts, nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["file taken in"]


def test_source_and_target_are_taken_after_the_configured_time(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "b.source").write_text("la\n")
    (folder / "b.target").write_text("the\n")
    ripe = threading.Event()
    run(store, Looks(lambda: ripe.wait(0.05), nothing), folder=folder, unaligned_after=0.02)
    assert store.count_pairs(["unaligned"]) == 1


def test_an_empty_alignment_goes_to_failed_with_its_three(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    for name, content in (("source", "la\n" * 1_000), ("target", "the\n" * 1_000), ("alignment", "")):
        (folder / f"b.{name}").write_text(content)
    log, board = run(store, Looks(nothing), folder=folder)
    assert [entry["event"] for entry in log] == ["file set apart"]
    assert board.spool.failed == 1
    assert {path.name for path in (folder / "failed").iterdir()} == {
        name + more for name in ("b.source", "b.target", "b.alignment") for more in ("", ".reason")
    }
    assert "b.alignment: empty, while" in (folder / "failed" / "b.source.reason").read_text()
    assert store.count_pairs() == store.status().rejected == 0


def test_the_spool_tokenises_by_the_languages_of_the_store(store_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "a.tsv").write_text("L'eau.\tThe water.\n")
    (folder / "b.en").write_text("")
    with open_store(store_url, create=True, settings=Settings(languages=("fr", "en"))) as store:
        run(store, Looks(nothing), folder=folder, tokenize=True)
        assert [(row.source, row.target) for row in store.pairs()] == [("L' eau .", "The water .")]
        with pytest.raises(SpoolError, match="languages en,fr: the store is of fr,en"):
            run(store, Looks(), folder=folder, languages="en,fr")


def test_a_spool_that_cannot_tokenise_ends_the_start(store: Store, tmp_path: Path) -> None:
    for section, said in (
        ({"tokenize": True}, "tokenize needs languages"),
        ({"tokenize": True, "languages": "xx,en"}, "there are no rules for 'xx'"),
        ({"languages": "fr"}, "name two languages"),
    ):
        with pytest.raises(SpoolError, match=said):
            run(store, Looks(), folder=tmp_path / "spool", **section)
