"""No loop dies or hangs unnoticed."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import ClassVar

import pytest

from hierogram.daemon.configuration import DaemonSection
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.serving import supervision
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag, Supervisor
from hierogram.storage.exceptions import StoreUnavailableError


class ShortPauses(DaemonSection):
    stall_seconds: ClassVar[float] = 60.0
    pause_seconds: ClassVar[float] = 0.001
    max_pause_seconds: ClassVar[float] = 0.004
    max_failures: ClassVar[int] = 3


SOON = ShortPauses()
LONG = 30.0
"""Timeout of a wait in seconds, which only failing tests reach."""


class ScriptedLoop:
    """Loop whose runs follow a script. After the script it waits until it is stopped."""

    def __init__(self, name: str, *runs: Callable[[StopFlag, Heartbeat], None], sections: frozenset[str] = frozenset()):
        self.name = name
        self.sections = sections
        self.runs = list(runs)
        self.started = 0
        self.settled = threading.Event()

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        self.started += 1
        if self.runs:
            self.runs.pop(0)(stop, beat)
            return
        beat.ok()
        self.settled.set()
        stop.wait()


class LoopLog:
    def __init__(self) -> None:
        self.failures: list[tuple[str, str, bool]] = []

    def __call__(self, name: str, error: BaseException, pause: float | None) -> None:
        self.failures.append((name, str(error), pause is None))


def fail(error: Exception) -> Callable[[StopFlag, Heartbeat], None]:
    def run(_stop: StopFlag, _beat: Heartbeat) -> None:
        raise error

    return run


def until_given_up(supervisor: Supervisor) -> DaemonError:
    for _ in range(int(LONG / 0.005)):
        try:
            supervisor.check()
        except DaemonError as error:
            return error
        threading.Event().wait(0.005)
    raise AssertionError("the supervisor did not give up")


def test_a_failing_loop_is_restarted_and_its_error_recorded() -> None:
    loop, log = ScriptedLoop("ingest", fail(ValueError("one")), fail(ValueError("two"))), LoopLog()
    supervisor = Supervisor([loop], SOON, log)
    supervisor.start()
    assert loop.settled.wait(LONG)
    supervisor.check()
    [health] = supervisor.health()
    assert (health.name, health.restarts, health.error) == ("ingest", 2, "two")
    assert health.running
    assert supervisor.problem() is None
    assert supervisor.stop(LONG) == []
    assert log.failures == [("ingest", "one", False), ("ingest", "two", False)]


def test_a_loop_that_fails_too_often_in_a_row_is_given_up() -> None:
    loop, log = ScriptedLoop("resample", *[fail(ValueError("always"))] * 3), LoopLog()
    supervisor = Supervisor([loop], SOON, log)
    supervisor.start()
    error = until_given_up(supervisor)
    assert "the loop resample failed 3 times in a row: always" in str(error)
    assert log.failures[-1] == ("resample", "always", True)
    assert supervisor.stop(LONG) == []


def test_only_consecutive_failures_are_counted() -> None:
    def well_then_fail(_stop: StopFlag, beat: Heartbeat) -> None:
        beat.ok()
        raise ValueError("now and then")

    loop = ScriptedLoop("resample", *[well_then_fail] * 6)
    supervisor = Supervisor([loop], SOON, LoopLog())
    supervisor.start()
    assert loop.settled.wait(LONG)
    supervisor.check()
    supervisor.stop(LONG)


def test_a_loop_is_not_given_up_while_its_store_is_unavailable() -> None:
    loop = ScriptedLoop("ingest", *[fail(StoreUnavailableError("disk full"))] * 7)
    gone = threading.Event()

    def run_without_success(stop: StopFlag, _beat: Heartbeat) -> None:
        gone.set()
        stop.wait()

    loop.runs.append(run_without_success)
    supervisor = Supervisor([loop], SOON, LoopLog())
    supervisor.start()
    assert gone.wait(LONG)
    supervisor.check()
    assert supervisor.problem() == "ingest: disk full"
    supervisor.restart(frozenset())
    supervisor.stop(LONG)


def test_a_loop_that_ends_by_itself_is_recorded_as_failed() -> None:
    loop, log = ScriptedLoop("schedule", lambda _stop, _beat: None), LoopLog()
    supervisor = Supervisor([loop], SOON, log)
    supervisor.start()
    assert loop.settled.wait(LONG)
    supervisor.stop(LONG)
    assert log.failures == [("schedule", "the loop schedule ended unexpectedly", False)]


def test_a_stalled_loop_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(supervision, "time", SimpleNamespace(monotonic=lambda: now[0]))
    loop = ScriptedLoop("resample")
    supervisor = Supervisor([loop], SOON, LoopLog())
    supervisor.start()
    assert loop.settled.wait(LONG)
    now[0] = 59.0
    supervisor.check()
    now[0] = 61.0
    with pytest.raises(DaemonError, match="the loop resample has not responded for 61 s"):
        supervisor.check()
    assert not supervisor.health()[0].running
    supervisor.stop(LONG)


def test_only_loops_affected_by_a_change_restart() -> None:
    spool = ScriptedLoop("ingest", sections=frozenset({"spool"}))
    other = ScriptedLoop("resample", sections=frozenset({"sampling"}))
    supervisor = Supervisor([spool, other], SOON, LoopLog())
    supervisor.start()
    assert spool.settled.wait(LONG)
    assert other.settled.wait(LONG)
    spool.settled.clear()
    assert supervisor.restart(frozenset({"spool", "log"})) == ["ingest"]
    assert spool.settled.wait(LONG)
    assert supervisor.stop(LONG) == []
    assert (spool.started, other.started) == (2, 1)
    assert [health.restarts for health in supervisor.health()] == [0, 0], "reconfiguration is not a failure"


def test_a_loop_that_does_not_end_in_time_is_reported() -> None:
    held = threading.Event()
    loop = ScriptedLoop("resample", lambda _stop, _beat: held.wait() and None)
    supervisor = Supervisor([loop], SOON, LoopLog())
    supervisor.start()
    assert supervisor.stop(0.01) == ["resample"]
    held.set()
    assert supervisor.stop(LONG) == []
