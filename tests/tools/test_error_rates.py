"""Error rates with several seeds: a table, and runs that are found again."""

import json
from pathlib import Path

from tests.tools.programs import printed


def test_seeds_are_averaged_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "gold-fr-en-small"
    folder.mkdir()
    (folder / "corpus.fr").write_text("la maison bleue\nla porte\nune porte bleue\n" * 5)
    (folder / "corpus.en").write_text("the blue house\nthe door\na blue door\n" * 5)
    (folder / "gold.talp").write_text("0-0 1-2 2-1\n0-0 1-1\n0-0 1-2 2-1\n" * 5)
    kept = tmp_path / "kept.json"
    options = ["--model", "bhmm", "--seeds", "2", "--results", kept, "--threads", "1"]

    def row() -> list[str]:
        said = printed("error_rates", folder, *options)
        return [cell.strip() for cell in said.splitlines()[-1].strip("|").split("|")]

    first = row()
    assert first[:3] == ["gold-fr-en-small", "15", "bhmm"]
    runs = json.loads(kept.read_text())
    rates = sorted(run["aer"] for run in runs.values())
    assert first[3:6] == [f"{sum(rates) / 2:.4f}", f"{rates[0]:.4f}", f"{rates[1]:.4f}"]
    name = next(iter(runs))
    runs[name]["aer"] = 1.0
    kept.write_text(json.dumps(runs))
    assert row()[5] == "1.0000"
