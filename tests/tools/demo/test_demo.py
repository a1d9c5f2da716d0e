"""The demo, on a tiny package of the same form as the real one."""

import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.files import cache_folder
from hierogram.tools.demo import data as demo_data
from hierogram.tools.demo.data import WHEEL, check, fetch, plain, read_verses, verse_name

GREEK = {
    "43001001": "Ἐν ἀρχῇ ἦν ὁ λόγος",
    "43001002": "οὗτος ἦν ἐν ἀρχῇ πρὸς τὸν θεόν",
    "43001003": "καὶ θεὸς ἦν ὁ λόγος",
    "43001004": "only in Greek",
}
ENGLISH = {
    "43001001": "In the beginning was the Word ,",
    "43001002": "He was with God in the beginning .",
    "43001003": "and the Word was God .",
    "43001005": "only in English",
}
LINKS = {
    "43001001": "0-0 1-1 1-2 2-3 3-4 4-5",
    "43001002": "0-0 1-1 2-4 3-5 3-6 4-2 6-3",
    "43001003": "0-0 1-4 2-3 3-1 4-2",
}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = ["id\taltId\ttext\tstrongs"]
    target = ["id\tsource_verse\ttext\tskip_space_after\texclude\tid_range_end"]
    records = [{"source": ["n43001001001"], "target": ["43001002001"]}]
    for verse, words in GREEK.items():
        source += [f"n{verse}{k:03}\t{word}-1\t{word}\tG1" for k, word in enumerate(words.split(), 1)]
    for verse, words in ENGLISH.items():
        for k, word in enumerate(words.split(), 1):
            target.append(f"{verse}{k:03}\t{verse}\t{word}\t\t{'' if word.isalpha() else 'y'}\t")
    for verse, links in LINKS.items():
        for link in links.split():
            i, j = (int(number) + 1 for number in link.split("-"))
            records.append({"source": [f"n{verse}{i:03}"], "target": [f"{verse}{j:03}"]})
    path = tmp_path / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(demo_data.SOURCE_FILE, "\n".join(source) + "\n")
        archive.writestr(demo_data.TARGET_FILE, "\n".join(target) + "\n")
        archive.writestr(demo_data.ALIGNMENT_FILE, json.dumps({"records": records}))
    monkeypatch.setattr(demo_data, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_verses_are_read_with_the_links_within_them(wheel: Path) -> None:
    verses = {verse.name: verse for verse in read_verses(wheel)}
    assert list(verses) == ["JHN 1:1", "JHN 1:2", "JHN 1:3"]
    assert verses["JHN 1:2"].source == ["οὗτος", "ἦν", "ἐν", "ἀρχῇ", "πρός", "τόν", "θεόν"]
    assert verses["JHN 1:1"].target == ["in", "the", "beginning", "was", "the", "word"]
    for number, links in LINKS.items():
        expected = sorted(tuple(map(int, link.split("-"))) for link in links.split())
        assert verses[verse_name(number)].links == expected


def test_words_are_made_alike() -> None:
    assert plain("Χριστὸς") == plain("χριστός") == "χριστός"
    assert plain("ΛΟΓΟΣ") == "λογος"
    assert plain("ἄνθρωπός") == "ἄνθρωπός"
    assert plain("Uriah’s") == "uriah’s"


@pytest.mark.slow
def test_the_demo_runs_from_a_local_copy(hierogram: Run, wheel: Path, tmp_path: Path) -> None:
    said = hierogram("demo", "--data", str(wheel), "--sweeps", "2")
    assert said.code == 0
    assert "3 pairs of verses in sqlite:///hierogram-demo.db, with 18 links made by hand" in said.out
    assert "log-likelihood" in said.out
    assert (tmp_path / "hierogram-demo.cdec.gz.json").exists()
    assert "sqlite3 -box hierogram-demo.db" in said.out
    assert hierogram("--store", "hierogram-demo.db", "verify").code == 0
    again = hierogram("demo", "--data", str(wheel), "--sweeps", "2")
    assert (again.code, "(3 known already)" in again.out) == (0, True)


def test_the_demo_aligns_for_itself_in_a_store_of_its_own(hierogram: Run, wheel: Path, tmp_path: Path) -> None:
    said = hierogram("demo", "--align", "--data", str(wheel), "--sweeps", "1")
    assert said.code == 0
    assert "3 pairs of verses in sqlite:///hierogram-demo-align.db, without the 18 links made by hand" in said.out
    assert "3 pairs aligned in" in said.out
    assert "against the links made by hand: AER 0." in said.out
    assert hierogram("--store", "hierogram-demo-align.db", "verify").code == 0


def test_the_demo_keeps_out_of_the_store_of_ones_own_work(
    hierogram: Run, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIEROGRAM_STORE", "sqlite:///mine.db")
    assert hierogram("demo", "--data", str(wheel), "--sweeps", "0").code == 0
    assert hierogram("--store", "named.db", "demo", "--data", str(wheel), "--sweeps", "0").code == 0
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["hierogram-demo.db", "named.db"]


def test_another_file_is_not_taken_for_the_data(hierogram: Run, tmp_path: Path) -> None:
    other = tmp_path / WHEEL
    other.write_bytes(b"something else")
    said = hierogram("demo", "--data", str(other))
    assert said.code == 3
    assert "is not the demo's data" in said.err
    assert "its SHA-256 is" in said.err
    assert "leave out --data" in said.err
    assert "delete" not in said.err
    assert list(tmp_path.iterdir()) == [other]
    with pytest.raises(DaemonError, match="cannot be read: No such file"):
        check(tmp_path / "missing.whl")


def test_a_package_of_another_form_is_told(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(demo_data.SOURCE_FILE, "id\ttext\n")
    with pytest.raises(DaemonError, match="is not the demo's data"):
        list(read_verses(wheel))


@pytest.mark.slow
def test_without_a_network_the_demo_says_what_to_do(
    hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIEROGRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    said = hierogram("demo")
    assert said.code == 3
    assert "the demo's data could not be fetched (" in said.err
    assert "--data" in said.err
    assert list((tmp_path / "cache" / "hierogram").iterdir()) == []


def test_what_was_fetched_is_kept_and_checked(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIEROGRAM_CACHE", str(tmp_path / "cache"))
    fetches = []

    def download(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        fetches.append(command)
        folder = Path(command[command.index("--dest") + 1])
        (folder / WHEEL).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", download)
    kept = fetch()
    assert kept == cache_folder() / WHEEL
    assert [path.name for path in kept.parent.iterdir()] == [WHEEL]
    assert fetch() == kept
    assert len(fetches) == 1
    assert "bible-alignments==0.4.2" in fetches[0]
    kept.write_bytes(b"damaged")
    assert fetch().read_bytes() == wheel.read_bytes()
    assert len(fetches) == 2
