"""Sampling in blocks is compared with sequential sampling."""

import csv
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.measures.blocks import BlockDifference, ChainMeans, summary, total_variation


@pytest.mark.slow
def test_the_comparison_draws_a_figure_and_writes_a_table(tmp_path: Path) -> None:
    for name, lines in {
        "f": [f"le chat {k % 7} dort ici" for k in range(12)],
        "e": [f"the cat {k % 7} sleeps here" for k in range(12)],
        "a": ["0-0 1-1 2-2 3-3 4-4"] * 12,
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    options = ["--sizes", "3,6", "--pairs", "9", "--sweeps", "15"]
    with chdir(tmp_path):
        output = run_lab("measures.blocks", "f", "e", "a", *options)
    assert output.startswith("3 pairs, 3 corpora:")
    assert (tmp_path / "blocks.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "blocks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["pairs"], row["corpora"]) for row in rows] == [("3", "3"), ("6", "1")]
    assert all(0 <= float(row[name]) <= 1 for row in rows for name in ("distance", "distance_within_scheme"))


def test_total_variation_is_half_the_sum_of_absolute_differences_of_shares() -> None:
    one = ChainMeans(0.0, np.array([1, 5], np.uint64), np.array([0.25, 0.75]))
    other = ChainMeans(0.0, np.array([2, 5], np.uint64), np.array([0.5, 0.5]))
    assert total_variation(one, one) == 0
    assert total_variation(one, other) == pytest.approx(0.5)


def test_the_summary_has_means_and_their_errors() -> None:
    of_ten_pairs = [BlockDifference(10, 1.0, 0.2, 0.1), BlockDifference(10, 3.0, 0.4, 0.1)]
    figures = summary([*of_ten_pairs, BlockDifference(20, 9.0, 0.9, 0.9)], 10)
    assert figures["corpora"] == 2
    assert figures["gain"] == 2.0
    assert figures["gain_error"] == pytest.approx(1.0)
    assert figures["distance"] == pytest.approx(0.3)
    assert figures["distance_within_scheme_error"] == pytest.approx(0.0)
