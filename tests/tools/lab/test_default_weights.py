"""Tuning of one set of weights for several stores."""

from pathlib import Path

import pytest
from tests.daemon.conftest import LINES
from tests.tools.lab.programs import run_lab

import hierogram as hg
from hierogram.daemon.exports.formats import DEFAULT_WEIGHTS
from hierogram.tools.translation.grammars import read_weights


@pytest.mark.slow
def test_weights_are_tuned_for_all_stores(tmp_path: Path) -> None:
    stores = [str(tmp_path / name) for name in ("a.db", "b.db")]
    for path in stores:
        with hg.open(path, create=True) as store:
            store.add([tuple(line.split(" ||| ")[:2]) for line in LINES for _ in range(5)])
            store.learn(2).run()
    output = tmp_path / "weights.toml"
    run_lab("default_weights", *stores, "-o", str(output), "--sentences", "3", "--rounds", "1")
    assert read_weights(str(output)).keys() == DEFAULT_WEIGHTS.keys()
