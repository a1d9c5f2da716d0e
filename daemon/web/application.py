"""ASGI applications: the API and pages of a daemon, and the pages of `hierogram browse`."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, cast

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from hierogram.daemon.configuration import Configuration, HttpConfiguration
from hierogram.daemon.extensions import extensions
from hierogram.daemon.web.api.aligning import align_routes, link_routes
from hierogram.daemon.web.api.events import event_routes
from hierogram.daemon.web.api.grammar import grammar_routes
from hierogram.daemon.web.api.health import health_routes
from hierogram.daemon.web.api.ingest import ingest_routes
from hierogram.daemon.web.pages.rendering import PageContext
from hierogram.daemon.web.pages.site import build_pages
from hierogram.daemon.web.protocol.access import Guard, ProtocolApp, RateLimiter, RequestMetrics, Sessions
from hierogram.daemon.web.protocol.bodies import check_query
from hierogram.daemon.web.protocol.context import Service, WebContext
from hierogram.daemon.web.protocol.problems import HEALTH_PATHS, MEDIA_TYPE, describe, install_problem_handlers
from hierogram.daemon.web.protocol.threads import READER_THREADS, ThreadPools
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.sql_runner import SqlRunner

_log = logging.getLogger(__name__)

_PROBLEM_SCHEMA = {
    "title": "Problem",
    "description": "Error [RFC 9457]. Some errors have further members.",
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string", "description": "Reason phrase of the status."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "Human-readable explanation of the problem and its solution."},
    },
}

_COMMON_RESPONSES = describe({
    400: "The query is malformed, or a parameter is unknown or repeated.",
    421: "The daemon has no token, and the header Host is not localhost or a loopback address.",
    429: "Too many requests from this address. See Retry-After.",
    500: "Internal error. See the log of the daemon.",
    503: "The store does not respond, too many requests are running, or the daemon is stopping. See Retry-After.",
})  # fmt: skip


def _complete_document(document: dict[str, Any], with_token: bool) -> None:
    """Add problems and, `with_token`, the authentication to an OpenAPI document."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    # Drop FastAPI's schemas of validation errors, because this API returns problems instead.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM_SCHEMA
    if with_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operation in ((path, item) for path, methods in document["paths"].items() for item in methods.values()):
        for parameter in operation.get("parameters", ()):
            # Remove null from the schema of an optional parameter, because a query cannot express null.
            schema = parameter["schema"]
            choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
            if len(choices) == 1:
                parameter["schema"] = {name: schema[name] for name in schema if name != "anyOf"} | dict(choices[0])
        responses = operation["responses"]
        # Replace FastAPI's 422 response, because its schema is dropped. Keep a response that the route declares.
        if "HTTPValidationError" in str(responses.get("422")):
            responses["422"] = {"description": "The value of a parameter is invalid."}
        if with_token and path not in HEALTH_PATHS:
            operation["security"] = [{"token": []}]
            responses["401"] = {"description": "The token is missing or invalid."}
        for status, response in responses.items():
            if int(status) >= HTTPStatus.BAD_REQUEST:
                reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
                response.setdefault("content", {})[MEDIA_TYPE] = reference
        operation["responses"] = dict(sorted(responses.items()))


def _lifespan(
    *resources: Reader | SqlRunner | None, apps: Sequence[ProtocolApp] = ()
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return a lifespan that runs the lifespans of `apps`, and closes the resources at its end."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = READER_THREADS
        async with AsyncExitStack() as stack:
            for resource in resources:
                if resource is not None:
                    stack.callback(resource.close)
            for app in apps:
                if app.lifespan is not None:
                    await stack.enter_async_context(app.lifespan())
            yield

    return lifespan


def build_app(service: Service, configuration: Configuration, stopping: Callable[[], bool] | None = None) -> ASGIApp:
    """Return the ASGI application of a daemon. Long requests end when `stopping` returns True."""
    metrics, reader = RequestMetrics(), service.grammar_store.reader
    context = WebContext(service, configuration, stopping or service.stopping)
    http = context.http
    sql_runner = _sql_runner(reader, http) if http.pages else None
    protocols = [app for extension in extensions() for app in extension.apps(context)]
    app = FastAPI(
        title="Hierogram",
        summary="Grammar store that keeps learning.",
        version=version("hierogram"),
        # FastAPI would also add documentation pages, which load scripts from other servers.
        openapi_url=None,
        responses=_COMMON_RESPONSES,
        # Scope `function`: end the turn before the response is sent, so that slow clients hold no turn.
        dependencies=[Depends(check_query), Depends(context.threads.read_turns, scope="function")],
        lifespan=_lifespan(reader, sql_runner, apps=protocols),
    )
    install_problem_handlers(app)
    for router in (
        ingest_routes(context), health_routes(context, metrics), grammar_routes(context), event_routes(context),
        align_routes(context), link_routes(context),
        *(router for extension in extensions() for router in extension.routes(context)),
    ):  # fmt: skip
        app.include_router(router)

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())

    # FastAPI creates the document once, after all routes have been added.
    _complete_document(app.openapi(), http.token is not None)
    pages = None
    if http.pages:
        page = PageContext(reader, context.sessions, context.threads, sql_runner, service)
        pages = build_pages(page, http.sql_seconds, context=context)
    return _behind_proxies(Guard(app, context.rate_limiter, metrics, context.sessions, pages, protocols), http)


def build_browser(reader: Reader, configuration: HttpConfiguration) -> ASGIApp:
    """Return the ASGI application with the read-only pages of a store, without a daemon."""
    sessions = Sessions(configuration.token)
    sql_runner = _sql_runner(reader, configuration)
    page = PageContext(reader, sessions, ThreadPools(), sql_runner)
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
