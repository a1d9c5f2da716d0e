"""The command that compares scores of cut pairs with scores of whole pairs."""

from pathlib import Path

import pytest
import typer
from tests.daemon.conftest import teach, written
from typer.testing import CliRunner

from hierogram.tools.lab.papers.cut_scores import compare, main


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a store learned from a few pairs."""
    folder: Path = tmp_path_factory.mktemp("scores")
    url = f"sqlite:///{folder / 'store.db'}"
    teach(url, written(folder))
    return url


def test_a_cut_score_is_a_lower_bound(database: str) -> None:
    found, seconds = compare(database, 3, 9, 100)
    assert found.shape == (2, 3)
    assert (found[0] > 0).all()
    assert (seconds > 0).all()


def test_the_command_prints_a_table(database: str) -> None:
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, [database, "--pairs", "2", "--exact", "9"])
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows[:3]] == ["score", "log-probability", "unseen"]
    assert all(row[1] == "2" and len(row) == len(rows[0]) for row in rows[1:3])
    assert rows[3][0].startswith("seconds: ")
