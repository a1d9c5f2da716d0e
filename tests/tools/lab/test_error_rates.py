"""Error rates with several seeds: a table, and runs that are found again."""

import json
from pathlib import Path

import pytest
from tests.tools.lab.programs import printed


@pytest.mark.slow
def test_seeds_are_averaged_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "gold-fr-en-small"
    folder.mkdir()
    (folder / "corpus.fr").write_text("la maison bleue\nla porte\nune porte bleue\n" * 5)
    (folder / "corpus.en").write_text("the blue house\nthe door\na blue door\n" * 5)
    (folder / "gold.talp").write_text("0-0 1-2 2-1\n0-0 1-1\n0-0 1-2 2-1\n" * 5)
    kept = tmp_path / "kept.json"
    options = ["--model", "bhmm", "--seeds", "2", "--symmetrize", "union", "--symmetrize", "intersect"]
    options += ["--results", kept, "--threads", "1"]

    def rows() -> list[list[str]]:
        said = printed("error_rates", folder, *options)
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines()[-2:]]

    found = rows()
    runs = json.loads(kept.read_text())
    for first, links in zip(found, ("union", "intersect"), strict=True):
        assert first[:4] == ["gold-fr-en-small", "15", "bhmm", links]
        rates = sorted(run["aer"] for name, run in runs.items() if links in name)
        assert first[4:7] == [f"{sum(rates) / 2:.4f}", f"{rates[0]:.4f}", f"{rates[1]:.4f}"]
    assert found[0][7:9] != found[1][7:9]
    name = next(iter(runs))
    runs[name]["aer"] = 1.0
    kept.write_text(json.dumps(runs))
    assert rows()[0][6] == "1.0000"
