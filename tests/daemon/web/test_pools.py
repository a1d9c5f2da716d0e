"""Clients with slow requests (unread downloads, endless translations) do not block other clients."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx2
import pytest
from tests.daemon.web.conftest import FakeService
from tests.daemon.web.running import HttpThread, receive_all

from hierogram.daemon.deadline import check_deadline
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.memory_input import MemoryPairs
from hierogram.daemon.web.protocol import threads
from hierogram.storage.store import Store
from hierogram.tools.translation.store_translator import StoreTranslator
from hierogram.tools.translation.text_translator import TextTranslator

pytestmark = pytest.mark.database("sqlite")

PAGES = ("/search?q=maison", "/v1/rules?limit=5", "/v1/evidence?source=la%20maison", "/healthz", "/readyz")
SECONDS = 10.0
"""Timeout of a page in seconds on a busy machine. Waiting for the other requests would take 30 s."""


def request(method: str, path: str, body: object = None, accept: str = "*/*") -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "translate", "arguments": {"text": "la"}}}
TRANSLATION_ROUTES = {
    "API": request("POST", "/v1/translate", {"sentences": ["la"]}),
    "LibreTranslate": request("POST", "/translate", {"q": "la", "source": "fr", "target": "en"}),
    "page": request("GET", "/translate?q=la", accept="text/html"),
    "MCP": request("POST", "/mcp", CALL, "application/json, text/event-stream"),
}


class Endless:
    """A translation that ends only at its deadline or when it is canceled."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def translate(self, *_: object, **__: object) -> None:
        self.began.release()
        try:
            while True:
                check_deadline()
                time.sleep(0.01)
        finally:
            self.ended.release()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    made = Endless()
    monkeypatch.setattr(TextTranslator, "translate", made.translate)
    monkeypatch.setattr(StoreTranslator, "languages", lambda _: ("fr", "en"))
    return made


@pytest.fixture
def start(learned: Store) -> Iterator[Callable[..., HttpThread]]:
    with ExitStack() as stack:

        def run(**values: object) -> HttpThread:
            rates = {"max_rate": 1e4, "max_burst": 10_000}
            running = HttpThread(FakeService(learned), libretranslate=True, mcp="read", **(rates | values))
            stack.callback(running.end)
            return running

        yield run


def ask_pages(running: HttpThread) -> None:
    """Fail if a page is not answered in time."""
    host, port = running.loop.address or ("", 0)
    with httpx2.Client(base_url=f"http://{host}:{port}", timeout=60) as client:
        for path in PAGES:
            began = time.monotonic()
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert time.monotonic() - began < SECONDS, path


@pytest.mark.slow
@pytest.mark.parametrize("route", TRANSLATION_ROUTES)
def test_a_translation_is_canceled_when_its_client_disconnects(
    start: Callable[..., HttpThread], endless: Endless, route: str
) -> None:
    running = start()
    with running.connected() as connection:
        connection.sendall(TRANSLATION_ROUTES[route])
        assert endless.began.acquire(timeout=20)
        assert not endless.ended.acquire(timeout=0.2)
    assert endless.ended.acquire(timeout=10)


@pytest.mark.slow
@pytest.mark.parametrize("route", TRANSLATION_ROUTES)
def test_a_translation_ends_at_its_deadline(
    start: Callable[..., HttpThread], endless: Endless, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "WORK_SECONDS", 0.3)
    running = start()
    with running.connected() as connection:
        connection.sendall(TRANSLATION_ROUTES[route])
        response = receive_all(connection)
    assert endless.ended.acquire(timeout=10)
    assert b"the request took longer than 0.3 s" in response
    if route == "MCP":
        assert b'"isError":true' in response.replace(b" ", b"")
    else:
        assert response.startswith(b"HTTP/1.1 504")
    if route == "API":
        assert b"content-type: application/problem+json" in response


@pytest.mark.slow
def test_translations_through_all_routes_do_not_block_pages(start: Callable[..., HttpThread], endless: Endless) -> None:
    running = start()
    with ExitStack() as stack:
        held = [stack.enter_context(running.connected()) for _ in range(60)]
        for number, connection in enumerate(held):
            connection.sendall(list(TRANSLATION_ROUTES.values())[number % 4])
        for _ in range(2):
            assert endless.began.acquire(timeout=20)
        ask_pages(running)
        # Translations through all routes share two threads and a queue.
        assert not endless.began.acquire(timeout=0.2)
        refused = [one for one in held if b"too many translations are waiting" in received_so_far(one)]
        assert len(refused) == 60 - 2 - 16


@pytest.mark.slow
def test_requests_that_wait_for_the_grammar_do_not_block_pages(
    start: Callable[..., HttpThread], endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoreTranslator, "newest", endless.translate)
    monkeypatch.setattr(StoreTranslator, "detect", endless.translate)
    running = start()
    requests = request("GET", "/translate/near?q=la"), request("POST", "/detect", {"q": "la"})
    with ExitStack() as stack:
        for number in range(12):
            stack.enter_context(running.connected()).sendall(requests[number % 2])
        for _ in range(2):
            assert endless.began.acquire(timeout=20)
        ask_pages(running)
    for _ in range(2):
        assert endless.ended.acquire(timeout=10)


def received_so_far(connection: socket.socket) -> bytes:
    connection.settimeout(0.02)
    received = b""
    try:
        while block := connection.recv(65536):
            received += block
    except TimeoutError:
        pass
    return received


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/memory.tmx", "/sql.csv?sql=SELECT+source+FROM+sentence_pairs"])
def test_unread_downloads_do_not_block_pages(start: Callable[..., HttpThread], learned: Store, path: str) -> None:
    pairs = [{"source": f"la maison {n} " + "x " * 50, "target": "the house", "alignment": "0-0"} for n in range(6_000)]
    ingest(learned, MemoryPairs(pairs, "test"), "many")
    running = start(client_timeout=3.0)
    with ExitStack() as stack:
        held = []
        for _ in range(20):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(running.loop.address)
            connection.sendall(request("GET", path))
            held.append(connection)
            if "sql.csv" in path:
                # Two queries are answered concurrently.
                connection.settimeout(20)
                assert connection.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 503")
        ask_pages(running)
        # Clients that do not read are disconnected.
        until, response = time.monotonic() + 15, b""
        while not response.startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < until, response
            time.sleep(0.5)
            with running.connected() as reader:
                reader.sendall(request("GET", path))
                response = receive_all(reader)
        assert len(response) > 600_000


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/translate?best=100", {"sentences": ["la " * 1_000]}, 422),
        ("/v1/translate", {"sentences": ["la " * 1_000] * 90}, 422),
        ("/translate", {"q": ["la " * 3_000] * 2, "source": "fr", "target": "en", "alternatives": 20}, 400),
    ],
)
def test_too_many_translations_of_long_texts_are_refused(
    start: Callable[..., HttpThread], monkeypatch: pytest.MonkeyPatch, path: str, body: object, status: int
) -> None:
    monkeypatch.setattr(StoreTranslator, "languages", lambda _: ("fr", "en"))
    host, port = start().loop.address or ("", 0)
    answer = httpx2.post(f"http://{host}:{port}{path}", json=body, timeout=60)
    assert answer.status_code == status
    assert "must be <= 250,000" in answer.text
