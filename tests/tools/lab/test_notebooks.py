"""Each notebook runs in 20 seconds of processor time and reproduces its stored output."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from hierogram.tools.lab.notebooks import main, with_outputs

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))
MAX_BYTES = 60_000


def stored_outputs(notebook: dict[str, Any]) -> list[Any]:
    """Return the outputs of all cells, without temporary folders."""
    outputs = [cell.get("outputs") for cell in notebook["cells"]]
    return json.loads(re.sub(r"sqlite:[^ \"&<]*/", "sqlite:///", json.dumps(outputs)))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_reproduces_its_stored_output(path: Path) -> None:
    kept = json.loads(path.read_text())
    started = time.process_time()
    again = with_outputs(kept)
    # The three notebooks together may take a minute.
    assert time.process_time() - started < 20
    assert stored_outputs(again) == stored_outputs(kept)
    assert sum(map(bool, stored_outputs(again))) > 4
    assert path.stat().st_size < MAX_BYTES


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_grammar", "priors", "terminology"]


def test_outputs_are_the_printed_text_and_the_last_value(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Sums"]},
        {"cell_type": "code", "source": ["x = 2\n", "print(x)\n", "x + 1"], "outputs": ["old"]},
        {"cell_type": "code", "source": ["x = None"]},
    ]
    (tmp_path / "sums.ipynb").write_text(json.dumps({"cells": cells}))
    main([str(tmp_path / "sums.ipynb")])
    text, sums, nothing = json.loads((tmp_path / "sums.ipynb").read_text())["cells"]
    assert "outputs" not in text
    assert [one.get("text") or one["data"]["text/plain"] for one in sums["outputs"]] == [["2\n"], ["3"]]
    assert nothing["outputs"] == []
