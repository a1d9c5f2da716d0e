"""Shared responses: computed once for all waiting clients, and never older than the request."""

import anyio
import pytest

from hierogram.daemon.web.api.health import coalesced


class Clock:
    """Computation whose response is the time at which it started."""

    def __init__(self) -> None:
        self.now = 0
        self.made = 0
        self.fails = False

    async def __call__(self) -> int:
        self.made += 1
        seen = self.now
        await anyio.sleep(0.02)
        if self.fails:
            raise OSError("gone")
        return seen


async def _check_concurrent_requests() -> None:
    clock = Clock()
    ask = coalesced(clock)
    late: list[tuple[int, int]] = []

    async def request() -> None:
        asked = clock.now
        late.append((asked, await ask()))

    async with anyio.create_task_group() as tasks:
        for step in range(200):
            tasks.start_soon(request)
            await anyio.sleep(0.001)
            clock.now = step + 1
    assert len(late) == 200
    assert all(answer >= asked for asked, answer in late)
    # Requests that arrive during a computation share the next one.
    before = clock.made
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(request)
    assert clock.made <= before + 2
    # Consecutive requests never share.
    before = clock.made
    await ask()
    await ask()
    assert clock.made == before + 2


async def _check_disconnected_and_failing_clients() -> None:
    clock = Clock()
    ask = coalesced(clock)
    answers: list[int] = []

    async def stay() -> None:
        answers.append(await ask())

    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.005):
            await ask()
        for _ in range(3):
            tasks.start_soon(stay)
        await anyio.sleep(0.005)
        with anyio.move_on_after(0.005):
            await ask()
    assert answers == [0, 0, 0]
    clock.fails = True
    with pytest.raises(OSError, match="gone"):
        await ask()
    clock.fails = False
    assert await ask() == 0


def test_no_response_is_older_than_its_request() -> None:
    anyio.run(_check_concurrent_requests)


def test_a_disconnected_client_or_a_failed_computation_blocks_no_other_client() -> None:
    anyio.run(_check_disconnected_and_failing_clients)
