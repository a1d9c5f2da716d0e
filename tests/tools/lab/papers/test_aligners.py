"""The figure that compares aligners by the translations of grammars from their links."""

import json
from pathlib import Path

import pytest
from tests.tools.lab.grammars import write_bitext
from tests.tools.lab.programs import invoke_lab, run_lab

from hierogram.tools.lab.papers.aligners import BOTH, ONE


@pytest.mark.slow
def test_one_command_makes_the_figure_of_aligners(tmp_path: Path) -> None:
    source, target, _ = write_bitext(tmp_path)
    work = tmp_path / "work"
    arguments = [source, target, "--work", work, "--tuning", "8", "--test", "8", "--iterations", "1"]
    arguments += ["--only", "bhmm,bhmm-f"]
    output = run_lab("papers.aligners", *arguments)
    rows = {(row["aligner"], row["symmetrization"]): row for row in json.loads((work / "figure1.json").read_text())}
    assert list(rows) == [(aligner, links) for aligner in ("bhmm", "bhmm-f") for links in (ONE, BOTH)]
    words = sum(len(line.split()) for line in (work / "train.source").read_text().splitlines())
    # Each source word has at most one target word.
    assert 0 < rows["bhmm-f", ONE]["links"] <= words
    assert all(0 < row["phrases"] <= row["rules"] for row in rows.values())
    assert rows["bhmm-f", BOTH]["phrases"] < rows["bhmm-f", BOTH]["rules"]
    assert rows["bhmm-f", BOTH]["bleu"]["Hiero"] > 90
    # Existing results are not recomputed.
    before = (work / "results.json").stat().st_mtime_ns
    assert run_lab("papers.aligners", *arguments) == output
    assert (work / "results.json").stat().st_mtime_ns == before


def test_a_third_file_of_links_is_rejected(tmp_path: Path) -> None:
    refused = invoke_lab("papers.aligners", *write_bitext(tmp_path), "--work", str(tmp_path))
    assert refused.exit_code != 0
    assert "unexpected extra argument" in refused.stderr
