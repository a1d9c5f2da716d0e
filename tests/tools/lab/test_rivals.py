"""One command makes the table of rivals, and its significance test resamples both chains and sentences."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.tools.lab.grammars import write_bitext
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.papers import rivals
from hierogram.tools.lab.papers.rivals import bootstrap_p_value


@pytest.mark.slow
def test_one_command_makes_the_table_of_rivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "bootstrap_p_value", partial(bootstrap_p_value, resamples=100))
    bitext = write_bitext(tmp_path)
    arguments = [*bitext, "--work", tmp_path / "work"]
    arguments += ["--tuning", "12", "--test", "12", "--iterations", "1", "--chains", "2"]
    output = run_lab("papers.rivals", *arguments)
    rows = {row["name"]: row for row in json.loads((tmp_path / "work" / "rivals.json").read_text())}
    assert all(f"\n{name}\t" in f"\n{output}" for name in rows)
    hiero, default, means = (rows[name] for name in ("Hiero, all features", "translation grammar", "posterior means"))
    assert (hiero["ratio"], hiero["p"]) == (1.0, None)
    assert (default["chains"], means["chains"], hiero["chains"]) == (2, 2, 1)
    assert means["rules"] < default["rules"] < hiero["rules"] == rows["Hiero"]["rules"]
    first = rows["Hiero pruned by mass"]["rules"]
    assert first <= hiero["rules"]
    assert all(rows[f"Hiero pruned by {name}"]["rules"] == first for name in ("significance", "entropy"))
    assert default["spread"][0] <= default["bleu"] <= default["spread"][1]
    assert 0 < default["p"] <= 1
    run_lab("papers.rivals", *arguments, "--only", "entropy")
    some = json.loads((tmp_path / "work" / "rivals.json").read_text())
    assert [row["name"] for row in some] == ["Hiero, all features", "Hiero pruned by entropy"]


def test_only_differences_beyond_the_spread_of_chains_are_significant() -> None:
    def statistics(matches: list[float]) -> np.ndarray:
        """Return BLEU statistics of ten-word sentences for one chain per share of matching n-grams."""
        rows = [[[own * n for n in (10, 9, 8, 7)] + [10, 9, 8, 7, 10, 10]] * 30 for own in matches]
        return np.array(rows, np.float64).reshape(len(matches), 30, 10)

    steady, better = statistics([0.5, 0.5]), statistics([0.6, 0.6])
    assert bootstrap_p_value(steady, better, 200) < 0.05
    assert bootstrap_p_value(steady, statistics([0.3, 0.9]), 200) > 0.05
    assert bootstrap_p_value(steady, steady, 200) == 1
