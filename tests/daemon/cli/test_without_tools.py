"""The daemon without tools: their entry points are hidden, and their modules cannot be imported."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES
from tests.daemon.serving.conftest import Daemon, drop, serve, until

from hierogram.storage.store import open_store

__all__ = ["serve"]

HIDDEN = """
import importlib.metadata
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "hierogram.tools" or name.startswith("hierogram.tools."):
            raise ImportError(f"{name} is not installed")


found = importlib.metadata.entry_points


def entry_points(**chosen):
    return () if chosen.get("group") == "hierogram.extensions" else found(**chosen)


importlib.metadata.entry_points = entry_points
sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Search path of modules for processes that have no tools."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDDEN)
    return os.pathsep.join(filter(None, (str(tmp_path / "site"), *sys.path)))


def run(path: str, *arguments: str | Path, code: int = 0) -> tuple[str, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "hierogram", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout, ran.stderr


def test_command_line_without_tools_has_only_daemon_commands(path: str) -> None:
    listed, _ = run(path, "--help")
    commands = {line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line.strip()}
    assert {"init", "ingest", "learn", "align", "rules", "export", "verify", "serve"} <= commands
    assert not {"translate", "tune", "lm", "terms", "score", "evidence", "diagnose", "parse", "demo"} & commands


@pytest.mark.slow
def test_commands_without_tools_learn_query_and_export(path: str, tmp_path: Path) -> None:
    (tmp_path / "news.bars").write_text("".join(line + "\n" for line in LINES))
    store = ("--store", tmp_path / "s.db")
    run(path, *store, "ingest", tmp_path / "news.bars")
    run(path, *store, "learn", "--sweeps", "2")
    found, _ = run(path, *store, "rules", "maison", "--json")
    assert json.loads(found)
    run(path, *store, "export", "-o", tmp_path / "grammar.cdec")
    assert " ||| " in (tmp_path / "grammar.cdec").read_text()
    run(path, *store, "verify")
    _, errors = run(path, *store, "export", "-o", tmp_path / "grammar.packed", code=2)
    assert errors == "hierogram: --format packed requires the translation extension: install hierogram with its tools\n"


@pytest.mark.slow
def test_daemon_without_tools_learns_and_answers_queries(
    path: str, serve: Callable[..., Daemon], tmp_path: Path
) -> None:
    url, spool = f"sqlite:///{tmp_path}/s.db", tmp_path / "spool"
    daemon = serve("--store", url, "--spool", str(spool), PYTHONPATH=path)
    port = daemon.until_port()
    drop(spool, "news.bars", "".join(line + "\n" for line in LINES))
    daemon.until("file ingested")
    with open_store(url) as store:
        until(lambda: store.status().rules_in_use)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/rules?source=maison", timeout=60) as answer:
        assert json.load(answer)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as page:
        assert "/translate" not in page.read().decode()
    assert daemon.end() == 0
