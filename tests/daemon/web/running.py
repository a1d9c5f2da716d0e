"""The HTTP loop, in a thread."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import create_sql_role
from tests.daemon.web.conftest import FakeService

from hierogram.daemon.configuration import DaemonSection, HttpConfiguration, configuration_type
from hierogram.daemon.serving.supervision import Heartbeat
from hierogram.daemon.web.server import HttpLoop


class HttpThread:
    """The HTTP loop of a service, running in a thread until `end`."""

    def __init__(self, service: FakeService, **values: object) -> None:
        self.stop = threading.Event()
        self.heartbeat = Heartbeat()
        values = {"port": 0, "sql_url": create_sql_role(service.store.engine.url)} | values
        service.configuration = configuration_type()(
            http=HttpConfiguration(**values), daemon=DaemonSection(grace_seconds=10.0)
        )
        self.loop = HttpLoop(service)
        self.thread = threading.Thread(target=self.loop.run, args=(self.stop, self.heartbeat), daemon=True)
        self.thread.start()
        until = time.monotonic() + 60
        while self.loop.address is None:
            assert time.monotonic() < until
            time.sleep(0.01)

    def end(self) -> float:
        began = time.monotonic()
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        return time.monotonic() - began

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(self.loop.address or ("", 0), timeout=60) as connection:
            yield connection


def receive_all(connection: socket.socket) -> bytes:
    """Return all data that the other side sends until it closes."""
    received = b""
    while block := connection.recv(65536):
        received += block
    return received
