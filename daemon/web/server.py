"""HTTP server: uvicorn on a bound socket, with limits on connections and request times.

uvicorn limits only the time between two requests, not the time for a request head, for a body, or for a response that
the client does not read. Above its connection limit, uvicorn responds with 503 even to health checks, and accepts more
connections until the descriptors run out. docs/decisions/daemon.md gives the reason for the subclass of its protocol.
"""

import asyncio
import logging
import re
import resource
import select
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil

import h11
import uvicorn
from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hierogram.daemon.configuration import Configuration, HttpConfiguration, extension_sections
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag, idle
from hierogram.daemon.web.application import build_app, build_browser
from hierogram.daemon.web.protocol.context import Service
from hierogram.daemon.web.protocol.problems import LIVENESS_PATH, ProblemError, problem_response, try_later
from hierogram.storage.browsing.reader import Reader

_POLL_SECONDS, _START_POLL_SECONDS = 0.25, 0.02
_BACKLOG = 4096
"""Number of connections that the operating system queues until the server accepts them."""
_ACCEPT_BACKLOG = 16
"""Number of connections that asyncio accepts in one iteration of the event loop."""
_UNSENT_BYTES = 1 << 17
_MAX_HEADER_BYTES = 1 << 16
_BROWSE_GRACE_SECONDS = 3.0
_SPARE_CONNECTIONS = 32
"""Number of connections allowed beyond the limit, for 503 responses and `/healthz`."""
_RESERVED_DESCRIPTORS = 256
"""File descriptors reserved for the store, spool, exports and workers, up to half of all descriptors."""
_BUSY_RETRY_SECONDS = 2
_STOPPING_RETRY_SECONDS = 5
_LONG_SILENCE_MS = 500
"""Milliseconds without data after which a client that closed its sending side counts as gone."""
_MAX_HEADERS = 256
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")

_log = logging.getLogger(__name__)


