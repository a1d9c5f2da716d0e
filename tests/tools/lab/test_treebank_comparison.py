"""The comparison of tree grammars: runs are made once, and the table says what they gave."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

from hierogram.tools.lab.papers.rivals import p_of_difference
from hierogram.tools.lab.treebank_comparison import compare, f1_of

SUBJECTS = ("(NP (PRP she))", "(NP (DT the) (NN dog))", "(NP (DT a) (NN cat))")
OBJECTS = ("(NP (NNS stars))", "(NP (NP (NNS ears)) (PP (IN of) (NP (NNS dogs))))")


def treebank(path: Path) -> None:
    trees = [
        f"(S {subject} (VP (VBD {verb}) {found}) (. .))"
        for verb in ("saw", "had")
        for subject in SUBJECTS
        for found in OBJECTS
    ]
    path.write_text("\n".join(trees * 2) + "\n")


def ran_with(tmp_path: Path, *more: str) -> str:
    treebank(tmp_path / "trees")
    app = Typer()
    app.command()(compare)
    arguments = [str(tmp_path / "trees"), "--results", str(tmp_path / "runs"), "--jobs", "1", *more]
    ran = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.stdout


@pytest.mark.slow
def test_divided_labels_stand_beside_undivided_ones(tmp_path: Path) -> None:
    shown = ran_with(
        tmp_path, *("--labels", "2", "--bases", "pcfg", "--train", "16", "--dev", "0", "--test", "5", "--seeds", "2"),
        *("--annealing", "3", "--sweeps", "2", "--draws", "0"),
    )  # fmt: skip
    header, _, *lines = shown.split("\n\n")[0].splitlines()
    assert header.endswith("| exact | p |")
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert [row[0] for row in cells] == [name for name in ("PCFG", "TSG, P_C", "TSG, P_C, k = 2") for _ in range(2)]
    rows = list(json.loads((tmp_path / "runs").read_text()).values())
    assert [row["task"]["labels"] for row in rows] == [1, 1, 1, 2, 2]
    for row in rows:
        score = row["scores"]["mer"]["all"]
        sums = np.array(row["brackets"]["mer"], np.float64).sum(axis=0)
        assert f1_of(sums) == pytest.approx(score["f1"])
        assert sums.tolist() == [score["matched"], score["right"], score["found"]]
    one, other = (np.array([row["brackets"]["mer"] for row in part], np.float64) for part in (rows[1:3], rows[3:]))
    assert cells[-1][-1] == f"{p_of_difference(one, other, score=f1_of):.3f}"


@pytest.mark.slow
def test_grammars_are_compared_and_runs_are_kept(tmp_path: Path) -> None:
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
    assert rows[1]["curve"][-1][0] == 6
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    header, _, *lines = ran.stdout.split("\n\n")[0].splitlines()
    assert header.startswith("| grammar | rules |")
    assert [line.split(" | ")[2] for line in lines if line.startswith("| ")] == [
        "MPD, best derivation", "MER, exact expectations", *(
            "MPD, best derivation", "MPP, tree drawn most often", "MER, from draws", "MER, exact expectations",
        ) * 2,
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
