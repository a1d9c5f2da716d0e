"""`hierogram status --watch` prints the state of a store repeatedly."""

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.daemon.conftest import Run
from tests.storage.plans import assert_no_scan, plan_of, plans

from hierogram.daemon.cli.stores import _display
from hierogram.daemon.library.store import StoreSummary
from hierogram.storage.browsing.progress import latest_rules
from hierogram.storage.browsing.reader import Reader

DOCUMENT = (Path(__file__).parents[3] / "docs" / "daemon.md").read_text()


@pytest.fixture(autouse=True)
def _reports_twice(learned_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop watching after two reports, as Ctrl-C does."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) % 2 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr("hierogram.daemon.cli.stores.time.sleep", pause)


def test_the_documented_example_runs(hierogram: Run, learned_url: str) -> None:
    [command] = re.findall(r"^hierogram status --watch.*$", DOCUMENT, re.MULTILINE)
    ran = hierogram("--store", learned_url, *shlex.split(command)[1:])
    assert ran.code == 0
    assert ran.out.count("9 pairs (0 unaligned, 0 waiting, ") == 2
    assert ran.out.count(" ||| ") == 30


def test_reports_as_json(hierogram: Run, learned_url: str) -> None:
    ran = hierogram("--store", learned_url, "status", "--watch", "--json", "--every", "0.1")
    seen, again = map(json.loads, ran.out.splitlines())
    assert seen == again
    assert sum(seen["pairs"].values()) == 9
    assert seen["pair_sweeps_per_second"] > 0
    assert len(seen["latest_rules"]) == 15
    assert all(rule["uses"] > 0 for rule in seen["latest_rules"])


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_reports_are_flushed_through_a_pipe(learned_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    command = [sys.executable, "-m", "hierogram.daemon.cli.main", "--store", learned_url, "status", "--watch"]
    for flags in ([], ["--json"]):
        with subprocess.Popen([*command, *flags, "--every", "60"], stdout=subprocess.PIPE, text=True) as watched:
            assert watched.stdout is not None
            # Read a line while the command waits for the next report.
            assert "position" in watched.stdout.readline()
            watched.send_signal(signal.SIGINT)
            assert watched.wait(30) == 0


def test_words_that_look_like_markup_are_shown_literally(hierogram: Run, learned_url: str) -> None:
    ran = hierogram("--store", learned_url, "status", "--watch", "--json")
    seen = json.loads(ran.out.splitlines()[0])
    seen["latest_rules"] = [{"source": "[red]la", "target": "[X,1] the", "uses": 3}]
    console = Console(file=io.StringIO(), width=100)
    console.print(_display(StoreSummary(**seen)))
    shown = console.file.getvalue()
    assert "[red]la" in shown
    assert "[X,1] the" in shown


def test_the_latest_rules_are_found_by_their_ids(learned_url: str) -> None:
    with Reader(learned_url) as reader, plans() as seen, reader.read() as look:
        assert len(latest_rules(look, 4)) == 4
    assert_no_scan(plan_of(seen, "FROM rules"), "rules")