def connection_limit(requested: int) -> int:
    """Return the connection limit: `requested`, or fewer if the process may open too few file descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return requested
    return max(1, min(requested, limit - min(_RESERVED_DESCRIPTORS, limit // 2) - 2 * _SPARE_CONNECTIONS))


@dataclass(eq=False)
class _Exchange:
    """Request and response of a connection, with deadlines for the body and for reading the response."""

    _gate: "_Gate"
    _transport: asyncio.Transport
    _receive: Receive
    _send: Send
    _body_bytes: int = 0
    _waited_seconds: float = 0.0
    _body_complete: bool = False
    _response_started: bool = False
    body_timeout: asyncio.Timeout | None = None
    """Deadline of the next part of the body, while `receive` waits for it."""
    refusal: ProblemError | None = None
    """Reason why the rest of the body is not received, or None."""
    cancel_scope: CancelScope | None = None
    """Cancel scope of a read-only request, canceled when the client disconnects."""

    def refuse(self, problem: ProblemError) -> ProblemError:
        """Stop receiving the body. Returns the first refusal."""
        problem.headers["Connection"] = "close"
        self.refusal = self.refusal or problem
        if self.body_timeout is not None and not self.body_timeout.expired():
            self.body_timeout.reschedule(_now())
        return self.refusal

    async def receive(self) -> Message:
        """Return the next ASGI message. Raises `ProblemError` for a refused or slow body."""
        if self._body_complete:
            return await self._receive()
        client_timeout, started = self._gate.client_timeout, _now()
        allowed_seconds = client_timeout + self._body_bytes / self._gate.min_bytes_per_second
        seconds_left = min(client_timeout, allowed_seconds - self._waited_seconds)
        try:
            # Data that has already arrived is returned even with a timeout of 0.
            async with asyncio.timeout(0 if self.refusal else seconds_left) as self.body_timeout:
                message = await self._receive()
        except TimeoutError:
            is_first_timeout = self.refusal is None
            seconds = self._waited_seconds + _now() - started
            reason = f"the body arrived too slowly: {self._body_bytes} bytes in {seconds:.0f} s (client_timeout)"
            refusal = self.refuse(ProblemError(HTTPStatus.REQUEST_TIMEOUT, reason))
            if not self._response_started:
                raise refusal from None
            # After the start of the response, no other response can be sent.
            if is_first_timeout:
                await self._abort()
            return {"type": "http.disconnect"}
        finally:
            self.body_timeout = None
            self._waited_seconds += _now() - started
        self._body_bytes += len(message.get("body", b""))
        self._body_complete = message["type"] != "http.request" or not message.get("more_body")
        return message

    async def send(self, message: Message) -> None:
        """Send an ASGI message. Aborts the connection if the client reads nothing for `client_timeout`."""
        self._response_started = True
        unsent, buffered = -1, self._transport.get_write_buffer_size()
        while buffered != unsent:
            unsent = buffered
            try:
                # uvicorn waits here until the buffer has drained and only then writes, so the call can be repeated.
                async with asyncio.timeout(self._gate.client_timeout):
                    return await self._send(message)
            except TimeoutError:
                buffered = self._transport.get_write_buffer_size()
        return await self._abort()

    async def _abort(self) -> None:
        self._transport.abort()
        # Wait until uvicorn has handled the abort, in the next iteration of the event loop. Otherwise, uvicorn would
        # log an application error.
        await asyncio.sleep(0)


def _now() -> float:
    # `anyio.current_time` may fail in callbacks of the event loop, such as `connection_made`, because sniffio finds the
    # event loop only in tasks.
    return asyncio.get_running_loop().time()


@dataclass(eq=False)
class _Gate:
    """Middleware that enforces client deadlines and the connection limit.

    A client has `client_timeout` seconds to send a request head, to send a body, and to read part of a response. A body
    may take longer while it arrives faster than `min_bytes_per_second`. With `max_requests` running requests, further
    requests get 503, except `/healthz`.
    """

    app: ASGIApp
    client_timeout: float
    min_bytes_per_second: float
    max_requests: int
    _connections: dict[tuple[str, int], "_Connection"] = field(default_factory=dict)
    _running: set[_Exchange] = field(default_factory=set)

    def register(self, new: "_Connection", address: tuple[str, int]) -> None:
        """Add a connection. Above the limit, evict the awaited client that has been silent longest."""
        self._connections[address] = new
        connections = [connection for connection in self._connections.values() if not connection.is_closing]
        if len(connections) > self.max_requests:
            awaited = [connection for connection in connections if connection is not new and connection.is_awaited]
            if awaited:
                silent = min(awaited, key=lambda connection: connection.last_data_at)
                if silent.exchange is not None and silent.exchange.body_timeout is not None:
                    reason = "too many connections (max_connections), and this client has been silent longest"
                    silent.exchange.refuse(try_later(reason, _BUSY_RETRY_SECONDS))
                else:
                    silent.transport.abort()
            if len(self._connections) > self.max_requests + _SPARE_CONNECTIONS:
                new.transport.abort()

    def unregister(self, address: tuple[str, int]) -> None:
        """Remove a connection, and cancel its request if that only reads."""
        connection = self._connections.pop(address, None)
        if connection and connection.exchange and connection.exchange.cancel_scope:
            connection.exchange.cancel_scope.cancel()

    def close_idle(self) -> None:
        """Close connections whose client takes too long to send a request head or to read the last response."""
        for connection in [connection for connection in self._connections.values() if connection.exchange is None]:
            unsent = connection.transport.get_write_buffer_size()
            if unsent != connection.unsent_bytes:
                connection.unsent_bytes, connection.waiting_since = unsent, _now()
            elif _now() - connection.waiting_since > self.client_timeout:
                connection.transport.abort()

    def stop(self) -> None:
        """Refuse incomplete bodies. Requests with complete bodies are still answered."""
        reason = "the HTTP server is stopping: send the rest after its restart"
        for exchange in self._running:
            exchange.refuse(try_later(reason, _STOPPING_RETRY_SECONDS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        connection = self._connections.get(scope["client"])
        if connection is None:
            # The client has disconnected, so no response is needed.
            return
        app, running = self.app, sum(exchange.refusal is None for exchange in self._running)
        # Liveness checks are exempt, because they must not fail under load.
        if running >= self.max_requests and scope["path"] != LIVENESS_PATH:
            problem = try_later("too many concurrent requests (max_connections)", _BUSY_RETRY_SECONDS)
            problem.headers["Connection"] = "close"
            app = problem_response(problem)
        exchange = connection.exchange = _Exchange(self, connection.transport, receive, send)
        self._running.add(exchange)
        try:
            with CancelScope() as cancel_scope:
                exchange.cancel_scope = cancel_scope if scope["method"] in ("GET", "HEAD") else None
                await app(scope, exchange.receive, exchange.send)
        finally:
            self._running.discard(exchange)
            # The next request on this connection may have started already.
            if connection.exchange is exchange:
                connection.exchange, connection.waiting_since = None, _now()


class _Connection(H11Protocol):
    """HTTP connection that registers with the gate and rejects requests that are expensive to parse."""

    last_data_at: float
    """Time of the event loop at which data last arrived."""
    waiting_since: float
    """Start of the wait for a request head, or time at which the client last read part of a response."""
    unsent_bytes = 0
    """Size of the write buffer when `_Gate.close_idle` last saw it change."""
    exchange: _Exchange | None = None
    """Running request, or None between requests."""

    @property
    def is_awaited(self) -> bool:
        """True if the server waits for the client to send or to read."""
        exchange = self.exchange
        return exchange is None or exchange.body_timeout is not None or self.transport.get_write_buffer_size() > 0

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing() or (self.exchange is not None and self.exchange.refusal is not None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        if self.client is None or _has_left(transport):
            # The client will not read a response, and thousands of such requests would delay other clients.
            transport.abort()
        else:
            self.last_data_at = self.waiting_since = self.loop.time()
            self._gate.register(self, self.client)

    def data_received(self, data: bytes) -> None:
        self.last_data_at = self.loop.time()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.client is not None:
            self._gate.unregister(self.client)

    @property
    def _gate(self) -> _Gate:
        assert isinstance(self.config.app, _Gate)
        return self.config.app

    def handle_events(self) -> None:
        # Reject a head with too many headers, because h11 needs 6 µs for each header.
        if self.conn.their_state is h11.IDLE:
            head = _END_OF_HEAD.split(self.conn.trailing_data[0], maxsplit=1)[0]
            if head.count(b"\n") > _MAX_HEADERS:
                self.send_400_response(f"more than {_MAX_HEADERS} headers")
                return
        super().handle_events()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            # Another response has started.
            self.transport.abort()


def _has_left(transport: asyncio.Transport) -> bool:
    """Check if the client reset the connection, or closed it and has sent no data for `_LONG_SILENCE_MS`."""
    connection = transport.get_extra_info("socket")
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    flags = sum(flags for _, flags in poll.poll(0))
    # The field `tcpi_last_data_recv` counts milliseconds since the last data arrived.
    silent_ms = int.from_bytes(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)[52:], sys.byteorder)
    # A client that just closed its sending side may still wait for the response.
    return bool(flags & ~select.POLLRDHUP) or (bool(flags) and silent_ms > _LONG_SILENCE_MS)


def browse(store: str, configuration: HttpConfiguration, ready: Callable[[str, str], None]) -> None:
    """Serve the pages until a signal arrives. `ready` receives the URLs of store and site."""
    with Reader(store) as reader, _bind(configuration) as listener:
        listener.listen(_BACKLOG)
        ready(reader.url, f"{_url(listener)}/")
        gate = _make_gate(build_browser(reader, configuration), configuration)
        # In the main thread, uvicorn handles signals: it shuts down, then raises the signal again.
        asyncio.run(_serve(gate, listener, _BROWSE_GRACE_SECONDS, StopFlag(), Heartbeat()))


class HttpLoop:
    """Loop that serves HTTP. `address` is the host and port, or None until the loop listens."""

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
        listener = _bind(http) if http.enabled else None
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
            gate = _make_gate(build_app(self._service, configuration, stop.is_set), http)
            # Listen only now, so that earlier connections are refused at once instead of waiting until the compiled
            # samplers are loaded.
            listener.listen(_BACKLOG)
            self.address = listener.getsockname()[:2]
            _log.info("listening on %s", _url(listener))
            asyncio.run(_serve(gate, listener, configuration.daemon.grace_seconds / 2, stop, beat))


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
        advice = "choose another address with --host and --port, or in [http] of the configuration"
        address = f"{host} port {configuration.port}"
        raise DaemonError(f"cannot listen on {address}: {error.strerror or error}: {advice}") from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _make_gate(app: ASGIApp, configuration: HttpConfiguration) -> _Gate:
    limit = connection_limit(configuration.max_connections)
    return _Gate(app, configuration.client_timeout, configuration.min_bytes_per_second, limit)


async def _serve(gate: _Gate, listener: socket.socket, grace_seconds: float, stop: StopFlag, beat: Heartbeat) -> None:
    """Run the server until `stop` is set, or until a signal arrives in the main thread."""
    server = uvicorn.Server(
        uvicorn.Config(
            gate,
            http=_Connection,
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
            timeout_keep_alive=ceil(gate.client_timeout),
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
        # Call `beat` in the event loop, so that a blocked event loop is detected.
        beat.ok()
        await asyncio.wait([running], timeout=_POLL_SECONDS)
    await running
