"""Background compilation of the sweep kernel: results are the same with and without it, and failures are harmless."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.learning.checksum import checksum

from hierogram.daemon.learning.kinds import synchronous as kernels
from hierogram.daemon.learning.kinds.synchronous import BackgroundCompilation
from hierogram.samplers.compiled.jit import cache_folder

COMMAND = [sys.executable, "-m", "hierogram.daemon.learning.kinds.synchronous", "0"]

LEARNING = """
import sys
from tests.daemon.learning.checksum import checksum
from hierogram.samplers.synchronous.sweeps import compile_sweep, sweep_pairs
print(checksum(sys.argv[1]), sum(sweep_pairs.stats.cache_hits.values()), sum(sweep_pairs.stats.cache_misses.values()))
compile_sweep()
print(len(sweep_pairs.signatures))
"""
"""Script that prints the checksum, the cache hits and misses of the sweep kernel, and the number of its signatures."""

COPIED_KERNEL = """
import sys
from tests.daemon.learning import checksum
from hierogram.daemon.learning.kinds import synchronous as compiling
compiling.count_processors = lambda: 2
start = compiling.subprocess.Popen
copying = "import shutil, sys, time; time.sleep(0.5); shutil.copytree(*sys.argv[1:], dirs_exist_ok=True)"
copy = [sys.executable, "-c", copying, *sys.argv[2:]]
compiling.subprocess.Popen = lambda command, **given: start(copy if "-P" in command else command, **given)
"""
"""Code that makes the background process copy a compiled kernel instead of compiling it."""


@pytest.fixture
def expected(tmp_path: Path) -> int:
    """Checksum of learning with the current cache. Missing kernels are compiled into it."""
    folder = tmp_path / "expected"
    folder.mkdir()
    return checksum(str(folder))


@pytest.fixture
def hide_sweep_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make learning compile the sweep kernel in the background: report it as not cached, and two processors."""
    monkeypatch.setattr(kernels, "is_cached", lambda _kernel: False)
    monkeypatch.setattr(kernels, "count_processors", lambda: 2)


def run_without_the_kernel(folder: Path, before: str = "") -> list[str]:
    """Return the output of `LEARNING` with a cache that lacks only the sweep kernel."""
    cache = folder / "cache"
    ours = cache / "hierogram" / "kernels" / cache_folder().name
    shutil.copytree(cache_folder(), ours, ignore=shutil.ignore_patterns("sweeps.sweep_pairs*"))
    ran = subprocess.run(
        [sys.executable, "-c", before + LEARNING, str(folder), str(cache_folder()), str(ours)],
        env={**os.environ, "HIEROGRAM_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.slow
def test_learning_waits_for_the_background_kernel(tmp_path: Path, expected: int) -> None:
    assert run_without_the_kernel(tmp_path, COPIED_KERNEL) == [str(expected), "1", "0", "1"]


@pytest.mark.campaign
def test_learning_uses_the_kernel_compiled_in_the_background(tmp_path: Path, expected: int) -> None:
    # A single processor compiles in the foreground; otherwise the background process has cached the kernel.
    hits, misses = ("1", "0") if kernels.count_processors() > 1 else ("0", "1")
    assert run_without_the_kernel(tmp_path) == [str(expected), hits, misses, "1"]
    assert len(list((tmp_path / "cache").rglob("sweeps.sweep_pairs*.nbc"))) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("hide_sweep_kernels")
def test_learning_succeeds_if_the_compiler_dies(tmp_path: Path, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    class Doomed(BackgroundCompilation):
        def __init__(self) -> None:
            super().__init__()
            assert self.process is not None
            started.append(self.process.pid)
            os.kill(self.process.pid, signal.SIGKILL)

    monkeypatch.setattr("hierogram.daemon.learning.kinds.synchronous.BackgroundCompilation", Doomed)
    assert checksum(str(tmp_path)) == expected
    assert len(started) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


@pytest.mark.usefixtures("hide_sweep_kernels")
def test_a_compiler_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_COMPILE_SECONDS", 0.0)
    kernel = BackgroundCompilation()
    assert kernel.process is not None
    number = kernel.process.pid
    os.kill(number, signal.SIGSTOP)
    kernel.wait()
    assert kernel.process is None
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_the_compiler_ends_with_its_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "HIEROGRAM_CACHE": str(tmp_path)}
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("hide_sweep_kernels")
def test_with_an_unwritable_cache_kernels_run_but_none_is_compiled_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HIEROGRAM_CACHE", str(file))
    assert BackgroundCompilation().process is None
    script = "from hierogram.samplers.compiled.streams import mix; print(mix(0))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "0"


@pytest.mark.usefixtures("hide_sweep_kernels")
def test_a_single_processor_does_not_compile_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "count_processors", lambda: 1)
    assert BackgroundCompilation().process is None


@pytest.mark.usefixtures("expected")
def test_cached_kernels_are_not_compiled() -> None:
    assert BackgroundCompilation().process is None
