"""The demo's data are valid, and its command runs on a few verses."""

import shlex
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

from hierogram.tools.demo import data as demo_data
from hierogram.tools.demo.data import VersePair, read_verses

VERSES = [
    VersePair(
        "JHN 1:1",
        ["ἐν", "ἀρχῇ", "ἦν", "ὁ", "λόγος"],
        ["in", "the", "beginning", "was", "the", "word"],
        [(0, 0), (1, 1), (1, 2), (2, 3), (3, 4), (4, 5)],
    ),
    VersePair(
        "JHN 1:2",
        ["οὗτος", "ἦν", "ἐν", "ἀρχῇ", "πρός", "τόν", "θεόν"],
        ["he", "was", "with", "god", "in", "the", "beginning"],
        [(0, 0), (1, 1), (2, 4), (3, 5), (3, 6), (4, 2), (6, 3)],
    ),
    VersePair(
        "JHN 1:3",
        ["καί", "θεός", "ἦν", "ὁ", "λόγος"],
        ["and", "the", "word", "was", "god"],
        [(0, 0), (1, 4), (2, 3), (3, 1), (4, 2)],
    ),
]


@pytest.fixture
def few_verses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_data, "read_verses", lambda: iter(VERSES))


def test_the_demo_data_are_verses_with_valid_links() -> None:
    verses = list(read_verses())
    assert len({verse.name for verse in verses}) == len(verses) == 7_936
    assert sum(len(verse.links) for verse in verses) == 189_473
    for verse in verses:
        assert all(0 <= i < len(verse.source) and 0 <= j < len(verse.target) for i, j in verse.links)
    found = next(verse for verse in verses if verse.name == "JHN 1:1")
    assert found.source[:5] == ["ἐν", "ἀρχῇ", "ἦν", "ὁ", "λόγος"]
    assert found.target[:6] == ["in", "the", "beginning", "was", "the", "word"]


@pytest.mark.slow
@pytest.mark.usefixtures("few_verses")
def test_the_demo_learns_exports_and_can_be_repeated(hierogram: Run, tmp_path: Path) -> None:
    ran = hierogram("demo", "--sweeps", "2")
    assert ran.code == 0
    assert "3 pairs of verses in sqlite:///hierogram-demo.db, with 18 manual links" in ran.out
    assert "log-likelihood" in ran.out
    assert (tmp_path / "hierogram-demo.cdec.gz.json").exists()
    command = next(line for line in ran.out.splitlines() if line.startswith("  hierogram sql "))
    _, *arguments = shlex.split(command)
    found = hierogram(*arguments)
    assert (found.code, found.out.splitlines()[0]) == (0, "source\ttarget\tuses\tp")
    assert hierogram("--store", "hierogram-demo.db", "verify").code == 0
    again = hierogram("demo", "--sweeps", "2")
    assert (again.code, "(3 duplicates)" in again.out) == (0, True)


@pytest.mark.usefixtures("few_verses")
def test_the_demo_with_align_ignores_manual_links_and_uses_a_separate_store(hierogram: Run) -> None:
    ran = hierogram("demo", "--align", "--sweeps", "1")
    assert ran.code == 0
    assert "3 pairs of verses in sqlite:///hierogram-demo-align.db, ignoring 18 manual links" in ran.out
    assert "3 pairs aligned in" in ran.out
    assert "compared with the manual links: AER 0." in ran.out
    assert hierogram("--store", "hierogram-demo-align.db", "verify").code == 0


@pytest.mark.usefixtures("few_verses")
def test_the_demo_does_not_use_the_store_of_the_environment(
    hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIEROGRAM_STORE", "sqlite:///mine.db")
    assert hierogram("demo", "--sweeps", "0").code == 0
    assert hierogram("--store", "named.db", "demo", "--sweeps", "0").code == 0
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["hierogram-demo.db", "named.db"]
