"""HTTP loop of the daemon: uvicorn in its own thread, on a socket that the daemon binds."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from math import ceil

import uvicorn
from starlette.types import ASGIApp

from hierogram.daemon.configuration import Configuration, HttpConfiguration, extension_sections
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag
from hierogram.daemon.web.app import build_app, build_browser
from hierogram.daemon.web.connections import Connection, Gate, connection_limit
from hierogram.daemon.web.protocol.context import Service
from hierogram.storage.browsing.reader import Reader

_LOOK_SECONDS = 0.25
_START_SECONDS = 0.02
_BACKLOG = 4096
_ACCEPTED_PER_TURN = 16
_UNSENT_BYTES = 1 << 17
_MAX_HEADER_BYTES = 1 << 16
_BROWSING_GRACE_SECONDS = 3.0

_log = logging.getLogger(__name__)


def browse(store: str, configuration: HttpConfiguration, ready: Callable[[str, str], None]) -> None:
    """Serve the pages of a store, without a daemon, until a signal arrives; `ready` receives both URLs."""
    with Reader(store) as reader, _bound(configuration) as listener:
        listener.listen(_BACKLOG)
        host, port = listener.getsockname()[:2]
        display_host = f"[{host}]" if ":" in host else host
        ready(reader.url, f"http://{display_host}:{port}/")
        app = build_browser(reader, configuration)
        # In the main thread uvicorn handles signals: it shuts down, then raises the signal again.
        asyncio.run(_answer(app, configuration, _BROWSING_GRACE_SECONDS, listener, StopFlag(), Heartbeat()))


class HttpLoop:
    """Loop that serves HTTP while the daemon runs; `address` is its host and port once it listens."""

    name = "http"
    sections = frozenset({"http", "intake", *extension_sections()})

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._place: tuple[str, int] | None = None
        self.address: tuple[str, int] | None = None

    def prepare(self, configuration: Configuration) -> None:
        """Bind the address for the next `run`, which listens and serves, unless it is bound already.

        Until then connections are refused at once and do not wait for kernels to load. If the address cannot be bound,
        raises `DaemonError` and keeps the previous address.
        """
        http = configuration.http
        address = (http.host, http.port) if http.enabled else None
        if address == self._place:
            return
        listener = None if address is None else _bound(http)
        with self._lock:
            before, self._listener, self._place = self._listener, listener, address
        if before is not None:
            before.close()

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """See `Loop.run`. Raises `DaemonError` if the address cannot be bound."""
        configuration = self._service.configuration
        http = configuration.http
        if not http.enabled:
            while not stop.is_set():
                beat.ok()
                stop.wait(_LOOK_SECONDS)
            return
        with self._lock:
            listener, self._listener = self._listener, None
        with listener or _bound(http) as listener:

            def stopping() -> bool:
                return stop.is_set() or self._service.stopping()

            app = build_app(self._service, configuration, stopping)
            listener.listen(_BACKLOG)
            self.address = listener.getsockname()[:2]
            _log.info("listening on http://%s:%d", *self.address)
            asyncio.run(_answer(app, http, configuration.daemon.grace_seconds / 2, listener, stop, beat))


def _bound(configuration: HttpConfiguration) -> socket.socket:
    host = configuration.host.strip("[]")
    # asyncio disables Nagle's algorithm only for sockets created with IPPROTO_TCP.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit these options. The kernel closes a connection whose client acknowledges no data within the
        # timeout, and buffers few unsent bytes, so that slow readers are detected soon.
        client_timeout = ceil(1_000 * configuration.client_timeout)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, client_timeout)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, configuration.port))
    except OSError as error:
        listener.close()
        raise DaemonError(
            f"cannot listen on {host} port {configuration.port}: {error.strerror or error}: choose another address "
            "with --host and --port, or in [http] of the configuration"
        ) from error
    return listener


async def _answer(
    app: ASGIApp,
    configuration: HttpConfiguration,
    grace_seconds: float,
    listener: socket.socket,
    stop: StopFlag,
    beat: Heartbeat,
) -> None:
    """Run the server until the flag is set. The heartbeat comes from the event loop and so proves that it turns."""
    limit = connection_limit(configuration.max_connections)
    gate = Gate(app, configuration.client_timeout, configuration.min_bytes_per_second, limit)
    server = _server(gate, configuration, grace_seconds)
    running: asyncio.Task[None] = asyncio.create_task(server.serve(sockets=[listener]))
    while not running.done() and not server.started:
        await asyncio.wait([running], timeout=_START_SECONDS)
    if not running.done():
        # asyncio accepts up to `backlog` connections in one turn of the event loop, so uvicorn gets a small backlog. In
        # a burst of thousands, the first are then served before the last are accepted; the kernel queues the rest.
        listener.listen(_BACKLOG)
    while not running.done():
        if stop.is_set() and not server.should_exit:
            gate.stop()
            server.should_exit = True
        gate.sweep()
        beat.ok()
        await asyncio.wait([running], timeout=_LOOK_SECONDS)
    await running


def _server(gate: Gate, configuration: HttpConfiguration, grace_seconds: float) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            gate,
            http=Connection,
            backlog=_ACCEPTED_PER_TURN,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            # uvicorn logs warnings for invalid requests and upgrades, with which clients could fill the disk.
            log_level=logging.ERROR,
            access_log=False,
            # The gate needs the address of the connection; the middleware behind it handles proxy headers.
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=ceil(configuration.client_timeout),
            timeout_graceful_shutdown=ceil(grace_seconds),
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        )
    )
