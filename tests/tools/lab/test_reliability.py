"""Probabilities of links beside manual links, on an invented corpus."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.learning.alignment.languages import invented

from hierogram.tools.lab.reliability import reliability, reliability_of


def test_probabilities_are_compared_with_manual_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources, targets, alignments = invented(120)
    folder = tmp_path / "gold-aa-bb"
    folder.mkdir()
    for name, lines in (("corpus.aa", sources), ("corpus.bb", targets), ("gold.talp", alignments[:40])):
        (folder / name).write_text("".join(line + "\n" for line in lines))
    reliability([str(folder)], threads=1, plot=tmp_path / "curve.png", as_json=True)
    [row] = json.loads(capsys.readouterr().out)
    assert row["pairs"] == 20
    assert sum(b["links"] for b in row["bins"]) == row["links"] > 100
    assert row["bins"][-1]["right"] > 0.9
    assert row["error"] < 0.1
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_calibration_error_is_weighted_by_links() -> None:
    found = reliability_of("a", np.array([0.05, 0.95, 0.95, 1.0]), np.array([True, True, False, True]), 1)
    assert [b["links"] for b in found.bins] == [1, 3]
    assert found.bins[1]["probability"] == pytest.approx(2.9 / 3)
    assert found.error == pytest.approx((0.95 + 3 * (2.9 / 3 - 2 / 3)) / 4)
