"""Users of a spool replace files and folders by links while the daemon uses them: nothing outside is touched."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.serving.spool_loop import ScanLimit, nothing, read, run

from hierogram.daemon.exceptions import InputError, SpoolError
from hierogram.daemon.files import create_within, folder_within, open_within
from hierogram.daemon.serving import spool as spooling
from hierogram.daemon.serving.spool import SpoolInput, find_inputs, move_input
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.text.reading import STORE_DEFAULTS
from hierogram.daemon.text.treebanks.reading import TreebankFile, open_treebank
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("sqlite")

SECRET = b"mot secret ||| secret word ||| 0-1 1-0\n"
GOOD = b"la maison ||| the house ||| 0-0 1-1\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "x.bars").write_bytes(SECRET)
    return folder


def swap(path: Path, target: Path) -> None:
    """Replace a file or folder by a link that is renamed to its path."""
    link = path.with_name(".link")
    link.symlink_to(target)
    if path.is_dir():
        path.rename(path.with_name(".away"))
    link.replace(path)


def swap_file(spool: Path, outside: Path) -> None:
    swap(spool / "news" / "x.bars", outside / "x.bars")


def swap_folder(spool: Path, outside: Path) -> None:
    swap(spool / "news", outside)


def swap_for_a_pipe(spool: Path, _outside: Path) -> None:
    pipe = spool / ".pipe"
    os.mkfifo(pipe)
    pipe.replace(spool / "news" / "x.bars")


def swap_for_a_hidden_link(spool: Path, outside: Path) -> None:
    (spool / "news" / "x.bars").unlink()
    (spool / "news" / "x.bars").symlink_to(os.path.relpath(outside / "x.bars", spool / "news"))


@pytest.mark.parametrize("swapped", [swap_file, swap_folder, swap_for_a_pipe, swap_for_a_hidden_link])
def test_a_file_that_is_replaced_between_scan_and_reading_is_not_read(
    spool: Path, outside: Path, store: Store, monkeypatch: pytest.MonkeyPatch, swapped: Callable[[Path, Path], None]
) -> None:
    (spool / "news").mkdir()
    (spool / "news" / "x.bars").write_bytes(GOOD)
    kept = spooling.store_input

    def ingest(*given: object, **named: object) -> object:
        swapped(spool, outside)
        return kept(*given, **named)

    monkeypatch.setattr(spooling, "store_input", ingest)
    [offer] = find_inputs(spool)[0]
    with pytest.raises(InputError, match=r"x\.bars: cannot be opened"):
        read(store, offer)
    assert store.count_pairs() == store.status().rejected_lines == 0
    assert (outside / "x.bars").read_bytes() == SECRET


@pytest.mark.parametrize("part", ["x.source", "x.target", "x.alignment"])
def test_no_part_of_an_input_is_read_through_a_symbolic_link(spool: Path, outside: Path, part: str) -> None:
    for name, text in (("x.source", "la\n"), ("x.target", "the\n"), ("x.alignment", "0-0\n")):
        (spool / name).write_text(text)
    (outside / "x.bars").write_text((spool / part).read_text())
    swap(spool / part, outside / "x.bars")
    paths = [str(spool / name) for name in ("x.source", "x.target", "x.alignment")]
    with pytest.raises(InputError, match=f"{part}: cannot be opened: not a regular file"):
        PairFiles(paths, untrusted_folder=str(spool))
    with PairFiles(paths) as opened:
        # Without `within`, links are followed.
        assert opened.format == "parallel"


def test_a_treebank_is_not_read_through_a_symbolic_link(spool: Path, outside: Path) -> None:
    (spool / "x").symlink_to(outside / "x.bars")
    treebank = TreebankFile(str(spool / "x"), untrusted_folder=str(spool))
    with pytest.raises(InputError, match="x: cannot be opened: not a regular file"), open_treebank(treebank):
        pass


def test_treebank_replaced_between_scan_and_reading_is_not_read(
    store_url: str, spool: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (outside / "x.bars").write_text("(S (NP secret) (VP word))\n")
    (spool / "x").write_text("(S (NP a) (VP b))\n")
    kept = spooling.read_trees_in_sandbox

    def ingest(*given: object, **named: object) -> object:
        swap(spool / "x", outside / "x.bars")
        return kept(*given, **named)

    monkeypatch.setattr(spooling, "read_trees_in_sandbox", ingest)
    with open_store(store_url, create=True, settings=Settings(grammar="trees")) as store:
        with pytest.raises(InputError, match="cannot be opened"):
            read(store, find_inputs(spool)[0][0])
        assert store.count_pairs() == 0


def test_dash_in_a_spool_names_a_file_and_not_standard_input(spool: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        PairFiles(["-"], untrusted_folder=str(spool))


@pytest.mark.parametrize("reason", [None, "it is bad"])
def test_nothing_outside_is_moved_if_the_folder_of_a_file_is_replaced(
    spool: Path, outside: Path, reason: str | None
) -> None:
    (spool / "news").mkdir()
    (spool / "news" / "x.bars").write_bytes(GOOD)
    [offer] = find_inputs(spool)[0]
    swap_folder(spool, outside)
    with pytest.raises(spooling.FileMoveError, match=r"x\.bars cannot be moved"):
        move_input(offer, reason)
    assert (outside / "x.bars").read_bytes() == SECRET


@pytest.mark.parametrize("inner", [True, False])
def test_nothing_is_moved_or_written_outside_when_a_target_folder_is_replaced(
    spool: Path, outside: Path, inner: bool
) -> None:
    (spool / "news").mkdir()
    (spool / "news" / "y.bars").write_bytes(GOOD)
    if inner:
        (spool / "failed" / "news").symlink_to(outside)
    else:
        swap(spool / "failed", outside)
    offer = next(offer for offer in find_inputs(spool)[0] if offer.name == "y.bars")
    if inner:
        # The link already has the name, so the folder gets a number.
        assert move_input(offer, "it is bad") == f"{spool}/failed/news.1/y.bars"
    else:
        with pytest.raises(SpoolError, match="failed cannot be written"):
            move_input(offer, "it is bad")
    assert sorted(os.listdir(outside)) == ["x.bars"]


def test_a_reason_is_never_written_through_a_symbolic_link(spool: Path, outside: Path) -> None:
    (spool / "failed" / "a.reason").symlink_to(outside / "x.bars")
    with folder_within(spool, "failed") as folder, pytest.raises(FileExistsError):
        create_within(folder, "a.reason", b"why")
    (spool / "a").write_bytes(GOOD)
    assert move_input(SpoolInput(spool, None, (spool / "a",)), "why") == f"{spool}/failed/a.1"
    assert (outside / "x.bars").read_bytes() == SECRET


@pytest.mark.parametrize("name", ["done", "failed"])
def test_done_and_failed_may_not_be_symbolic_links(spool: Path, outside: Path, store: Store, name: str) -> None:
    (spool / name).rmdir()
    (spool / name).symlink_to(outside)
    with pytest.raises(SpoolError, match=f"{name} must be a folder, not a symbolic link"):
        run(store, ScanLimit(nothing), folder=spool)


def test_the_spool_itself_may_be_a_symbolic_link(tmp_path: Path, spool: Path, store: Store) -> None:
    """The owner of the spool names it in the configuration, but other users may create links in it."""
    (tmp_path / "incoming").symlink_to(spool)
    (spool / "a.bars").write_bytes(GOOD)
    log, _ = run(store, ScanLimit(nothing), folder=tmp_path / "incoming")
    assert [entry["event"] for entry in log] == ["file ingested"]


def test_paths_outside_a_folder_are_not_opened(spool: Path, outside: Path) -> None:
    for path in (spool / ".." / "outside" / "x.bars", outside / "x.bars"):
        with pytest.raises(OSError, match="not below"):
            open_within(spool, path)


@pytest.mark.slow
def test_a_constantly_swapped_file_is_never_read_outside_the_spool(spool: Path, outside: Path) -> None:
    path, done = spool / "x.bars", threading.Event()

    def go() -> None:
        while not done.is_set():
            (spool / ".good").write_bytes(GOOD)
            (spool / ".good").replace(path)
            swap(path, outside / "x.bars")

    swapping = threading.Thread(target=go)
    swapping.start()
    opened = refused = 0
    try:
        while opened < 200 or refused < 200:
            try:
                with open_within(spool, path) as file:
                    assert file.read() == GOOD
                opened += 1
            except OSError:
                refused += 1
    finally:
        done.set()
        swapping.join()


def test_the_default_options_restrict_files_to_no_folder() -> None:
    assert STORE_DEFAULTS.untrusted_folder is None
