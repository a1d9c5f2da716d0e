"""The HTTP loop over real sockets: slow clients, limits, and shutdown."""

import asyncio
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psutil
import pytest
from tests.daemon.conftest import LINES
from tests.daemon.web.bodies import BODY
from tests.daemon.web.conftest import FakeService
from tests.daemon.web.running import HttpThread, receive_all

from hierogram.daemon.configuration import Configuration, HttpConfiguration, configuration_type
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.serving.supervision import Heartbeat
from hierogram.daemon.web import server
from hierogram.daemon.web.server import HttpLoop, connection_limit
from hierogram.storage.store import Store, open_store


def head(length: int | str, more: str = "") -> bytes:
    framing = f"Content-Length: {length}" if isinstance(length, int) else f"Transfer-Encoding: {length}"
    return (
        f"POST /v1/pairs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/jsonl\r\nConnection: close\r\n"
        f"{framing}\r\n{more}\r\n"
    ).encode()


Start = Callable[..., HttpThread]


@pytest.fixture
def quick_store(tmp_path: object) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/web.db", create=True) as store:
        yield store


@pytest.fixture
def start(quick_store: Store) -> Iterator[Start]:
    with ExitStack() as stack:

        def run(**values: object) -> HttpThread:
            running = HttpThread(FakeService(quick_store), **values)
            stack.callback(running.end)
            return running

        yield run


def test_the_server_answers_a_request_and_stops_in_time(start: Start, quick_store: Store) -> None:
    running = start()
    with running.connected() as connection:
        connection.sendall(head(len(BODY)) + BODY)
        assert b"200 OK" in receive_all(connection)
    assert quick_store.count_pairs() == len(LINES)
    assert running.heartbeat.age < 60
    assert running.end() < 10


@pytest.mark.slow
@pytest.mark.parametrize("response", [b"", b"GET /healthz HTTP/1.1\r\nHost: loc"])
def test_a_client_that_sends_no_complete_head_is_disconnected(start: Start, response: bytes) -> None:
    with start(client_timeout=0.3).connected() as connection:
        connection.sendall(response)
        began = time.monotonic()
        assert receive_all(connection) == b""
        assert time.monotonic() - began < 20


@pytest.mark.slow
def test_a_client_that_drips_its_head_is_disconnected(start: Start) -> None:
    def drip() -> None:
        for _ in range(600):
            connection.sendall(b"x")
            time.sleep(0.05)

    with start(client_timeout=1.0).connected() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
        with pytest.raises(OSError):
            drip()


@pytest.mark.slow
def test_a_client_that_stops_sending_in_the_request_body_gets_408(start: Start, quick_store: Store) -> None:
    with start(client_timeout=0.3).connected() as connection:
        connection.sendall(head(len(BODY)) + BODY[:100])
        assert b"408 Request Timeout" in receive_all(connection)
    assert quick_store.count_pairs() == 0


@pytest.mark.slow
@pytest.mark.parametrize("question", [b"?corpsu=x", b""])
def test_a_client_that_is_still_sending_gets_the_error(start: Start, question: bytes) -> None:
    # The body exceeds the socket buffers: closing the connection immediately would reset it and lose the response.
    wrong = b"\n" * (16 << 20)
    asked = head(len(wrong)).replace(b" HTTP", question + b" HTTP", 1) + wrong
    with start().connected() as connection:
        # This raises an error if the other side resets the connection.
        connection.sendall(asked)
        response = receive_all(connection)
    assert response.startswith(b"HTTP/1.1 400" if question else b"HTTP/1.1 422")
    assert b'"detail"' in response


@pytest.mark.slow
def test_a_client_that_drips_its_body_gets_an_error(start: Start) -> None:
    with start(client_timeout=0.5, min_bytes_per_second=1_000).connected() as connection:
        connection.sendall(head(len(BODY)))
        received = b""
        connection.settimeout(0.05)
        for n in range(len(BODY)):
            try:
                received += connection.recv(65536)
                break
            except TimeoutError:
                connection.sendall(BODY[n : n + 1])
        assert b"408 Request Timeout" in received


