"""`GET /v1/events`: pages, and streams that resume after the last event of a client."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.daemon.web.conftest import FakeService
from tests.daemon.web.running import HttpThread
from tests.storage.building import commit, delta

from hierogram.daemon.web.api import events
from hierogram.storage.store import Store, open_store

STREAM = {"Accept": "text/event-stream"}


def commit_uses(store: Store, *names: str, uses: int = 10) -> None:
    commit(store, [], [delta(name, name.upper(), 0, uses) for name in names])


def test_pages_of_events_are_consecutive(client: TestClient, store: Store) -> None:
    commit_uses(store, "a", "b", "c")
    first = client.get("/v1/events", params={"limit": 2}).json()
    assert [event["source"] for event in first["events"]] == ["a", "b"]
    assert (first["next"], first["oldest"], first["last"]) == (2, 1, 3)
    assert first["events"][0] | {"at": ""} == {
        "id": 1, "at": "", "kind": "rule-added", "rule_id": 1, "source": "a", "target": "A", "expected_uses_now": 10.0,
        "standard_error": pytest.approx((0.018 * 10**2 / (1 + 10 / 15)) ** 0.5),
    }  # fmt: skip
    second = client.get("/v1/events", params={"after": first["next"], "limit": 2}).json()
    assert ([event["source"] for event in second["events"]], second["next"]) == (["c"], 3)
    third = client.get("/v1/events", params={"after": 3}).json()
    assert (third["events"], third["next"]) == ([], 3)
    gone = client.get("/v1/events", params={"kind": ["rule-removed", "export-done"]}).json()
    assert (gone["events"], gone["next"]) == ([], 3)


def test_request_for_deleted_events_gets_410(client: TestClient, store: Store) -> None:
    commit_uses(store, "a", "b", "c")
    store.set_event_limit(1)
    answer = client.get("/v1/events", params={"after": 0})
    assert (answer.status_code, answer.json()["oldest"], answer.json()["last"]) == (410, 3, 3)
    assert answer.json()["detail"].endswith("continue with the oldest stored event, after=2")
    assert client.get("/v1/events", params={"after": 2}).status_code == 200
    assert client.get("/v1/events").json()["events"][0]["id"] == 3


def test_invalid_event_parameters_are_refused(client: TestClient) -> None:
    for query in ("after=-1", "limit=0", "limit=1001", "kind=new", "after=x"):
        assert client.get(f"/v1/events?{query}").status_code == 422, query
    assert client.get("/v1/events", headers={**STREAM, "Last-Event-ID": "x"}).status_code == 400


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/web.db", create=True) as opened:
        yield opened


@pytest.fixture
def running(sqlite_store: Store) -> Iterator[HttpThread]:
    loop = HttpThread(FakeService(sqlite_store))
    yield loop
    loop.end()


class Stream:
    """Events of a stream, parsed by the specification of server-sent events."""

    def __init__(self, running: HttpThread, query: str = "", **headers: str) -> None:
        host, port = running.loop.address or ("", 0)
        self.lines = httpx2.stream(
            "GET", f"http://{host}:{port}/v1/events{query}", headers=STREAM | headers, timeout=60
        )
        self.answer = self.lines.__enter__()
        self.read = self.answer.iter_lines()

    def next(self) -> dict[str, str]:
        """Return the fields of the next event, or an empty mapping at the end of the stream. Skips comments."""
        fields: dict[str, str] = {}
        for line in self.read:
            if not line and fields:
                return fields
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
        return fields

    def close(self) -> None:
        self.lines.__exit__(None, None, None)


def test_a_stream_sends_stored_events_after_an_id_and_then_new_events(running: HttpThread, sqlite_store: Store) -> None:
    commit_uses(sqlite_store, "a", "b")
    live, from_start, resumed = Stream(running), Stream(running, "?after=0"), Stream(running, **{"Last-Event-ID": "1"})
    assert live.answer.headers["content-type"].startswith("text/event-stream")
    first = from_start.next()
    assert (first["id"], first["event"], json.loads(first["data"])["source"]) == ("1", "rule-added", "a")
    assert (from_start.next()["id"], resumed.next()["id"]) == ("2", "2")
    began = time.monotonic()
    commit_uses(sqlite_store, "c")
    assert [json.loads(stream.next()["data"])["source"] for stream in (live, from_start, resumed)] == ["c"] * 3
    assert time.monotonic() - began < 10
    for stream in (live, from_start, resumed):
        stream.close()


# If a stream skipped an event, the test would wait for it until this timeout.
@pytest.mark.timeout(60)
def test_a_stream_sends_more_than_one_batch(running: HttpThread, sqlite_store: Store) -> None:
    commit_uses(sqlite_store, *(f"w{n}" for n in range(events._PAGE_SIZE + 1)))
    stream = Stream(running, "?after=0")
    assert [int(stream.next()["id"]) for _ in range(events._PAGE_SIZE + 1)] == list(range(1, events._PAGE_SIZE + 2))
    stream.close()


def test_a_stream_selects_kinds_and_a_late_one_reports_missed_events(running: HttpThread, sqlite_store: Store) -> None:
    commit_uses(sqlite_store, "a", "b", "c")
    commit_uses(sqlite_store, "a", uses=-10)
    gone = Stream(running, "?after=0&kind=rule-removed")
    assert gone.next()["id"] == "4"
    gone.close()
    sqlite_store.set_event_limit(2)
    late = Stream(running, "?after=1")
    missed = late.next()
    assert (missed["event"], missed["id"], json.loads(missed["data"])) == ("missed", "2", {"missed": 1, "oldest": 3})
    assert late.next()["id"] == "3"
    late.close()


@pytest.mark.slow
def test_streams_end_with_the_daemon_and_with_their_clients(
    running: HttpThread, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hierogram.daemon.web.api.events._MAX_STREAMS", 2)
    first, second = Stream(running), Stream(running)
    commit_uses(sqlite_store, "a")
    assert first.next()["id"] == second.next()["id"] == "1"
    host, port = running.loop.address or ("", 0)
    third = httpx2.get(f"http://{host}:{port}/v1/events", headers=STREAM, timeout=60)
    assert (third.status_code, "streams" in third.json()["detail"]) == (503, True)
    second.close()
    until = time.monotonic() + 60
    while Stream(running).answer.status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert running.end() < 5
    assert first.next() == {}


def test_concurrent_streams_are_limited(running: HttpThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.daemon.web.api.events._MAX_STREAMS", 2)
    request = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    with ExitStack() as stack:
        address = running.loop.address or ("", 0)
        connections = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(8)]
        for connection in connections:
            connection.sendall(request)
        heads = [connection.recv(4096) for connection in connections]
    assert [b" 200 " in head.split(b"\r\n")[0] for head in heads].count(True) == 2


@pytest.mark.slow
def test_idle_stream_sends_heartbeats(running: HttpThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.daemon.web.api.events._HEARTBEAT_SECONDS", 1)
    with socket.create_connection(running.loop.address or ("", 0), timeout=30) as connection:
        connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        received = b""
        while b": ping" not in received:
            received += connection.recv(4096)
