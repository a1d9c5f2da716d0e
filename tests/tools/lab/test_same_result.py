"""Comparing ways in which a corpus may arrive."""

import json
from pathlib import Path

import pytest
from tests.tools.lab.programs import printed, ran

from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.storage.records import Settings
from hierogram.tools.lab.same_result import BATCHES, WAYS, key, table


def test_a_way_is_as_good_if_its_mean_lies_in_the_range_of_batch_runs() -> None:
    ways = zip(
        WAYS, ([-102.0, -100.0, -98.0], [-103.0, -99.0, -101.0], [-104.0, -90.0, -130.0], [-97.0] * 3), strict=True
    )
    results = {
        key(name, seed): {"log_likelihood": value, "pairs": 7, "sweeps": 80.0, "rules": 3.0 * seed}
        for name, values in ways
        for seed, value in enumerate(values, start=1)
    }
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table(results, (1, 2, 3)).splitlines()[2:]]
    assert [row[0] for row in rows] == list(WAYS)
    assert [row[7] for row in rows] == ["(the measure)", "yes", "no, by 6", "better, by 1"]
    assert rows[1] == ["daemon, at once", "7", "80.0", "6", "-101", "2", "-103 to -99", "yes"]


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


def _sweeps_of_one_round() -> int:
    settings = Settings()
    return kind_of(settings).course(settings).burn_in + settings.round_sweeps


@pytest.mark.slow
def test_every_way_stores_every_pair_and_what_is_known_is_not_computed_again(bitext: list[str], tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    options = ["--pairs", str(2 * BATCHES), "--rounds", "1", "--seeds", "2", "--results", str(results)]
    first = printed("same_result", *bitext, *options)
    known = json.loads(results.read_text())
    assert len(known) == 2 * len(WAYS)
    assert {result["pairs"] for result in known.values()} == {2 * BATCHES}
    wanted = _sweeps_of_one_round()
    # A turn of ten sweeps that would end later is not made, but every batch settles.
    assert all(wanted - 10 <= result["sweeps"] <= wanted + 10 for result in known.values())
    assert all(known[key("daemon, at once", seed)]["sweeps"] <= wanted for seed in (1, 2))
    again = ran("same_result", *bitext, *options)
    assert (again.stdout, again.stderr) == (first, "")
