"""The measurement of growing stores: pairs are joined with their links, and stored figures are reused."""

import json
import re
from pathlib import Path

import pytest
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.measures.growth import shuffled_pairs


def test_joined_pairs_have_the_links_of_both() -> None:
    pairs = list(shuffled_pairs([("a b", "x", "0-0 1-0"), ("c", "y z", "0-1")]))
    assert len(pairs) == 12
    assert {("a b", "x", "0-0 1-0"), ("c", "y z", "0-1")} < set(pairs)
    joined = {("a b c", "x y z", "0-0 1-0 2-2"), ("c a b", "y z x", "0-1 1-2 2-2")}
    assert joined & set(pairs)
    assert {len(source.split()) for source, *_ in pairs} <= {1, 2, 3, 4}


@pytest.mark.slow
def test_the_measurement_prints_tables_and_reuses_stored_figures(tmp_path: Path) -> None:
    for name, lines in {
        "f": [f"le chat {k % 7} dort {k}" for k in range(120)],
        "e": [f"the cat {k % 7} sleeps {k}" for k in range(120)],
        "a": ["0-0 1-1 2-2 3-3 4-4"] * 120,
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    options = ["--work", tmp_path / "work", "--pairs", "400,500", "--sweeps", "0"]
    arguments = "measures.growth", tmp_path / "f", tmp_path / "e", tmp_path / "a", *options
    output = run_lab(*arguments)
    assert output.count("| pairs | ingest | learn | ingest 300 | learn 300 | export | verify |") == 3
    assert re.search(r"Sizes:\n\n.*\n.*\n\| 400 \| [\d,]+ \| [\d.]+ \|\n\| 500 \| ", output)
    cache = tmp_path / "work" / "growth.json"
    figures = json.loads(cache.read_text())
    assert len(figures) == 2 * 6
    run_lab(*arguments)
    assert json.loads(cache.read_text()) == figures
