"""HTTP loop of the daemon and server of `hierogram browse`: uvicorn on a socket that is bound before it starts."""

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
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag, idle
from hierogram.daemon.web.app import build_app, build_browser
from hierogram.daemon.web.connections import Connection, Gate, connection_limit
from hierogram.daemon.web.protocol.context import Service
from hierogram.storage.browsing.reader import Reader

_POLL_SECONDS = 0.25
_START_POLL_SECONDS = 0.02
_BACKLOG = 4096
_ACCEPT_BACKLOG = 16
_UNSENT_BYTES = 1 << 17
_MAX_HEADER_BYTES = 1 << 16
_BROWSE_GRACE_SECONDS = 3.0

_log = logging.getLogger(__name__)


def browse(store: str, configuration: HttpConfiguration, ready: Callable[[str, str], None]) -> None:
    """Serve the pages of a store until a signal arrives. `ready` receives the URLs of the store and the site."""
    with Reader(store) as reader, _bind(configuration) as listener:
        listener.listen(_BACKLOG)
        host, port = listener.getsockname()[:2]
        display_host = f"[{host}]" if ":" in host else host
        ready(reader.url, f"http://{display_host}:{port}/")
        app = build_browser(reader, configuration)
        # In the main thread, uvicorn handles signals: it shuts down, then raises the signal again.
        asyncio.run(_serve(app, configuration, _BROWSE_GRACE_SECONDS, listener, StopFlag(), Heartbeat()))


class HttpLoop:
    """Loop that serves HTTP while the daemon runs. `address` is the host and port, None until the loop listens."""

    name = "http"
    sections = frozenset({"http", "intake", *extension_sections()})

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._bound_address: tuple[str, int] | None = None
        self.address: tuple[str, int] | None = None

    def prepare(self, configuration: Configuration) -> None:
        """Bind the address for the next `run`. If binding fails, keep the old address and raise `DaemonError`."""
        http = configuration.http
        address = (http.host, http.port) if http.enabled else None
        if address == self._bound_address:
            return
        listener = None if address is None else _bind(http)
        with self._lock:
            before, self._listener, self._bound_address = self._listener, listener, address
        if before is not None:
            before.close()

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """See `Loop.run`. Raises `DaemonError` if the address cannot be bound."""
        configuration = self._service.configuration
        http = configuration.http
        if not http.enabled:
            idle(stop, beat)
            return
        with self._lock:
            listener, self._listener = self._listener, None
        with listener or _bind(http) as listener:

            def stopping() -> bool:
                return stop.is_set() or self._service.stopping()

            app = build_app(self._service, configuration, stopping)
            # Listen only now, so that earlier connections are refused at once instead of waiting until the compiled
            # samplers are loaded.
            listener.listen(_BACKLOG)
            self.address = listener.getsockname()[:2]
            _log.info("listening on http://%s:%d", *self.address)
            asyncio.run(_serve(app, http, configuration.daemon.grace_seconds / 2, listener, stop, beat))


def _bind(configuration: HttpConfiguration) -> socket.socket:
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


async def _serve(
    app: ASGIApp,
    configuration: HttpConfiguration,
    grace_seconds: float,
    listener: socket.socket,
    stop: StopFlag,
    beat: Heartbeat,
) -> None:
    """Run the server until `stop` is set, or until a signal arrives in the main thread.

    Calls `beat` in the event loop, so that a blocked event loop is detected.
    """
    limit = connection_limit(configuration.max_connections)
    gate = Gate(app, configuration.client_timeout, configuration.min_bytes_per_second, limit)
    server = uvicorn.Server(
        uvicorn.Config(
            gate,
            http=Connection,
            backlog=_ACCEPT_BACKLOG,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            # uvicorn logs a warning for each invalid request or upgrade, so clients could fill the disk.
            log_level=logging.ERROR,
            access_log=False,
            # The gate needs the peer address of the connection. A later middleware applies proxy headers.
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=ceil(configuration.client_timeout),
            timeout_graceful_shutdown=ceil(grace_seconds),
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        )
    )
    running: asyncio.Task[None] = asyncio.create_task(server.serve(sockets=[listener]))
    while not running.done() and not server.started:
        await asyncio.wait([running], timeout=_START_POLL_SECONDS)
    if not running.done():
        # uvicorn has set the backlog of the socket to `_ACCEPT_BACKLOG`, which is small because asyncio accepts up to
        # `backlog` connections in one iteration of the event loop. Set the large backlog again, so that the operating
        # system queues the connections of a burst.
        listener.listen(_BACKLOG)
    while not running.done():
        if stop.is_set() and not server.should_exit:
            gate.stop()
            server.should_exit = True
        gate.close_idle()
        beat.ok()
        await asyncio.wait([running], timeout=_POLL_SECONDS)
    await running
