"""The command that sets scores from masks beside those from whole charts."""

from pathlib import Path

import numpy as np
import pytest
import typer
from tests.daemon.conftest import teach, written
from typer.testing import CliRunner

from hierogram.daemon.scoring.records import ScoreOptions
from hierogram.tools.papers.pruning.masked_scores import compare, main


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a store that has learned from a few pairs."""
    folder: Path = tmp_path_factory.mktemp("scores")
    url = f"sqlite:///{folder / 'store.db'}"
    teach(url, written(folder))
    return url


def test_masks_are_compared_where_whole_charts_can_be_made(database: str) -> None:
    found, seconds = compare(database, 4, ScoreOptions(masks=40, exact=9), 100)
    assert found.shape == (4, 4)
    assert 0 < np.abs(found[0]).max() < 0.05
    assert (found[1] > 0).all()
    assert (seconds > 0).all()
    few, _ = compare(database, 4, ScoreOptions(masks=2, exact=9), 100)
    assert np.median(few[1]) > np.median(found[1])


def test_the_command_tells_a_table(database: str) -> None:
    app = typer.Typer()
    app.command()(main)
    told = CliRunner().invoke(app, [database, "--pairs", "3", "--above", "9", "--masks", "30"])
    assert told.exit_code == 0, told.output
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[0] for row in rows[:3]] == ["score", "log-probability", "unseen"]
    assert all(row[1] == "3" and len(row) == len(rows[0]) for row in rows[1:3])
    assert rows[3][0].startswith("seconds: ")
