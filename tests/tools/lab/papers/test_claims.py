"""Each row of docs/papers.md has an experiment. The output of its program decides whether the row's claims hold."""

import json
import re
from pathlib import Path

import pytest
from tests.tools.lab.grammars import write_bitext
from tests.tools.lab.programs import invoke_lab

from hierogram.tools.lab.papers.claims import EXPERIMENTS, Finding, Inputs, above

DOCUMENT = (Path(__file__).parents[4] / "docs" / "papers.md").read_text(encoding="utf-8").replace("$LAB.", "")
TABLES = re.findall(r"^\| table or figure .*\n\|---.*\n((?:\|.*\n)+)", DOCUMENT, re.MULTILINE)
ROWS = [line for table in TABLES for line in table.splitlines()]


def judge_output(program: str, work: Path, output: str = "") -> dict[str, Finding]:
    [run] = [run for run in EXPERIMENTS if run.program == program]
    return {finding.claim: finding for finding in run.findings(Inputs("s", "t", "trees", work), output)}


def test_every_row_of_the_document_has_an_experiment() -> None:
    programs, before = set(), ""
    for row in ROWS:
        command = row.split(" | ")[1]
        before = before if command.startswith("the same") else command
        commands = re.findall(r"`(?:papers\.)?[a-z_0-9.]+ ?[^`]*`", before)
        assert commands, row
        programs |= set(re.findall(r"`((?:papers\.|treebank_)[a-z_0-9.]+)", f"{command} {before}"))
    # The paper makes no claim about starts of bhmm.
    assert programs - {"papers.alignment_starts"} == {run.program for run in EXPERIMENTS}
    figures = {"figure-5", "figure-6", "stratified", "processes"}
    sampling = [
        run.arguments(Inputs("s", "t", "x", Path()))[0] for run in EXPERIMENTS if run.program == "papers.sampling"
    ]
    assert set(sampling) == figures == set(re.findall(r"`papers\.sampling ([a-z0-9-]+)", DOCUMENT))


def test_a_claim_that_does_not_hold_is_reported(tmp_path: Path) -> None:
    assert above("here", "so", 2.0, 1.0) == Finding("here", "so", True, "2 > 1")
    assert not above("here", "so", 1.0, 1.0).holds
    rows = [
        {
            "aligner": name,
            "symmetrization": symmetrization,
            "links": links,
            "phrases": 10 * links,
            "seconds": links,
            "bleu": {"phrases": 1},
        }
        for name, links in (("bhmm", 5), ("bhmm-z", 7), ("eflomal", 6))
        for symmetrization in ("directional", "symmetrized")
    ]
    (tmp_path / "aligners").mkdir()
    (tmp_path / "aligners" / "figure1.json").write_text(json.dumps(rows))
    findings = judge_output("papers.aligners", tmp_path)
    assert findings["links: all other aligners above bhmm"].holds
    assert not findings["phrases: bhmm above bhmm-z"].holds
    assert not findings["BLEU of phrases: bhmm-z above bhmm"].holds


def test_claims_are_judged_by_the_output_of_their_programs(tmp_path: Path) -> None:
    rows = [("exact", -9), ("exact", -5), ("16 masks", -9), ("16 masks", -7)]
    text = "E step\titeration\tlog-likelihood\tCPU seconds\n" + "\n".join(
        f"{mask}\t0\t{value}\t1" for mask, value in rows
    )
    [finding] = judge_output("papers.pruning.learning", tmp_path, text).values()
    assert (finding.holds, finding.figures) == (False, "50%")
    text = "seed 1: 10 rules of 10, 2 other fragments\nseed 2: 9 rules of 10, 0 other fragments\n1 of 2 seeds end"
    [finding] = judge_output("papers.ten_rules", tmp_path, text).values()
    assert (finding.holds, finding.figures) == (False, "1 seed with all rules")
    sizes = {"height": "0 0 6 1 1 2 0 0 0 0", "nodes": "0 0 9 1 0 0 0 0 0 0", "words": "4 4 0 2 0 0 0 0 0 0",
             "frontiers": "6 2 1 1 0 0 0 0 0 0"}  # fmt: skip
    text = "Figure 4\t0\n" + "\n".join(f"{name}\t" + "\t".join(cells.split()) for name, cells in sizes.items())
    findings = list(judge_output("papers.fragments", tmp_path, text).values())
    assert [(finding.holds, finding.figures) for finding in findings] == [
        (True, "8 > 2"),
        (True, "8 > 2"),
        (False, "3 ≤ 7"),
    ]


@pytest.mark.campaign
def test_the_sampling_experiments_report_their_claims_on_small_data(tmp_path: Path) -> None:
    """Experiments whose program name contains `sampl`, on a regular bitext, on which claims need not hold."""
    source, target, _ = write_bitext(tmp_path)
    (tmp_path / "trees").write_text("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NNS stars))))\n" * 30)
    done = invoke_lab(
        "papers.claims", source, target, str(tmp_path / "trees"), "--work", str(tmp_path / "w"), "--only", "sampl"
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["where", "claim", "holds", "figures"]
    assert {row[2] for row in rows[1:]} <= {"yes", "NO"}
    assert len(rows) > 10
    assert done.exit_code == any(row[2] == "NO" for row in rows[1:])
