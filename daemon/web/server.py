"""HTTP server of the daemon and of `hierogram browse`: the application, and uvicorn on a bound socket."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from math import ceil
from typing import Any, cast

import uvicorn
from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from hierogram.daemon.configuration import Configuration, HttpConfiguration, extension_sections
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.extensions import extensions
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag, idle
from hierogram.daemon.web.api.aligning import align_routes, link_routes
from hierogram.daemon.web.api.events import event_routes
from hierogram.daemon.web.api.grammar import grammar_routes
from hierogram.daemon.web.api.health import health_routes
from hierogram.daemon.web.api.ingest import ingest_routes
from hierogram.daemon.web.connections import Connection, Gate, connection_limit
from hierogram.daemon.web.pages.rendering import PageContext
from hierogram.daemon.web.pages.site import build_pages
from hierogram.daemon.web.protocol.access import Guard, ProtocolApp, RateLimiter, RequestMetrics, Sessions
from hierogram.daemon.web.protocol.context import Service, WebContext
from hierogram.daemon.web.protocol.problems import DescribedApi, check_query, install_problem_handlers
from hierogram.daemon.web.protocol.threads import READERS, Threads
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.sql_runner import SqlRunner

_POLL_SECONDS, _START_POLL_SECONDS = 0.25, 0.02
_BACKLOG = 4096
_ACCEPT_BACKLOG = 16
_UNSENT_BYTES = 1 << 17
_MAX_HEADER_BYTES = 1 << 16
_BROWSE_GRACE_SECONDS = 3.0

_log = logging.getLogger(__name__)


def _lifespan(
    *resources: Reader | SqlRunner | None, apps: Sequence[ProtocolApp] = ()
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = READERS
        async with AsyncExitStack() as stack:
            for app in apps:
                if app.lifespan is not None:
                    await stack.enter_async_context(app.lifespan())
            yield
        for resource in resources:
            if resource is not None:
                resource.close()

    return lifespan


def build_app(service: Service, configuration: Configuration, stopping: Callable[[], bool] | None = None) -> ASGIApp:
    """Return the ASGI application of a daemon. Long requests end when `stopping` (default: the daemon's) is True."""
    metrics, reader = RequestMetrics(), service.grammar_store.reader
    context = WebContext(service, configuration, stopping or service.stopping)
    http = context.http
    sql_runner = _sql_runner(reader, http) if http.pages else None
    protocols = [app for extension in extensions() if extension.apps for app in extension.apps(context)]
    app = DescribedApi(
        with_token=http.token is not None,
        title="Hierogram",
        summary="Grammar store that keeps learning.",
        version=version("hierogram"),
        # Without this URL, FastAPI adds no pages about the document, which load scripts from other servers.
        openapi_url=None,
        # Scope `function`: pass the turn on before the response is sent, so that slow clients hold no turn.
        dependencies=[Depends(check_query), Depends(context.threads.read_turns, scope="function")],
        lifespan=_lifespan(reader, sql_runner, apps=protocols),
    )
    install_problem_handlers(app)
    for router in (
        health_routes(context, metrics), grammar_routes(context), ingest_routes(context, metrics),
        event_routes(context), align_routes(context), link_routes(context),
        *(router for extension in extensions() if extension.routes for router in extension.routes(context)),
    ):  # fmt: skip
        app.include_router(router)

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())

    pages = None
    if http.pages:
        page = PageContext(reader, context.sessions, context.threads, sql_runner, service)
        pages = build_pages(page, http.sql_seconds, context=context)
    return _behind_proxies(Guard(app, context.rate_limiter, metrics, context.sessions, pages, protocols), http)


def build_browser(reader: Reader, configuration: HttpConfiguration) -> ASGIApp:
    """Return the ASGI application with the read-only pages of a store, without a daemon."""
    sessions = Sessions(configuration.token)
    sql_runner = _sql_runner(reader, configuration)
    page = PageContext(reader, sessions, Threads(), sql_runner)
    pages = build_pages(page, configuration.sql_seconds, lifespan=_lifespan(sql_runner))
    rate_limiter = RateLimiter(configuration.max_rate, configuration.max_burst)
    return _behind_proxies(Guard(pages, rate_limiter, RequestMetrics(), sessions), configuration)


def _behind_proxies(app: ASGIApp, configuration: HttpConfiguration) -> ASGIApp:
    # Cast, because mypy treats the equivalent ASGI types of uvicorn and Starlette as different.
    return cast("ASGIApp", ProxyHeadersMiddleware(cast("Any", app), configuration.forwarded_allow_ips))


def _sql_runner(reader: Reader, configuration: HttpConfiguration) -> SqlRunner | None:
    if not configuration.sql:
        return None
    sql_url = configuration.sql_url
    sql_runner = SqlRunner(reader.engine.url, sql_url.get_secret_value() if sql_url else None)
    if sql_runner.refusal is not None:
        _log.warning("%s", sql_runner.refusal)
    return sql_runner


def browse(store: str, configuration: HttpConfiguration, ready: Callable[[str, str], None]) -> None:
    """Serve the pages of a store until a signal arrives. `ready` receives the URLs of the store and the site."""
    with Reader(store) as reader, _bind(configuration) as listener:
        listener.listen(_BACKLOG)
        host, port = listener.getsockname()[:2]
        ready(reader.url, f"http://{f'[{host}]' if ':' in host else host}:{port}/")
        gate = _make_gate(build_browser(reader, configuration), configuration)
        # In the main thread, uvicorn handles signals: it shuts down, then raises the signal again.
        asyncio.run(_serve(gate, listener, _BROWSE_GRACE_SECONDS, StopFlag(), Heartbeat()))


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
            _log.info("listening on http://%s:%d", *self.address)
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


def _make_gate(app: ASGIApp, configuration: HttpConfiguration) -> Gate:
    limit = connection_limit(configuration.max_connections)
    return Gate(app, configuration.client_timeout, configuration.min_bytes_per_second, limit)


async def _serve(gate: Gate, listener: socket.socket, grace_seconds: float, stop: StopFlag, beat: Heartbeat) -> None:
    """Run the server until `stop` is set, or until a signal arrives in the main thread."""
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
