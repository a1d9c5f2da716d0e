"""The kernel of a sweep, compiled next door: the same results with it and without, whatever befalls it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.learning.checksum import learned

from hierogram.daemon.learning.kinds import compiling as kernels
from hierogram.daemon.learning.kinds.compiling import SweepKernel
from hierogram.samplers.compiled.cache import cache_folder

COMMAND = [sys.executable, "-m", "hierogram.daemon.learning.kinds.compiling", "0"]

LEARNING = """
import sys
from tests.daemon.learning.checksum import learned
from hierogram.samplers.synchronous.sweeps import compile_sweep, sweep_pairs
print(learned(sys.argv[1]), sum(sweep_pairs.stats.cache_hits.values()), sum(sweep_pairs.stats.cache_misses.values()))
compile_sweep()
print(len(sweep_pairs.signatures))
"""
"""What is learned, whether the cache had the kernel, and how many kernels there are with that compiled next door."""

BROUGHT = """
import sys
from tests.daemon.learning import checksum
from hierogram.daemon.learning.kinds import compiling
compiling.processors = lambda: 2
start = compiling.subprocess.Popen
copying = "import shutil, sys, time; time.sleep(0.5); shutil.copytree(*sys.argv[1:], dirs_exist_ok=True)"
copy = [sys.executable, "-c", copying, *sys.argv[2:]]
compiling.subprocess.Popen = lambda command, **given: start(copy if "-P" in command else command, **given)
"""
"""The process next door brings a kernel that was compiled before, in the place of compiling it."""


@pytest.fixture
def expected(tmp_path: Path) -> int:
    """The checksum with what the cache has; where it has nothing, it is filled."""
    folder = tmp_path / "expected"
    folder.mkdir()
    return learned(str(folder))


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the cache had no kernel of a sweep."""
    monkeypatch.setattr(kernels, "is_kept", lambda _kernel: False)
    monkeypatch.setattr(kernels, "processors", lambda: 2)


def learned_without_the_kernel(folder: Path, before: str = "") -> list[str]:
    """What `LEARNING` prints, with a cache that has all kernels but that of a sweep."""
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
def test_learning_waits_for_the_kernel_from_next_door(tmp_path: Path, expected: int) -> None:
    assert learned_without_the_kernel(tmp_path, BROUGHT) == [str(expected), "1", "0", "1"]


@pytest.mark.campaign
def test_learning_takes_the_kernel_that_was_compiled_beside_it(tmp_path: Path, expected: int) -> None:
    # One processor compiles for itself; where there are more, the other process has put the kernel into the cache.
    hits, misses = ("1", "0") if kernels.processors() > 1 else ("0", "1")
    assert learned_without_the_kernel(tmp_path) == [str(expected), hits, misses, "1"]
    assert len(list((tmp_path / "cache").rglob("sweeps.sweep_pairs*.nbc"))) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("unknown")
def test_a_compiler_that_dies_is_done_without(tmp_path: Path, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    class Doomed(SweepKernel):
        def __init__(self, method: int) -> None:
            super().__init__(method)
            assert self.process is not None
            started.append(self.process.pid)
            os.kill(self.process.pid, signal.SIGKILL)

    monkeypatch.setattr("hierogram.daemon.learning.kinds.synchronous.SweepKernel", Doomed)
    assert learned(str(tmp_path)) == expected
    assert len(started) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


@pytest.mark.usefixtures("unknown")
def test_a_compiler_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_SECONDS", 0.0)
    kernel = SweepKernel()
    assert kernel.process is not None
    number = kernel.process.pid
    os.kill(number, signal.SIGSTOP)
    kernel.wait()
    assert kernel.process is None
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_the_compiler_ends_with_who_started_it(tmp_path: Path) -> None:
    environment = {**os.environ, "HIEROGRAM_CACHE": str(tmp_path)}
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("unknown")
def test_nothing_is_compiled_for_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HIEROGRAM_CACHE", str(file))
    assert SweepKernel().process is None
    script = "from hierogram.samplers.compiled.streams import mix; print(mix(0))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "0"


@pytest.mark.usefixtures("unknown")
def test_one_processor_compiles_everything_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "processors", lambda: 1)
    assert SweepKernel().process is None


@pytest.mark.usefixtures("expected")
def test_what_the_cache_has_is_not_compiled() -> None:
    assert SweepKernel().process is None
