"""HTTP application: API and pages behind authentication and rate limits."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, cast

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from hierogram.daemon.configuration import Configuration, HttpConfiguration
from hierogram.daemon.extensions import extensions
from hierogram.daemon.web.api.aligning import align_routes, link_routes
from hierogram.daemon.web.api.events import event_routes
from hierogram.daemon.web.api.grammar import grammar_routes
from hierogram.daemon.web.api.health import RequestMetrics, health_routes
from hierogram.daemon.web.api.ingest import ingest_routes
from hierogram.daemon.web.guard import Guard
from hierogram.daemon.web.pages.rendering import PageContext
from hierogram.daemon.web.pages.site import build_pages
from hierogram.daemon.web.protocol.context import ProtocolApp, Service, WebContext
from hierogram.daemon.web.protocol.document import API_PREFIXES, DescribedApi
from hierogram.daemon.web.protocol.problems import check_query, install_problem_handlers
from hierogram.daemon.web.protocol.rates import RateLimiter
from hierogram.daemon.web.protocol.sessions import Sessions
from hierogram.daemon.web.protocol.threads import READERS, Threads
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.sql_runner import SqlRunner

_log = logging.getLogger(__name__)


def _lifespan(
    *resources: Reader | SqlRunner | None, apps: Sequence[ProtocolApp] = ()
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return a lifespan that limits the default thread pool, runs the lifespans of `apps`, and closes `resources`."""

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
    """Return the ASGI application of a daemon.

    Long requests end when `stopping` returns True. The default is `service.stopping`.
    """
    metrics, reader = RequestMetrics(), service.grammar_store.reader
    context = WebContext(service, configuration, stopping or service.stopping)
    http = context.http
    sql_runner = _sql_runner(reader, http) if http.pages else None
    protocol_apps = [app for extension in extensions() if extension.apps for app in extension.apps(context)]
    app = DescribedApi(
        with_token=http.token is not None,
        title="Hierogram",
        summary="Grammar store that keeps learning.",
        version=version("hierogram"),
        openapi_url=None,
        # Scope `function`: pass the turn on before the response is sent, so that slow clients hold no turn.
        dependencies=[Depends(check_query), Depends(context.threads.read_turns, scope="function")],
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(reader, sql_runner, apps=protocol_apps),
    )
    install_problem_handlers(app)
    app.include_router(health_routes(context, metrics))
    app.include_router(grammar_routes(context))
    app.include_router(ingest_routes(context, metrics))
    app.include_router(event_routes(context))
    app.include_router(align_routes(context))
    app.include_router(link_routes(context))
    for extension in extensions():
        for router in extension.routes(context) if extension.routes else ():
            app.include_router(router)

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())

    pages = None
    if http.pages:
        page = PageContext(reader, context.sessions, context.threads, sql_runner, service)
        pages = build_pages(page, http.sql_seconds, context=context)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for protocol in protocol_apps:
                if protocol.handles(scope):
                    await protocol.app(scope, receive, send)
                    return
        to_pages = scope["type"] == "http" and not scope["path"].startswith(API_PREFIXES)
        await (pages if to_pages and pages else app)(scope, receive, send)

    protocols = [app for app in protocol_apps if app.refuse]
    return _behind_proxies(Guard(dispatch, context.rate_limiter, metrics, context.sessions, protocols), http)


def build_browser(reader: Reader, configuration: HttpConfiguration) -> ASGIApp:
    """Return the ASGI application with the read-only pages of a store, without a daemon."""
    sessions = Sessions(configuration.token)
    sql_runner = _sql_runner(reader, configuration)
    page = PageContext(reader, sessions, Threads(), sql_runner)
    pages = build_pages(page, configuration.sql_seconds, lifespan=_lifespan(sql_runner))
    rate_limiter = RateLimiter(configuration.max_rate, configuration.max_burst)
    return _behind_proxies(Guard(pages, rate_limiter, RequestMetrics(), sessions), configuration)


def _behind_proxies(app: ASGIApp, configuration: HttpConfiguration) -> ASGIApp:
    """Wrap an application so that headers of trusted proxies set the client address and the scheme of a request."""
    # Cast, because mypy treats the equivalent ASGI types of uvicorn and Starlette as different.
    proxied: Any = ProxyHeadersMiddleware(cast("Any", app), configuration.forwarded_allow_ips)
    return cast("ASGIApp", proxied)


def _sql_runner(reader: Reader, configuration: HttpConfiguration) -> SqlRunner | None:
    if not configuration.sql:
        return None
    sql_runner = SqlRunner(
        reader.engine.url, configuration.sql_url.get_secret_value() if configuration.sql_url else None
    )
    if sql_runner.refusal is not None:
        _log.warning("%s", sql_runner.refusal)
    return sql_runner
