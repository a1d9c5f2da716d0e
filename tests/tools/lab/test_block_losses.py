"""The change of the log-likelihood by sampling in blocks is printed, and results are reused."""

import json
from contextlib import chdir
from pathlib import Path

from tests.daemon.learning.stores import some_pairs
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.measures.block_losses import SEQUENTIAL, block_losses


def bitext(folder: Path, pairs: int) -> list[str]:
    found = some_pairs(pairs)
    columns = {
        "f": [pair.source for pair in found],
        "e": [pair.target for pair in found],
        "a": [pair.alignment for pair in found],
    }
    for name, lines in columns.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return list(columns)


def run(module: str, folder: Path, *arguments: str) -> str:
    with chdir(folder):
        return run_lab(f"measures.{module}", *arguments)


def test_gains_of_block_schemes_are_printed_and_results_are_reused(tmp_path: Path) -> None:
    names = bitext(tmp_path, 40)
    options = ["--schemes", "2x4", "--sweeps", "3", "--seeds", "2"]
    output = run("block_losses", tmp_path, *names, *options)
    assert [line.split(":")[0] for line in output.splitlines()] == [SEQUENTIAL, "2x4"]
    before = (tmp_path / "block_losses.json").read_text()
    assert len(json.loads(before)) == 4
    assert run("block_losses", tmp_path, *names, *options) == output
    assert (tmp_path / "block_losses.json").read_text() == before


def test_a_gain_is_in_standard_deviations_of_sequential_sampling() -> None:
    ends = {SEQUENTIAL: (-10.0, -14.0, -12.0), "1x2": (-15.0, -17.0, -16.0)}
    assert list(block_losses(ends)) == [(SEQUENTIAL, -12.0, 2.0, 0.0), ("1x2", -16.0, 1.0, -2.0)]