@contextmanager
def sent_request(running: HttpThread, kept: int = 4096) -> Iterator[socket.socket]:
    """A client that has sent a request, with a receive buffer of about `kept` bytes."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kept)
        connection.settimeout(60)
        connection.connect(running.loop.address)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        yield connection


def read_to_the_end(connection: socket.socket) -> int:
    """Return the number of bytes received until the connection ends."""
    read = 0
    with suppress(ConnectionError):
        while block := connection.recv(1 << 20):
            read += len(block)
    return read


SIZE = 32 << 20
"""Bytes of a response: more than the system buffers for a client that does not read."""


def server_connections(running: HttpThread) -> list[int]:
    """Return the descriptors of the server's connections."""
    listening = running.loop.address
    return [one.fd for one in psutil.Process().net_connections() if one.laddr == listening and one.raddr]


def wait_for_connections(running: HttpThread, number: int) -> None:
    until = time.monotonic() + 20
    while len(server_connections(running)) != number:
        assert time.monotonic() < until
        time.sleep(0.05)


def server_with_responses(
    monkeypatch: pytest.MonkeyPatch, start: Start, size: int, pieces: int = 1, **values: object
) -> HttpThread:
    """Return a server whose responses have `size` bytes, sent in pieces."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"content-length", str(size).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for _ in range(pieces):
                await send({"type": "http.response.body", "body": bytes(size // pieces), "more_body": True})
            await send({"type": "http.response.body"})

    monkeypatch.setattr(server, "build_app", lambda *_: app)
    return start(client_timeout=1.0, **values)


@pytest.mark.slow
def test_a_client_that_does_not_read_is_disconnected(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = server_with_responses(monkeypatch, start, SIZE)
    with sent_request(running) as connection:
        wait_for_connections(running, 1)
        wait_for_connections(running, 0)
        assert read_to_the_end(connection) < SIZE
    assert running.end() < 5


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 512])
def test_a_client_that_reads_too_slowly_is_disconnected(
    start: Start, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    running = server_with_responses(monkeypatch, start, SIZE, pieces=pieces)
    with sent_request(running) as connection:
        read = 0
        with suppress(ConnectionError):
            while block := connection.recv(1 << 10):
                read += len(block)
                time.sleep(0.1)
        assert read < SIZE


@pytest.mark.slow
def test_a_slow_but_steady_client_is_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = server_with_responses(monkeypatch, start, SIZE)
    with sent_request(running, 1 << 18) as connection:
        read = 0
        for _ in range(30):
            # Read for longer than the client's timeout, with shorter pauses.
            time.sleep(0.1)
            read += len(connection.recv(1 << 17))
        assert read < SIZE // 2
        assert read + read_to_the_end(connection) > SIZE


def test_data_of_a_client_that_disconnects_are_kept(start: Start, quick_store: Store) -> None:
    running = start()
    block = BODY * 2_000
    with running.connected() as connection:
        connection.sendall(head("chunked") + b"%x\r\n%b\r\n" % (len(block), block))
        until = time.monotonic() + 60
        while not quick_store.count_pairs():
            assert time.monotonic() < until
            time.sleep(0.02)
    running.end()
    stored = [f"{row.source} ||| {row.target} ||| {row.alignment}" for row in quick_store.pairs()]
    assert stored == (LINES * 2_000)[: len(stored)]


def test_a_body_that_arrives_during_shutdown_is_refused(start: Start) -> None:
    running = start(client_timeout=60.0)
    with running.connected() as connection:
        connection.sendall(head(len(BODY), "Expect: 100-continue\r\n") + BODY[:100])
        # The server sends this response when it reads the body.
        assert b"100 Continue" in connection.recv(65536)
        running.stop.set()
        response = receive_all(connection)
        assert b"503 Service Unavailable" in response
        assert b"Retry-After" in response or b"retry-after" in response
    assert running.end() < 10


ASKED = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_an_idle_connection_is_closed_for_a_new_one(start: Start) -> None:
    running = start(max_connections=3)
    with ExitStack() as stack:
        held = [stack.enter_context(running.connected()) for _ in range(6)]
        held[5].sendall(ASKED)
        assert b"200 OK" in receive_all(held[5])
        assert receive_all(held[0]) == b""


def test_a_request_without_data_is_ended_for_a_new_connection(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package sniffio, which older versions of anyio require, finds the event loop only in tasks."""

    def find_library_of_task() -> str | None:
        try:
            return "asyncio" if asyncio.current_task() else None
        except RuntimeError:
            return None

    monkeypatch.setattr("anyio._core._eventloop.current_async_library", find_library_of_task)
    running = start(max_connections=3)
    began = time.monotonic()
    with ExitStack() as stack:
        held = [stack.enter_context(running.connected()) for _ in range(3)]
        for connection in held:
            connection.sendall(head_without_body("POST", "/v1/align"))
            # The server sends this response when it reads the body.
            assert b"100 Continue" in connection.recv(65536)
        with running.connected() as asking_one:
            asking_one.sendall(ASKED)
            assert b"200 OK" in receive_all(asking_one)
        assert b"503 Service Unavailable" in receive_all(held[0])
    assert time.monotonic() - began < 10


