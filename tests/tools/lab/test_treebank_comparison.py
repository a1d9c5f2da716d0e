"""The comparison of tree grammars: the table reports all runs, and a repeated command reuses them."""

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from hierogram.tools.lab.treebank_comparison import compare

SUBJECTS = ("(NP (PRP she))", "(NP (DT the) (NN dog))", "(NP (DT a) (NN cat))")
OBJECTS = ("(NP (NNS stars))", "(NP (NP (NNS ears)) (PP (IN of) (NP (NNS dogs))))")


def treebank(path: Path) -> None:
    trees = [
        f"(S {subject} (VP (VBD {verb}) {noun_phrase}) (. .))"
        for verb in ("saw", "had")
        for subject in SUBJECTS
        for noun_phrase in OBJECTS
    ]
    path.write_text("\n".join(trees * 2) + "\n")


@pytest.mark.slow
def test_tree_grammars_are_compared_and_runs_are_kept(tmp_path: Path) -> None:
    treebank(tmp_path / "trees")
    app = Typer()
    app.command()(compare)
    arguments = [str(tmp_path / "trees"), "--results", str(tmp_path / "runs"), "--figure", str(tmp_path / "curve.png")]
    arguments += ["--train", "16", "--dev", "3", "--test", "5", "--seeds", "2", "--annealing", "4", "--sweeps", "2"]
    arguments += ["--draws", "20", "--jobs", "1"]
    ran = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ran.exit_code == 0
    rows = list(json.loads((tmp_path / "runs").read_text()).values())
    assert [row["grammar"] for row in rows[:5]] == ["PCFG", *["TSG"] * 4]
    assert [row["task"]["base"] for row in rows[1:5]] == [*["uniform"] * 2, *["pcfg"] * 2]
    assert rows[0]["scores"]["mer"]["all"]["sentences"] == 5
    assert rows[1]["trace"][-1][0] == 6
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    header, _, *lines = ran.stdout.split("\n\n")[0].splitlines()
    assert header.startswith("| grammar | rules |")
    assert [line.split(" | ")[2] for line in lines if line.startswith("| ")] == [
        "MPD, best derivation", "MER, most expected productions",
        *("MPD, best derivation", "MPP, tree drawn most often", "MER, most expected productions") * 2,
    ]  # fmt: skip
    assert list(dict.fromkeys(line.split(" | ")[0] for line in lines if line.startswith("| "))) == [
        "| PCFG",
        "| TSG, P_M",
        "| TSG, P_C",
    ]
    f1 = 100 * rows[0]["scores"]["mpd"]["all"]["f1"]
    assert f"| {f1:.1f} |" in lines[0]
    again = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert again.stdout == ran.stdout
    assert len(json.loads((tmp_path / "runs").read_text())) == len(rows)
