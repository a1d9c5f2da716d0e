"""Work in a child process: its results, errors and limits, and the end of the process."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes import is_running
from tests.storage import child_work

from hierogram.storage.exceptions import HumanLinksError, StoreUnavailableError, WorkerProcessError
from hierogram.storage.worker_process import WorkerProcess


def nothing() -> None:
    pass


@pytest.fixture
def child() -> Iterator[WorkerProcess]:
    made = WorkerProcess(memory_bytes=1 << 28, silent_seconds=3.0)
    yield made
    made.close()


def wait_until_ended(process: int) -> None:
    end = time.monotonic() + 30
    while is_running(process):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_one_process_returns_the_results_of_several_tasks(child: WorkerProcess) -> None:
    first = list(child.run(nothing, child_work.count, 3))
    assert [k for k, _ in first] == [0, 1, 2]
    assert {process for _, process in first} == {child.pid} != {os.getpid()}
    assert {process for _, process in child.run(nothing, child_work.count, 2)} == {child.pid}
    assert [len(text) for text in child.run(nothing, child_work.large, 30_000_000)] == [30_000_000]


def test_reading_imports_no_compiler_database_or_web_framework() -> None:
    """The compiler, the database driver and the web framework take longer to import than most files take to read."""
    code = (
        "import hierogram.daemon.text.reading, hierogram.daemon.text.translation_memories, sys;"
        "import hierogram.daemon.text.treebanks.reading;"
        "print([name for name in ('numba', 'sqlalchemy', 'fastapi', 'pydantic', 'structlog') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("work", "error", "reason"),
    [
        (child_work.refuse, HumanLinksError, r"^not\udcff this$"),
        (child_work.raise_error, WorkerProcessError, r"^the child process failed: ZeroDivisionError"),
        (child_work.use_memory, WorkerProcessError, r"^the child process exceeded 256 MiB of memory"),
        (child_work.die, WorkerProcessError, r"killed by signal SIGSEGV$"),
    ],
    ids=["refused", "an error", "memory", "killed"],
)
def test_errors_are_reported_and_the_next_work_is_done(
    child: WorkerProcess, work: object, error: type[Exception], reason: str
) -> None:
    assert callable(work)
    with pytest.raises(error, match=reason):
        list(child.run(nothing, work))
    assert len(list(child.run(nothing, child_work.count, 2))) == 2


@pytest.mark.slow
def test_stalled_work_is_killed_and_slow_work_is_not(child: WorkerProcess) -> None:
    assert list(child.run(nothing, child_work.sleep, 3.6, True)) == [1]
    before = child.pid
    assert before is not None
    with pytest.raises(WorkerProcessError, match="made no progress for 3 s"):
        list(child.run(nothing, child_work.sleep, 60.0, False))
    wait_until_ended(before)


@pytest.mark.slow
def test_work_that_waits_for_a_processor_is_not_stalled(child: WorkerProcess) -> None:
    processor = min(os.sched_getaffinity(0))
    busy = f"import os; os.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", busy]) as other:
        try:
            started = time.monotonic()
            assert list(child.run(nothing, child_work.compute, processor)) == [1]
            assert time.monotonic() - started > 3.0
        finally:
            other.kill()


def test_exceptions_while_waiting_and_early_exits_end_the_process(child: WorkerProcess) -> None:
    def enough() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(child.run(enough, child_work.sleep, 60.0, True))
    assert child.pid is None
    counting = child.run(nothing, child_work.count, 5)
    assert next(counting)[0] == 0
    process = child.pid
    assert process is not None
    counting.close()
    wait_until_ended(process)


def test_a_child_process_ends_if_its_parent_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "from hierogram.storage.worker_process import WorkerProcess; from tests.storage import child_work;"
        f"list(WorkerProcess().run(lambda: None, child_work.sleep, 600.0, False, {str(pid_file)!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        end = time.monotonic() + 60
        while not (pid_file.exists() and pid_file.read_text()):
            assert time.monotonic() < end
            time.sleep(0.02)
        process = int(pid_file.read_text())
        assert is_running(process)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until_ended(process)


def test_a_shortage_of_file_descriptors_is_reported(child: WorkerProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(StoreUnavailableError, match="cannot start a process"):
            list(child.run(nothing, child_work.count, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list(child.run(nothing, child_work.count, 1))) == 1


def test_a_process_that_cannot_start_leaves_no_open_socket(
    child: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **_named: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    list(child.run(nothing, child_work.count, 1))
    child.close()
    descriptors = set(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail)
        with pytest.raises(StoreUnavailableError, match="Resource temporarily unavailable"):
            list(child.run(nothing, child_work.count, 1))
    assert set(os.listdir("/proc/self/fd")) == descriptors
