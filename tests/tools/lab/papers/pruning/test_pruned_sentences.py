"""The command that compares masks of sentences with coarse-to-fine pruning."""

from pathlib import Path

import typer
from typer.testing import CliRunner

from hierogram.tools.lab.papers.pruning import sentences

NOUNS, VERBS = ("dog", "cat", "bird", "house", "door"), ("sees", "likes", "wants")


def _tree(number: int) -> str:
    one, other = NOUNS[number % 5], NOUNS[(number // 5 + 2 * number) % 5]
    after = " (PP (IN by) (NP (DT the) (NN house)))" if number % 3 else ""
    more = (
        f" (NP (DT a) (NN {other}))" if number % 2 else f" (NP (NP (DT a) (NN {other})) (PP (IN by) (NP (NN {one}))))"
    )
    return f"(TOP (S (NP (DT the) (NN {one})) (VP (VBZ {VERBS[number % 3]}){more}{after}) (. .)))"


def test_the_command_reports_seconds_and_errors_of_each_method(tmp_path: Path) -> None:
    treebank = tmp_path / "trees.ptb"
    treebank.write_text("".join(f"{_tree(number)}\n" for number in range(40)))
    app = typer.Typer()
    app.command()(sentences.main)
    result = CliRunner().invoke(app, [str(treebank), "--trees", "30", "--sentences", "3"])
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines() if line.startswith("5-10\t")]
    errors = {row[1]: float(row[4]) for row in rows}
    # The hypergraph of pairs has the results of the tree chart.
    assert errors["whole"] == 0
    assert errors["core"] < 1e-6
    coarse = [errors[f"coarse-to-fine {threshold:g}"] for threshold in (1e-1, 1e-2, 1e-3, 1e-4)]
    assert coarse[-1] <= coarse[0]
    assert coarse[-1] < 0.01
    assert {f"masks {number}" for number in (1, 2, 4, 8, 16)} <= errors.keys()
    assert all(float(row[3]) > 0 and int(row[2]) == 3 for row in rows)


def test_a_treebank_with_too_few_trees_is_refused(tmp_path: Path) -> None:
    treebank = tmp_path / "trees.ptb"
    treebank.write_text(_tree(1) + "\n")
    app = typer.Typer()
    app.command()(sentences.main)
    found = CliRunner().invoke(app, [str(treebank), "--trees", "30"])
    assert "must have more than 30 trees" in str(found.exception)
