"""`hierogram lm`: the documented commands run, and errors are reported."""

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

DOCUMENT = (Path(__file__).parents[4] / "docs" / "language_models.md").read_text(encoding="utf-8")
SENTENCES = ["the house is white", "the white house", "", "a house is a house", "the green door of the house"] * 3


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "news.en"
    path.write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    (tmp_path / "more.en.gz").write_bytes(path.read_bytes())
    return path


def test_the_documented_lm_commands_run(hierogram: Run, text: Path) -> None:
    shown = [shlex.split(line)[1:] for line in re.findall(r"^hierogram lm .*$", DOCUMENT, re.MULTILINE)]
    assert len(shown) == 4
    assert hierogram("--store", "news.db", "init").code == 0
    for arguments in shown:
        ran = hierogram(*arguments)
        assert ran.code == 0, ran.err
        assert all((text.parent / name).exists() for name in re.findall(r"-o (\S+)", " ".join(arguments)))
    again = (text.parent / "copy.arpa").read_text()
    assert "ngram 5=" in again
    assert "news5.arpa.gz: 11 + " in hierogram(*shown[1]).err


def test_json_output_reports_counts(hierogram: Run, text: Path) -> None:
    ran = hierogram("lm", str(text), "-o", "news.lm", "--order", "2", "--max-words", "3", "--json")
    made = json.loads(ran.out)
    assert made["outputs"] == ["news.lm"]
    assert made["ngrams"][0] == 6
    assert (made["sentences"], made["words"]) == (12, 54)
    assert made["unknown"] == sum(word not in ("the", "house", "is") for line in SENTENCES for word in line.split())
    assert "too small to estimate the discounts of 2-grams" in ran.err


def test_convert_rejects_estimation_options_and_files(hierogram: Run, text: Path) -> None:
    for arguments in (["--order", "2"], [str(text)]):
        ran = hierogram("lm", "--convert", str(text), "-o", "news.lm", *arguments)
        assert ran.code == 2
        assert "--convert requires exactly one FILE" in ran.err


def test_invalid_input_and_output_files_are_reported(hierogram: Run, text: Path) -> None:
    assert "not an ARPA file" in hierogram("lm", "--convert", str(text), "-o", "news.lm").err
    ran = hierogram("lm", "none.en", "-o", "news.lm")
    assert (ran.code, "none.en: cannot be opened" in ran.err) == (3, True)
    ran = hierogram("lm", str(text), "-o", "none/news.lm")
    assert (ran.code, "none: cannot create temporary files" in ran.err) == (3, True)