def test_running_requests_are_limited_but_health_checks_answered(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            while scope["path"] != "/healthz" and not waiting.is_set():
                await asyncio.sleep(0.02)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})

    monkeypatch.setattr(server, "build_app", lambda *_: app)
    running = start(max_connections=3)
    with ExitStack() as stack:
        held = []
        for _ in range(3):
            held.append(stack.enter_context(running.connected()))
            held[-1].sendall(ASKED)
            assert not select.select([held[-1]], [], [], 0.2)[0]
        with running.connected() as one_more:
            one_more.sendall(ASKED)
            response = receive_all(one_more)
        assert b"503 Service Unavailable" in response
        assert b"content-type: application/problem+json" in response
        with running.connected() as one_more:
            one_more.sendall(ASKED.replace(b"/v1/status", b"/healthz"))
            assert b"200 OK" in receive_all(one_more)
        waiting.set()
        assert all(b"200 OK" in receive_all(connection) for connection in held[:3])


@pytest.mark.slow
@pytest.mark.parametrize(("method", "ends"), [("GET", True), ("POST", False)])
def test_only_reading_requests_of_disconnected_clients_are_canceled(
    start: Start, monkeypatch: pytest.MonkeyPatch, method: str, ends: bool
) -> None:
    began, given_up, waiting = threading.Event(), threading.Event(), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        began.set()
        try:
            while not waiting.is_set():
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            given_up.set()
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    monkeypatch.setattr(server, "build_app", lambda *_: app)
    running = start(max_connections=1)
    with running.connected() as leaving:
        leaving.sendall(ASKED.replace(b"GET", method.encode()))
        assert began.wait(10)
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert given_up.wait(10 if ends else 1) == ends
    with running.connected() as another:
        another.sendall(ASKED)
        if ends:
            assert not select.select([another], [], [], 0.2)[0]
            waiting.set()
            assert b"200 OK" in receive_all(another)
        else:
            assert b"503 Service Unavailable" in receive_all(another)
    waiting.set()


@pytest.mark.slow
@pytest.mark.parametrize("resets", [True, False])
def test_requests_of_disconnected_clients_do_not_run(
    start: Start, monkeypatch: pytest.MonkeyPatch, resets: bool
) -> None:
    count = 0
    all_left = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal count
        if scope["type"] == "http":
            count += 1
            # The server accepts the other clients only after they have disconnected.
            all_left.wait(30.0)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})

    monkeypatch.setattr(server, "build_app", lambda *_: app)
    running = start()
    with running.connected() as first:
        first.sendall(ASKED)
        time.sleep(0.3)
        for _ in range(12):
            with running.connected() as leaving:
                leaving.sendall(ASKED)
                leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", resets, 0))
        time.sleep(0.0 if resets else 0.6)
        all_left.set()
        assert b"200 OK" in receive_all(first)
    with running.connected() as last:
        last.sendall(ASKED)
        assert b"200 OK" in receive_all(last)
    assert count == 2


@pytest.mark.parametrize("end_of_line", ["\r\n", "\n"])
@pytest.mark.parametrize("before", [b"", ASKED.replace(b"Connection: close\r\n", b"")])
def test_a_head_with_too_many_headers_is_refused(start: Start, end_of_line: str, before: bytes) -> None:
    running = start()
    lines = ["GET /healthz HTTP/1.1", "Host: localhost", *["X: y"] * 9_000, "", ""]
    with running.connected() as connection:
        connection.sendall(before + end_of_line.join(lines).encode())
        response = receive_all(connection)
    assert response.count(b"HTTP/1.1 200") == bool(before)
    assert b"HTTP/1.1 400" in response
    assert b"more than 256 headers" in response


