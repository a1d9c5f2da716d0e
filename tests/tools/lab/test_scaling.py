"""The cost of sampling with workers: the measurements run, and the arithmetic is correct."""

import json
from contextlib import chdir
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from tests.daemon.learning.stores import some_pairs
from tests.tools.lab.programs import printed

from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.scaling.prices import SEQUENTIAL, prices
from hierogram.tools.lab.measures.scaling.simulating import Costs, costs_of, simulate

COSTS = Costs(1000.0, 10.0, 1e-7, 0.01, 1e-5, 3e-5, 0.0, 1000, 100, 0.5)


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
        return printed(f"measures.scaling.{module}", *arguments)


def test_prices_are_printed_and_stored(tmp_path: Path) -> None:
    names = bitext(tmp_path, 40)
    options = ["--schemes", "2x4", "--sweeps", "3", "--seeds", "2"]
    output = run("prices", tmp_path, *names, *options)
    assert [line.split(":")[0] for line in output.splitlines()] == [SEQUENTIAL, "2x4"]
    before = (tmp_path / "prices.json").read_text()
    assert len(json.loads(before)) == 4
    assert run("prices", tmp_path, *names, *options) == output
    assert (tmp_path / "prices.json").read_text() == before


def test_a_price_is_in_standard_deviations_of_sequential_sampling() -> None:
    ends = {SEQUENTIAL: (-10.0, -14.0, -12.0), "1x2": (-15.0, -17.0, -16.0)}
    assert list(prices(ends)) == [(SEQUENTIAL, -12.0, 2.0, 0.0), ("1x2", -16.0, 1.0, -2.0)]


@pytest.mark.campaign
def test_parts_are_measured_and_simulated(tmp_path: Path) -> None:
    names = bitext(tmp_path, 1100)
    run("parts", tmp_path, *names, "--workers", "2", "-o", "1100.json")
    parts = json.loads((tmp_path / "1100.json").read_text())
    # A quarter of the pairs has half of the rules.
    small = {"by_workers": {"pairs": 275, "rules": parts["by_workers"]["rules"] / 2}}
    (tmp_path / "275.json").write_text(json.dumps(small))
    traffic = parts["by_workers"]["traffic"]
    assert parts["by_workers"]["rules"] == parts["by_threads"]["rules"]
    # One pair per block, 550 blocks per round.
    assert traffic["rounds"] == 2 * parts["by_workers"]["sweeps"]
    assert len(parts["by_threads"]["sweep_seconds"]) == len(parts["by_workers"]["sweep_seconds"]) == 25
    assert parts["ratio"] > 0
    assert traffic["lost"] == 0
    assert all(parts[who]["pairs_a_processor_second"] > 0 for who in ("by_threads", "by_workers"))
    assert traffic["bytes"] == pytest.approx(32 * parts["changes_a_pair"] * 1100 * parts["by_workers"]["sweeps"])
    assert costs_of(small, parts).growth == pytest.approx(0.5)
    assert costs_of(small, parts).pairs_a_second == parts["by_threads"]["pairs_a_processor_second"]
    options = ["--pairs", "1e7", "--workers", "1,64"]
    output = run("simulating", tmp_path, "275.json", "1100.json", *options).splitlines()
    assert [line.split("\t")[:2] for line in output[1:]] == [["10,000,000", "1"], ["10,000,000", "64"]]


def test_opening_and_writing_are_charged_to_the_right_process() -> None:
    first, later = {"open": 20.0, "commit": 140.0, "write": 30.0}, {"open": 22.5, "commit": 45.0, "write": 8.75}
    # Eight rounds of ten sweeps follow: two seconds a sweep to open, five to commit, of which workers write for one.
    shared = {"first": first, "later": later, "sweeps": 20, "rules": 40, "pairs": 100}
    parts = {
        "workers": 2, "by_threads": {"pairs_a_processor_second": 9.0}, "changes_a_pair": 1, "merge_seconds": 1,
        "round_seconds": 1,
    }  # fmt: skip
    small = {"by_workers": {"rules": 20, "pairs": 25}}
    found = [costs_of(small, {**parts, "by_workers": {**shared, "by_workers": who}}) for who in (False, True)]
    assert [one[4:7] for one in map(astuple, found)] == [(0.02, 0.05, 0.0), (0.0, 0.04, 0.06)]


@pytest.mark.slow
def test_the_memory_of_copies_is_reported(tmp_path: Path) -> None:
    names = bitext(tmp_path, 300)
    output = run("copies", tmp_path, *names, "--copies", "4", "--sweeps", "1", "--store", f"sqlite:///{tmp_path}/c.db")
    assert output.startswith("1,200 pairs, ")
    header, last = (tmp_path / "copies.csv").read_text().splitlines()
    memory = dict(zip(header.split(","), map(float, last.split(",")), strict=True))
    assert (memory["pairs"], memory["batch"]) == (1200, 1200)
    assert min(memory["first_bytes"], memory["worker_bytes"]) > 1e6
    with open_store(f"sqlite:///{tmp_path}/c.db") as store:
        assert {row.sweep for row in store.pairs()} == {1}
        [first, other] = [row for row in store.pairs() if row.id in (1, 301)]
        assert [word.rpartition("_")[::2] for word in other.source.split()] == [
            (word.rpartition("_")[0], "1") for word in first.source.split()
        ]


def test_the_simulation_adds_up() -> None:
    one = simulate(COSTS, 10_000, 1, batch=20_000)
    assert one.sampling == 10.0
    assert one.sending == 0.0
    assert one.merging == pytest.approx(0.01)
    assert one.rounds == pytest.approx(0.02)
    assert one.store == pytest.approx(0.4)
    assert one.table_bytes == pytest.approx(10_000 * 132)
    assert one.seconds == pytest.approx(10.43)
    four = simulate(COSTS, 10_000, 4, cores=2, network=1e6, imbalance=0.2, batch=5_000)
    assert four.sampling == pytest.approx(3.0)
    # Two machines; each sends a half to the other.
    assert four.sending == pytest.approx(10_000 * 10 * 32 / 1e6 / 2)
    assert four.rounds == pytest.approx(0.04)
    assert four.store == one.store
    slow = simulate(replace(COSTS, commit_seconds=3e-4), 10_000, 64, network=1e6, batch=20_000)
    assert slow.store == pytest.approx(3.1)
    by_workers = replace(COSTS, open_seconds=0.0, shared_seconds=6.4e-4)
    assert simulate(by_workers, 10_000, 1).store == pytest.approx(6.7)
    assert simulate(by_workers, 10_000, 64).store == pytest.approx(0.3 + 0.1)
    # Four machines; the first sends the parts of three others, and receives its own.
    assert slow.sending == pytest.approx(4 * 10_000 * 10 * 32 / 1e6)
