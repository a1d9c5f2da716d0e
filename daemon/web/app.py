"""The HTTP application: the API and the pages, behind the guard."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.metadata import version

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.text.rejections import DEFAULT_LIMITS, Limits
from hierogram.daemon.web.api.aligning import align_routes, link_routes
from hierogram.daemon.web.api.events import event_routes
from hierogram.daemon.web.api.grammar import evidence_routes, grammar_routes
from hierogram.daemon.web.api.health import RequestMetrics, health_routes
from hierogram.daemon.web.api.intake import intake_routes
from hierogram.daemon.web.guard import ForeignDoor, Guard
from hierogram.daemon.web.pages.site import build_pages
from hierogram.daemon.web.protocol.document import OF_THE_API, describe
from hierogram.daemon.web.protocol.problems import answer_problems, refuse_unknown
from hierogram.daemon.web.protocol.service import Service
from hierogram.daemon.web.protocol.sessions import Sessions
from hierogram.storage.browsing.asking import Asker
from hierogram.storage.browsing.reader import Reader
from hierogram.tools.integrations.libretranslate import is_libretranslate, libretranslate, refused
from hierogram.tools.integrations.mcp.desk import Desk
from hierogram.tools.integrations.mcp.server import PATH, make_server, over_http
from hierogram.tools.integrations.memory_routes import memory_routes
from hierogram.tools.translation.corrections import Corrections
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.plain_text import PlainTranslator
from hierogram.tools.translation.routes import translate_routes
from hierogram.tools.translation.shared_translator import Translations

_log = logging.getLogger(__name__)

READERS = 5
"""Threads that read the store; with the intakes, the status and the loops, they stay within its pool of connections."""


Running = Callable[[], AbstractAsyncContextManager[None]]
"""Makes what runs as long as the application does."""


def _lifespan(
    *closed: Reader | Asker | None, running: Running = nullcontext
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Few threads, and in the end what is handed over is closed."""

    @asynccontextmanager
    async def few_threads(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = READERS
        async with running():
            yield
        for one in closed:
            if one is not None:
                one.close()

    return few_threads


def build_app(
    service: Service,
    configuration: HttpConfiguration,
    limits: Limits = DEFAULT_LIMITS,
    ending: Callable[[], bool] | None = None,
    translating: TranslateOptions | None = None,
) -> ASGIApp:
    """Return the application that answers for the service; long requests end when `ending` says so (else the service).

    `limits` bound how much of a body may be rejected; `translating` says what sentences are translated with.
    """
    metrics = RequestMetrics()
    store, reader = service.store.store, service.store.reader
    asker = _asker(reader, configuration) if configuration.pages else None
    corrections = Corrections(store, reader, service.withdraw)
    translations = Translations(store, translating or TranslateOptions(), corrections)
    translator = PlainTranslator(store, reader, lambda: translations.now()[0])
    models: ASGIApp | None = None
    running: Running = nullcontext
    if configuration.mcp != "off":
        desk = Desk(service.store, translator, corrections)
        models, running = over_http(make_server(desk, may_add=configuration.mcp == "add"))
    app = FastAPI(
        title="Hierogram",
        summary="A grammar store that keeps learning.",
        version=version("hierogram"),
        openapi_url=None,
        dependencies=[Depends(refuse_unknown)],
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(reader, asker, running=running),
    )
    answer_problems(app)
    describe(app, with_token=configuration.token is not None)
    app.include_router(health_routes(service, configuration, metrics))
    app.include_router(grammar_routes(service))
    app.include_router(intake_routes(service, configuration, limits, metrics, ending or service.stopping))
    app.include_router(event_routes(service, ending or service.stopping))
    app.include_router(align_routes(service))
    app.include_router(link_routes(service))
    app.include_router(evidence_routes(service))
    app.include_router(memory_routes(service))
    app.include_router(translate_routes(translations))

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())

    sessions = Sessions(configuration.token)
    pages = None
    if configuration.pages:
        pages = build_pages(
            reader, sessions, configuration, service, asker, translations=translations, corrections=corrections
        )
    door: ASGIApp | None = None
    if configuration.libretranslate:
        door = libretranslate(translator, corrections, sessions)

    async def by_address(scope: Scope, receive: Receive, send: Send) -> None:
        if models and scope["type"] == "http" and scope["path"] == PATH:
            await models(scope, receive, send)
            return
        if door and scope["type"] == "http" and is_libretranslate(scope):
            await door(scope, receive, send)
            return
        to_pages = scope["type"] == "http" and not scope["path"].startswith(OF_THE_API)
        await (pages if to_pages and pages else app)(scope, receive, send)

    foreign = ForeignDoor(is_libretranslate, refused) if door else None
    return Guard(by_address, configuration, metrics, sessions, foreign)


def build_browser(reader: Reader, configuration: HttpConfiguration) -> ASGIApp:
    """Return the pages of a store without a daemon, where nothing can be changed."""
    sessions = Sessions(configuration.token)
    asker = _asker(reader, configuration)
    pages = build_pages(reader, sessions, configuration, asker=asker, lifespan=_lifespan(asker))
    return Guard(pages, configuration, RequestMetrics(), sessions)


def _asker(reader: Reader, configuration: HttpConfiguration) -> Asker | None:
    if not configuration.ask:
        return None
    asker = Asker(reader.engine.url, configuration.ask_url.get_secret_value() if configuration.ask_url else None)
    if asker.refusal is not None:
        _log.warning("%s", asker.refusal)
    return asker
