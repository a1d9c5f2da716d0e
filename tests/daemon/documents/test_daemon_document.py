"""The examples of docs/daemon.md work."""

import re
import shlex
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, Run

from hierogram.daemon.configuration import load_configuration

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "daemon.md").read_text()


def test_the_example_configuration_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIEROGRAM_STORE", raising=False)
    [example] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    file = tmp_path / "daemon.toml"
    file.write_text(example)
    assert load_configuration(file).spool.folder == Path("/var/spool/hierogram")


def test_documented_withdraw_commands_run(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(line + "\n" for line in LINES * 3))
    named = '{"id": "news-17", "source": "la", "target": "the", "alignment": [[0, 0]]}\n'
    (tmp_path / "named").write_text(named)
    assert hierogram("--store", "sqlite:///news.db", "ingest", "lines").code == 0
    assert hierogram("--store", "sqlite:///news.db", "ingest", "--corpus", "news", "named").code == 0
    shown = [shlex.split(line) for line in DOCUMENT.splitlines() if line.startswith("hierogram withdraw")]
    assert len(shown) == 2
    for _, *arguments in shown:
        assert hierogram(*arguments).code == 0, arguments
