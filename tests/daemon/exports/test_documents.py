"""The examples and tables of docs/exports.md are correct."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.conftest import Run, make_store

from hierogram.daemon.configuration import load_configuration
from hierogram.daemon.exports.formats import FEATURES, FORMATS
from hierogram.daemon.exports.publication import Manifest

DOCUMENT = (Path(__file__).parents[3] / "docs" / "exports.md").read_text()


def section(title: str) -> str:
    return re.split(r"^## ", DOCUMENT.split(f"## {title}\n")[1], flags=re.MULTILINE)[0]


def first_cells(title: str) -> list[str]:
    return re.findall(r"^\| `([^`]*)` \|", section(title), re.MULTILINE)


@pytest.mark.slow
def test_documented_export_commands_run(hierogram: Run, corpus: Path, make_bucket: Callable[[str], object]) -> None:
    make_bucket("bucket")
    make_store(schedule="paper", sweeps_per_level=2, levels=3, round_sweeps=2)
    hierogram("ingest", str(corpus))
    hierogram("learn", "--sweeps", "2")
    blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(commands) >= 9
    for _, *arguments in commands:
        ran = hierogram(*arguments)
        assert ran.code == 0, ran.err


def test_documented_tables_of_formats_and_features_are_complete() -> None:
    assert first_cells("Formats") == [name for name, format in FORMATS.items() if not format.word_list]
    assert first_cells("Features") == [feature.name for feature in FEATURES]
    for name, cdec in ((feature.name, feature.cdec) for feature in FEATURES):
        assert re.search(rf"^\| `{name}` .* `{cdec}` \|$", section("Features"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", section("The manifest"))) >= set(Manifest.__dataclass_fields__)


def test_the_documented_configuration_is_valid(tmp_path: Path) -> None:
    [block] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "hierogram.toml").write_text(block)
    [job] = load_configuration(tmp_path / "hierogram.toml").exports
    assert (job.name, job.hiero, job.keep) == ("nightly", True, 7)
