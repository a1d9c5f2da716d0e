"""The README's commands for the daemon run."""

import json
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, QUICK, Run
from tests.daemon.serving.conftest import Daemon, until

from hierogram.storage.store import open_store

README = (Path(__file__).parents[3] / "README.md").read_text()
TOUR = README.split("## Run the daemon")[1].split("\n## ")[0]


@pytest.mark.slow
def test_commands_of_the_readme_for_the_daemon_run(
    tmp_path: Path, serve: Callable[..., Daemon], hierogram: Run
) -> None:
    for name, column in zip(
        ("news.fr", "news.en", "news.align"), zip(*(line.split(" ||| ") for line in LINES), strict=True), strict=True
    ):
        (tmp_path / name).write_text("".join(line + "\n" for line in column))
    store = open_store("live.db", create=True, settings=QUICK)
    lines = [line for block in re.findall(r"```sh\n(.*?)```", TOUR, re.DOTALL) for line in block.splitlines()]
    prepare, start, *others = lines
    assert prepare == "mkdir -p incoming"
    (tmp_path / "incoming").mkdir()
    program, option, url, command, *arguments, background = shlex.split(start)
    assert (program, option, command, background) == ("hierogram", "--store", "serve", "&")
    daemon = serve("--store", url, *arguments)
    port = daemon.until_port()
    ran = []
    for line in others:
        program, *arguments = shlex.split(line)
        ran.append(program)
        if program in ("paste", "mv"):
            subprocess.run(line, shell=True, check=True)
        elif program == "curl":
            until(lambda: store.count_pairs(["settled"]) == 9)
            with urllib.request.urlopen(arguments[-1].replace(":8470/", f":{port}/"), timeout=60) as answer:
                assert json.load(answer)
        elif program == "hierogram":
            printed = hierogram(*arguments)
            assert printed.code == 0
            if "sql" in arguments:
                assert len(printed.out.splitlines()) > 1
            else:
                until(lambda: store.pairs_by_id([1]) == [])
        else:
            assert line == "kill %1"
            assert daemon.end(signal.SIGTERM) == 0
    assert ran == ["paste", "mv", "curl", "curl", "hierogram", "hierogram", "hierogram", "kill"]
    store.close()
