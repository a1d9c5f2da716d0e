"""Daemons as separate processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from hierogram.daemon.serving.spool import create_spool

SECONDS = 120.0
"""Timeout in seconds for an expected event, which may include the compilation of kernels."""


class Daemon:
    """A running `hierogram serve` whose log is read as it is written. Environment values of None remove a variable."""

    def __init__(self, *arguments: str, **environment: str | None) -> None:
        variables: dict[str, str | None] = {
            name: value for name, value in os.environ.items() if not name.startswith("HIEROGRAM_S")
        }
        variables |= {
            "HIEROGRAM_LOG__FORMAT": "json",
            "HIEROGRAM_SPOOL__POLL_SECONDS": "0.05",
            "HIEROGRAM_HTTP__PORT": "0",
            "HIEROGRAM_SAMPLING__COMMIT_SECONDS": "0.2",
        }
        variables |= environment
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hierogram.daemon.cli.main", "serve", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in variables.items() if value is not None},
        )
        assert self.process.stderr is not None
        self.errors: IO[str] = self.process.stderr
        self.log: list[str] = []

    def until(self, event: str) -> dict[str, object]:
        """Read the log up to the event and return its entry. Fails if the log ends before."""
        for line in self.errors:
            self.log.append(line)
            if line.startswith("{"):
                entry: dict[str, object] = json.loads(line)
                if entry["event"] == event:
                    return entry
        raise AssertionError(f"event {event!r} not found in: {''.join(self.log)}")

    def until_port(self) -> int:
        """Read the log until the daemon listens, and return the port."""
        for line in self.errors:
            self.log.append(line)
            if "listening on http://" in line:
                return int(str(json.loads(line)["event"]).rpartition(":")[2])
        raise AssertionError(f"the daemon does not listen: {''.join(self.log)}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.send(number)
        self.log += self.errors.readlines()
        return self.process.wait(SECONDS)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.errors.close()
        self.process.wait()


@pytest.fixture
def serve() -> Iterator[Callable[..., Daemon]]:
    """Function that starts a daemon. Daemons that still run at the end of the test are killed."""
    running: list[Daemon] = []

    def start(*arguments: str, **environment: str | None) -> Daemon:
        running.append(Daemon(*arguments, **environment))
        return running[-1]

    yield start
    for daemon in running:
        daemon.kill()


def drop(folder: Path, name: str, content: str) -> None:
    """Write a file under a hidden name, then rename it in the spool."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text(content)
    hidden.rename(folder / name)


def until(what: Callable[[], bool]) -> None:
    """Wait until a condition is true. Fails after `SECONDS`."""
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.05)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    create_spool(folder)
    return folder
