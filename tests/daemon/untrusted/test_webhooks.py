"""The daemon continues all work, including later deliveries, if a webhook receiver never finishes its answer."""

import gzip
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from tests.daemon.campaigns import daemon as campaign_daemon
from tests.daemon.campaigns.daemon import wait_until
from tests.daemon.untrusted.requests_victim import victim
from tests.storage.building import count_deliveries

from hierogram.storage.store import open_store

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(3_600)]

BOMB = gzip.compress(bytes(64 << 20))
RECEIVERS: dict[str, tuple[bytes, bytes, float]] = {
    "dripping header": (b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.8),
    "dripping headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.8),
    "dripping status line": (b"", b"H", 0.8),
    "silence": (b"", b"", 0.5),
    "endless interim responses": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.01),
    "dripping body": (b"HTTP/1.1 500 No\r\nContent-Length: 400\r\n\r\n", b"x", 0.8),
    "dripping chunks": (b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.8),
    "endless body": (b"HTTP/1.1 500 No\r\n\r\n", b"x" * 65_536, 0.0),
    "endless headers": (b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 65_000 + b"\r\n", 0.0),
    "endless header": (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 65_000, 0.0),
    "gzip bomb": (
        b"HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB,
        b"",
        0.5,
    ),
    "redirect": (b"HTTP/1.1 307 There\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n", b"", 0.5),
    "protocol switch": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", b"x", 0.1),
    "not HTTP": (bytes(range(256)), bytes(range(256)), 0.1),
}
"""Answer of each receiver: first data, repeated data, and seconds between repetitions."""


class Receiver:
    """Server that sends the data of `mode`, a key of `RECEIVERS`, to every client without reading requests."""

    def __init__(self, listener: socket.socket) -> None:
        self.mode = next(iter(RECEIVERS))
        self.connections = 0
        self._listener = listener
        self._ended = threading.Event()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(connection, self.mode), daemon=True).start()

    def _answer(self, connection: socket.socket, mode: str) -> None:
        first, then, pause = RECEIVERS[mode]
        connection.settimeout(5)
        with connection, suppress(OSError):
            connection.sendall(first)
            while not self._ended.wait(pause):
                connection.sendall(then)

    def end(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def running_receiver() -> Iterator[tuple[Receiver, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = Receiver(listener)
        thread = threading.Thread(target=receiver.serve, daemon=True)
        thread.start()
        try:
            yield receiver, f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        finally:
            receiver.end()
            thread.join(10)


def count_failed(url: str) -> int:
    with open_store(url) as store:
        return count_deliveries(store)["failed"]


IMPATIENT = """
from hierogram.__main__ import main
from hierogram.daemon.configuration import DaemonSection
DaemonSection.stall_seconds = 20.0
main()
"""
"""Command line that ends a daemon if a loop has no heartbeat for 20 s, which is less than a receiver takes."""


def test_daemon_works_with_webhook_receivers_that_never_finish(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_daemon, "COMMAND", (sys.executable, "-c", IMPATIENT))
    with (
        running_receiver() as (receiver, hook),
        victim(
            store_url,
            tmp_path,
            HIEROGRAM_WEBHOOKS__URL=hook,
            HIEROGRAM_WEBHOOKS__EVENTS='["pairs-rejected"]',
            HIEROGRAM_WEBHOOKS__ATTEMPTS="1",
            HIEROGRAM_WEBHOOKS__TIMEOUT_SECONDS="3",
        ) as daemon,
    ):
        time.sleep(2)
        for number, name in enumerate(RECEIVERS):
            receiver.mode = name
            before = receiver.connections
            bad = b'{"source": "a"}\n' + b'{"source": "x%d", "target": "y", "alignment": "0-0"}\n' % number
            posted = httpx2.post(
                daemon.daemon.address("/v1/pairs"),
                content=bad,
                headers={"Content-Type": "application/jsonl"},
                timeout=60,
            )
            assert posted.status_code == 200, posted.text
            wait_until(lambda before=before: receiver.connections > before, f"{name}: an attempt begins", 60)
            began = time.monotonic()
            while count_failed(store_url) <= number:
                daemon.look(name)
                assert time.monotonic() < began + 30, f"{name}: the attempt does not end"
                time.sleep(0.3)
            daemon.feed(number)
        daemon.wait_until_sampled()
        assert not daemon.faults, "\n".join(daemon.faults)
        daemon.daemon.end()
