"""Short requests overtake long ones in the queue for a thread."""

import time

import anyio
import httpx2
import pytest
from fastapi import Depends, FastAPI

from hierogram.daemon.web.protocol.threads import ReadTurns


def app(turns: ReadTurns, done: list[str]) -> FastAPI:
    made = FastAPI(dependencies=[Depends(turns, scope="function")])

    @made.get("/search")
    def search(q: str) -> None:
        time.sleep(0.002 * len(q))
        done.append(f"search {len(q)}")

    @made.get("/pair")
    def pair() -> None:
        done.append("pair")

    @made.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError

    @made.get("/immediate")
    async def immediate() -> None:
        done.append("immediate")

    return made


async def send(client: httpx2.AsyncClient, paths: list[str]) -> None:
    async with anyio.create_task_group() as group:
        for path in paths:
            group.start_soon(client.get, path)
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_short_requests_overtake_long_ones_of_the_same_route() -> None:
    done: list[str] = []
    turns = ReadTurns(1)
    transport = httpx2.ASGITransport(app(turns, done), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        long, short = f"/search?q={'x' * 100}", "/search?q=x"
        await send(client, [long, short, "/pair", "/broken"])
        done.clear()
        await send(client, [long, long, long, short, "/pair", "/broken", "/immediate"])
        assert done[:2] == ["immediate", "search 100"]
        assert sorted(done[2:4]) == ["pair", "search 1"]
        assert done[4:] == ["search 100", "search 100"]


@pytest.mark.anyio
async def test_a_canceled_request_does_not_keep_its_turn() -> None:
    done: list[str] = []
    transport = httpx2.ASGITransport(app(ReadTurns(1), done))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.get, f"/search?q={'x' * 100}")
            await anyio.sleep(0.02)
            group.start_soon(client.get, "/pair")
            await anyio.sleep(0.02)
            group.cancel_scope.cancel()
        done.clear()
        with anyio.fail_after(5):
            await send(client, ["/pair", "/pair"])
        assert done == ["pair", "pair"]
