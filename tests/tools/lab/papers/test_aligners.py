"""The figure that compares aligners by the translations of grammars from their links."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.tools.lab.grammars import write_bitext
from tests.tools.lab.programs import printed, ran

from hierogram.tools.lab.papers import aligners
from hierogram.tools.lab.papers.aligners import BOTH, FAST_ALIGN, ONE, LinksRow, draw

DIAGONAL = """#!{python}
import sys
lines = open(sys.argv[sys.argv.index("-i") + 1], encoding="utf-8").read().splitlines()
for line in lines:
    source, target = (side.split() for side in line.split(" ||| "))
    # Of the other way round only the first word has a link: what is written says which way it is.
    words = 1 if "-r" in sys.argv else len(target)
    print(" ".join(f"{{min(k, len(source) - 1)}}-{{k}}" for k in range(words)))
"""


@pytest.mark.slow
def test_one_command_makes_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / FAST_ALIGN
    program.parent.mkdir()
    program.write_text(DIAGONAL.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert aligners.installed(FAST_ALIGN)
    source, target, _ = write_bitext(tmp_path)
    work = tmp_path / "work"
    arguments = [source, target, "--work", work, "--tuning", "8", "--test", "8", "--iterations", "1"]
    arguments += ["--only", f"bhmm-f,{FAST_ALIGN}"]
    output = printed("papers.aligners", *arguments, "--figure", tmp_path / "f.png")
    rows = {(row["aligner"], row["symmetrization"]): row for row in json.loads((work / "figure1.json").read_text())}
    assert list(rows) == [(one, way) for one in ("bhmm-f", FAST_ALIGN) for way in (ONE, BOTH)]
    words = sum(len(line.split()) for line in (work / "train.source").read_text().splitlines())
    # Each source word has at most one target word.
    assert 0 < rows["bhmm-f", ONE]["links"] <= words
    pairs = len((work / "train.source").read_text().splitlines())
    assert rows[FAST_ALIGN, ONE]["links"] == pairs < rows[FAST_ALIGN, BOTH]["links"]
    assert all(0 < row["phrases"] <= row["rules"] for row in rows.values())
    assert rows["bhmm-f", BOTH]["phrases"] < rows["bhmm-f", BOTH]["rules"]
    assert rows["bhmm-f", BOTH]["bleu"]["Hiero"][0] > 90
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    # Existing results are not recomputed.
    (work / "aligners.json").touch()
    program.unlink()
    assert printed("papers.aligners", *arguments) == output


def test_given_links_are_rejected(tmp_path: Path) -> None:
    refused = ran("papers.aligners", "a", "b", "c", "--work", str(tmp_path))
    assert "expected two files of a bitext" in str(refused.exception)


@pytest.mark.slow
def test_deviations_are_drawn(tmp_path: Path) -> None:
    rows = [LinksRow("a", way, 1, 1, 1, 1.0, {"phrases": [1.0, 2.0], "Hiero": [3.0]}) for way in (ONE, BOTH)]
    draw(rows, tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 1000