def test_many_lines_in_a_body_are_not_headers(start: Start) -> None:
    running = start()
    body = BODY * 40
    assert body.count(b"\n") > 256
    with running.connected() as connection:
        connection.sendall((head(len(body)) + body).replace(b"\r\n", b"\n"))
        assert b"200 OK" in receive_all(connection)


def test_pipelined_requests_are_all_answered(start: Start) -> None:
    many = ASKED.replace(b"Connection: close\r\n", b"") * 4 + ASKED
    with start().connected() as connection:
        connection.sendall(many)
        assert receive_all(connection).count(b"200 OK") == 5


def head_without_body(method: str, path: str, kind: str = "application/json") -> bytes:
    """Return the head of a request whose body is never sent."""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 90\r\n"
        "Expect: 100-continue\r\n\r\n"
    ).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/align", "application/json"),
        ("POST", "/v1/translate", "application/json"),
        ("PUT", "/v1/pairs/1/links", "application/json"),
        ("POST", "/login", "application/x-www-form-urlencoded"),
        ("POST", "/pairs/1/withdraw", "application/x-www-form-urlencoded"),
        ("POST", "/v1/pairs", "application/jsonl"),
    ],
)
def test_a_request_with_a_missing_body_gets_408(start: Start, method: str, path: str, kind: str) -> None:
    with start(client_timeout=0.3).connected() as connection:
        connection.settimeout(20)
        connection.sendall(head_without_body(method, path, kind))
        response = receive_all(connection)
    assert b"408 Request Timeout" in response
    assert b"client_timeout" in response


@pytest.mark.slow
def test_an_event_stream_request_whose_body_never_arrives_is_closed(start: Start) -> None:
    with start(client_timeout=0.3).connected() as connection:
        connection.settimeout(20)
        connection.sendall(
            b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Length: 9\r\n\r\n"
        )
        with suppress(ConnectionError):
            receive_all(connection)


@pytest.mark.slow
def test_silent_connections_beyond_the_limit_are_closed(start: Start) -> None:
    running = start(max_connections=5)
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(running.connected()).settimeout(0)
        wait_for_connections(running, 5)


@pytest.mark.parametrize(("descriptors", "most"), [(resource.RLIM_INFINITY, 1_000), (1_024, 704), (100, 1)])
def test_some_descriptors_are_kept_for_the_store_and_the_spool(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert connection_limit(1_000) == most


def test_invalid_http_within_a_body_ends_the_request(start: Start, quick_store: Store) -> None:
    with start().connected() as connection:
        connection.sendall(head("chunked") + b'5\r\n{"a":\r\nthis is no size\r\n')
        assert receive_all(connection).startswith((b"HTTP/1.1 400", b"HTTP/1.1 422"))
    assert quick_store.count_pairs() == 0


def test_an_address_in_use_is_reported(start: Start, quick_store: Store) -> None:
    taken = start()
    assert taken.loop.address
    port = taken.loop.address[1]
    service = FakeService(quick_store)
    service.configuration = Configuration(http=HttpConfiguration(port=port))
    loop = HttpLoop(service)
    with pytest.raises(DaemonError, match=f"cannot listen on 127.0.0.1 port {port}"):
        loop.prepare(service.configuration)
    with pytest.raises(DaemonError, match=f"cannot listen on 127.0.0.1 port {port}"):
        loop.run(threading.Event(), Heartbeat())


def test_connections_are_refused_until_the_loop_runs(quick_store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service = FakeService(quick_store)
    service.configuration = configuration_type()(http=HttpConfiguration(port=port))
    loop, stop = HttpLoop(service), threading.Event()
    loop.prepare(service.configuration)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    thread = threading.Thread(target=loop.run, args=(stop, Heartbeat()))
    thread.start()
    try:
        while loop.address is None and thread.is_alive():
            time.sleep(0.01)
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    finally:
        stop.set()
        thread.join()


def test_a_disabled_server_only_sends_heartbeats(quick_store: Store) -> None:
    service = FakeService(quick_store)
    service.configuration = Configuration(http=HttpConfiguration(enabled=False))
    loop = HttpLoop(service)
    stop = threading.Event()
    stop_soon = threading.Timer(0.1, stop.set)
    stop_soon.start()
    loop.run(stop, Heartbeat())
    assert loop.address is None
