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
from hierogram.daemon.learning.learner import Learner
from hierogram.samplers.synchronous.sweeps import sweep_pairs
print(learned(sys.argv[1]), sum(sweep_pairs.stats.cache_hits.values()), sum(sweep_pairs.stats.cache_misses.values()))
"""


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


def test_learning_takes_the_kernel_that_was_compiled_beside_it(tmp_path: Path, expected: int) -> None:
    cache = tmp_path / "cache"
    without = shutil.ignore_patterns("sweeps.sweep_pairs*")
    shutil.copytree(cache_folder(), cache / "hierogram" / "kernels" / cache_folder().name, ignore=without)
    ran = subprocess.run(
        [sys.executable, "-c", LEARNING, str(tmp_path)],
        env={**os.environ, "HIEROGRAM_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    # One processor compiles for itself; where there are more, the other process has put the kernel into the cache.
    hits, misses = ("1", "0") if kernels.processors() > 1 else ("0", "1")
    assert ran.stdout.split() == [str(expected), hits, misses]
    assert ran.stderr == ""
    assert len(list(cache.rglob("sweeps.sweep_pairs*.nbc"))) == 1


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
