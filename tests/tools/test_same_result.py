"""Comparing ways in which a corpus may arrive."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scipy import stats

from hierogram.tools.same_result import BATCHES, WAYS, spread, table


def test_one_more_run_lies_in_the_spread_in_95_of_100_cases() -> None:
    draws = stats.norm.rvs(size=(20_000, 6), random_state=1)
    inside = [low <= row[5] <= high for row in draws for low, high in [spread(row[:5].tolist())]]
    assert stats.binomtest(sum(inside), len(inside), 0.95).pvalue > 1e-5
    outside_the_range = [not row[:5].min() <= row[5] <= row[:5].max() for row in draws]
    assert stats.binomtest(sum(outside_the_range), len(draws), 1 / 3).pvalue > 1e-5


def test_the_table_tells_what_lies_outside() -> None:
    runs = {f"one run of learn, seed {k}": value for k, value in enumerate([-101.0, -100.0, -99.0])}
    values = runs | {"near": -102.0, "far": -150.0, "high": -50.0}
    rows = table({name: {"log_likelihood": value, "pairs": 7, "rules": 3} for name, value in values.items()})
    ends = [row.split("|")[5].strip() for row in rows.splitlines()[2:]]
    # Mean -100, deviation 1, t 4.303 with two degrees of freedom: 100 ± 4.97.
    assert ends == ["(makes it)"] * 3 + ["yes", "no, by 45", "better, by 45"]


@pytest.fixture
def bitext(tmp_path: Path) -> list[str]:
    sides = {
        "f": [f"le chat {k % 4} dort" for k in range(2 * BATCHES)],
        "e": [f"the cat {k % 4} sleeps" for k in range(2 * BATCHES)],
        "a": ["0-0 1-1 2-2 3-3"] * (2 * BATCHES),
    }
    for name, lines in sides.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return [str(tmp_path / name) for name in sides]


def test_every_way_stores_every_pair_and_what_is_known_is_not_computed_again(bitext: list[str], tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    options = ["--pairs", str(2 * BATCHES), "--rounds", "1", "--seeds", "2", "--results", str(results)]
    command = [sys.executable, "-m", "hierogram.tools.same_result", *bitext, *options]
    first = subprocess.run(command, check=True, capture_output=True, text=True)
    known = json.loads(results.read_text())
    assert len(known) == 2 + len(WAYS) - 1
    assert {result["pairs"] for result in known.values()} == {2 * BATCHES}
    again = subprocess.run(command, check=True, capture_output=True, text=True)
    assert again.stdout == first.stdout
    assert not again.stderr
