"""The comparison of alignment on arrival with that of the whole, on an invented corpus."""

import json
from pathlib import Path

import pytest
from tests.daemon.learning.alignment.languages import invented

from hierogram.tools.lab.incremental_alignment import incremental


@pytest.mark.slow
def test_what_arrives_is_compared_with_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources, targets, alignments = invented(120)
    folder = tmp_path / "gold-aa-bb"
    folder.mkdir()
    for name, lines in (("corpus.aa", sources), ("corpus.bb", targets), ("gold.talp", alignments[:40])):
        (folder / name).write_text("".join(line + "\n" for line in lines))
    incremental([str(folder)], threads=1, as_json=True)
    [row] = json.loads(capsys.readouterr().out)
    assert (row["pairs"], row["arrived"], row["evaluated"]) == (120, 12, 12)
    assert max(row[f"{which}_aer"] for which in ("batch", "arrival", "whole", "grown")) < 0.2
    assert min(row["arrival_seconds"], row["grown_seconds"]) > 0
    assert row["batch_seconds"] > 0
    incremental([str(folder)], threads=1)
    assert "gold-aa-bb" in capsys.readouterr().out
