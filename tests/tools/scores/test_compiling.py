"""The process that compiles a daemon's score kernels ends if the daemon is stopped or killed."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.daemon.serving.conftest import Daemon, serve, until

from hierogram.samplers.compiled.jit import cache_folder
from hierogram.storage.store import Store

__all__ = ["serve"]

SECONDS = 30.0
"""Timeout for the end of a daemon that does not wait for compilation, which takes longer."""


def compiling_for(daemon: Daemon) -> list[psutil.Process]:
    """Return the processes of the daemon that compile score kernels."""
    children = psutil.Process(daemon.process.pid).children()
    return [child for child in children if "hierogram.tools.scores.loop" in child.cmdline()]


def has_ended(process: psutil.Process) -> bool:
    # The process that adopts orphans may be slow to reap them.
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def compiling(learned: Store, serve: Callable[..., Daemon], tmp_path: Path) -> tuple[Daemon, psutil.Process]:
    """A daemon whose cache lacks the score kernels, and the process that is compiling them."""
    cache = tmp_path / "cache"
    ours = cache / "hierogram" / "kernels" / cache_folder().name
    shutil.copytree(cache_folder(), ours, ignore=shutil.ignore_patterns("scores.scorer", "charts.dense"))
    daemon = serve("--store", learned.url, HIEROGRAM_CACHE=str(cache))
    daemon.until_port()
    until(lambda: bool(compiling_for(daemon)))
    [process] = compiling_for(daemon)
    # Wait for the small kernels, which are compiled first, so that a large kernel is being compiled.
    until(lambda: (ours / "scores.scorer").exists())
    assert not has_ended(process)
    return daemon, process


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_a_daemon_ends_in_time_while_its_kernels_are_compiled(compiling: tuple[Daemon, psutil.Process]) -> None:
    daemon, process = compiling
    began = time.monotonic()
    assert daemon.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < SECONDS
    assert has_ended(process)


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_a_killed_daemon_leaves_no_compiling_process(compiling: tuple[Daemon, psutil.Process]) -> None:
    daemon, process = compiling
    daemon.kill()
    began = time.monotonic()
    until(lambda: has_ended(process))
    assert time.monotonic() - began < SECONDS
