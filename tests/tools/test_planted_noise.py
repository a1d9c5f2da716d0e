"""The command of planted noise: what it spoils, its areas, and that it tells a table."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hierogram.tools.papers import planted_noise
from hierogram.tools.papers.planted_noise import REPLACED, SHUFFLED, area, plant


def test_an_area_is_the_share_of_pairs_in_the_right_order() -> None:
    random = np.random.default_rng(1)
    doubt = random.integers(0, 6, 40).astype(float)
    spoiled = random.random(40) < 0.3
    pairs = [(a, b) for a in doubt[spoiled] for b in doubt[~spoiled]]
    wanted = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])
    assert area(doubt, spoiled) == pytest.approx(wanted)
    assert area(spoiled.astype(float), spoiled) == 1


def test_what_is_spoiled() -> None:
    source = [[f"s{k}"] for k in range(50)]
    target = [[f"t{k}-{j}" for j in range(1 + k % 9)] for k in range(50)]
    shuffled = plant(source, target, SHUFFLED, 0.2, 1)
    assert shuffled.spoiled.sum() == 10
    changed = [k for k in range(50) if shuffled.target[k] != target[k]]
    assert changed == np.flatnonzero(shuffled.spoiled).tolist()
    assert sorted(map(str, shuffled.target)) == sorted(map(str, target))
    replaced = plant(source, target, REPLACED, 0.2, 1)
    for k in range(50):
        different = sum(a != b for a, b in zip(replaced.target[k], target[k], strict=True))
        assert different == (max(1, round(len(target[k]) / 5)) if replaced.spoiled[k] else 0)


def test_the_command_tells_areas(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    lines = [[str(word) for word in random.integers(20, size=5)] for _ in range(120)]
    for name, mark in (("source", "f"), ("target", "e")):
        (tmp_path / name).write_text("".join(" ".join(mark + word for word in line) + "\n" for line in lines))
    arguments = [str(tmp_path / "source"), str(tmp_path / "target"), "--pairs", "100", "--sound", "20", "--every", "2"]
    import typer

    app = typer.Typer()
    app.command()(planted_noise.main)
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    rows = [line.split("\t") for line in told.stdout.splitlines() if "\t" in line]
    assert rows[0][0] == "spoiled by"
    assert [row[0] for row in rows[1:]] == [SHUFFLED, REPLACED]
    for row in rows[1:]:
        assert all(0 <= float(value) <= 1 for value in row[1:])
    # Words are translated one by one, so a pair of other words has little evidence.
    assert float(rows[1][rows[0].index("evidence")]) > 0.9
