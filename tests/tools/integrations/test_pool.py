"""Expensive work has limited concurrency and a deadline, and is canceled if its client disconnects."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request

from hierogram.daemon.deadline import check_deadline, restart_deadline
from hierogram.daemon.exceptions import BusyError, DeadlineError
from hierogram.daemon.web.protocol import threads as pool_module
from hierogram.daemon.web.protocol.threads import WorkPool

Run = Callable[[WorkPool], Awaitable[Any]]


def in_pool(run: Run, monkeypatch: pytest.MonkeyPatch, seconds: float = 20.0) -> Any:
    async def made() -> Any:
        return await run(WorkPool("examples"))

    monkeypatch.setattr(pool_module, "WORK_SECONDS", seconds)
    return asyncio.run(made())


def until_the_deadline() -> None:
    """Work until `check_deadline` raises an error: at the deadline, or after the client has disconnected."""
    while True:
        check_deadline()
        time.sleep(0.005)


def make_request(client: asyncio.Event) -> Request:
    """Return a request whose client disconnects when the event is set."""

    async def receive() -> dict[str, Any]:
        await client.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


def test_results_and_errors_of_work_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("why")

    async def run(pool: WorkPool) -> Any:
        assert await pool.run(lambda: 1) == 1
        assert await pool.run(lambda: 2, make_request(asyncio.Event())) == 2
        with pytest.raises(ValueError, match="why"):
            await pool.run(fail, make_request(asyncio.Event()))

    in_pool(run, monkeypatch)


def test_work_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(pool: WorkPool) -> None:
        with pytest.raises(DeadlineError, match="took longer than"):
            await pool.run(until_the_deadline)

    in_pool(run, monkeypatch, 0.1)


def test_a_deadline_can_be_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        time.sleep(0.3)
        restart_deadline()
        check_deadline()

    in_pool(lambda pool: pool.run(work), monkeypatch, 0.2)
    check_deadline()


def test_failed_work_releases_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[weakref.ref[set[int]]] = []

    def fail() -> None:
        data = {1}
        found.append(weakref.ref(data))
        until_the_deadline()

    async def run(pool: WorkPool) -> None:
        with pytest.raises(DeadlineError):
            await pool.run(fail)

    gc.disable()
    try:
        in_pool(run, monkeypatch, 0.05)
        assert found[0]() is None
    finally:
        gc.enable()


def test_work_is_canceled_when_its_client_disconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        try:
            until_the_deadline()
        finally:
            ended.set()

    async def run(pool: WorkPool) -> None:
        client = asyncio.Event()
        running = asyncio.create_task(pool.run(work, make_request(client)))
        while not began.is_set():
            await asyncio.sleep(0.005)
        client.set()
        with pytest.raises(DeadlineError, match="client disconnected"):
            await running
        assert ended.is_set()

    in_pool(run, monkeypatch)


def test_queued_work_is_canceled_when_its_client_disconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()

    async def run(pool: WorkPool) -> None:
        held = [asyncio.create_task(pool.run(ending.wait)) for _ in range(2)]
        await asyncio.sleep(0.05)
        client = asyncio.Event()
        waiting = asyncio.create_task(pool.run(until_the_deadline, make_request(client)))
        await asyncio.sleep(0.05)
        client.set()
        with pytest.raises(DeadlineError, match="client disconnected"):
            await waiting
        ending.set()
        assert await asyncio.gather(*held) == [True, True]

    in_pool(run, monkeypatch)


def test_two_requests_run_sixteen_wait_and_further_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, most, now = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1

    async def run(pool: WorkPool) -> list[Any]:
        return await asyncio.gather(*(pool.run(work) for _ in range(30)), return_exceptions=True)

    found = in_pool(run, monkeypatch)
    assert most == 2
    assert [type(one) for one in found if one is not None] == [BusyError] * 12


def test_no_request_waits_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(pool: WorkPool) -> list[Any]:
        began = time.monotonic()
        found = await asyncio.gather(*(pool.run(lambda: time.sleep(0.6)) for _ in range(3)), return_exceptions=True)
        assert time.monotonic() - began < 5
        return found

    found = in_pool(run, monkeypatch, 0.2)
    assert [type(one) for one in found] == [type(None), type(None), BusyError]
