"""Read-only commands work on a store whose file and folder are not writable."""

import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.daemon.conftest import Run
from tests.storage.building import query

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.web.application import build_browser
from hierogram.storage.browsing.reader import Reader


@pytest.fixture
def unwritable_file(learned_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File of a learned store that appears not to be writable."""
    # Make the index of pairs by rule out of date, as a sweep of the daemon does.
    query(learned_url, "DELETE FROM indexed_pairs")
    path = Path(learned_url.removeprefix("sqlite:///"))
    access = os.access

    def may(entry: str | Path, mode: int, **options: bool) -> bool:
        # Only the check of access fails: the folder stays writable, because the test exports to it.
        return access(entry, mode, **options) and not (mode == os.W_OK and str(entry) in (str(path), str(path.parent)))

    monkeypatch.setattr(os, "access", may)
    return path


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_on_a_read_only_store_reading_commands_work_and_writing_commands_fail(
    hierogram: Run, unwritable_file: Path, tmp_path: Path
) -> None:
    before = unwritable_file.read_bytes()
    chosen = ("--store", str(unwritable_file))
    (tmp_path / "in").write_text("la maison\n")
    (tmp_path / "a").write_text("un chat ||| a cat ||| 0-0 1-1\n")
    assert "9 (0 unaligned" in hierogram(*chosen, "status").out
    assert "maison" in hierogram(*chosen, "rules", "maison").out
    assert set(hierogram(*chosen, "translate", "in").out.split()) == {"the", "house"}
    exported = hierogram(*chosen, "export", "-o", "grammar.cdec.gz")
    assert exported.code == 0, exported.err
    assert (tmp_path / "grammar.cdec.gz").exists()
    output = hierogram(*chosen, "rules", "--pairs", "la maison ||| the house").err
    assert "read-only: omitting 9 unindexed pairs" in output
    for writing in (("ingest", "a"), ("learn", "--sweeps", "1"), ("withdraw", "1")):
        ran = hierogram(*chosen, *writing)
        assert ran.code == 3
        assert "the file of the store and its folder must be writable" in ran.err
    assert unwritable_file.read_bytes() == before
    assert not list(unwritable_file.parent.glob(f"{unwritable_file.name}-*"))


@pytest.mark.database("sqlite")
def test_the_pages_of_a_read_only_store_are_shown(unwritable_file: Path) -> None:
    with Reader(str(unwritable_file)) as reader, TestClient(build_browser(reader, HttpConfiguration())) as client:
        for page in ("/", "/search?q=maison", "/now", "/pairs/1"):
            answer = client.get(page, headers={"Accept": "text/html", "Host": "127.0.0.1"})
            assert answer.status_code == 200, page
    assert not list(unwritable_file.parent.glob(f"{unwritable_file.name}-*"))
