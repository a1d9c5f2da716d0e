"""The HTTP application: every route, behind the guard."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.web.api.document import describe
from hierogram.daemon.web.api.grammar import grammar_routes
from hierogram.daemon.web.api.health import health_routes
from hierogram.daemon.web.api.intake import intake_routes
from hierogram.daemon.web.api.metrics import RequestMetrics
from hierogram.daemon.web.api.parameters import refuse_unknown
from hierogram.daemon.web.api.problems import answer_problems
from hierogram.daemon.web.api.service import Service
from hierogram.daemon.web.guard import Guard

_READERS = 6
"""Threads that read the store; with the intakes and the loops, they stay within its pool of connections."""


@asynccontextmanager
async def _few_threads(_app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = _READERS
    yield


def build_app(
    service: Service,
    configuration: HttpConfiguration,
    limits: Limits = DEFAULT_LIMITS,
    ending: Callable[[], bool] | None = None,
) -> ASGIApp:
    """The application that answers for the service; long requests end when `ending` says so (else the service).

    `limits` bound how much of a body may be rejected.
    """
    metrics = RequestMetrics()
    app = FastAPI(
        title="Hierogram",
        summary="A grammar store that keeps learning.",
        version=version("hierogram"),
        openapi_url=None,
        dependencies=[Depends(refuse_unknown)],
        docs_url=None,
        redoc_url=None,
        lifespan=_few_threads,
    )
    answer_problems(app)
    describe(app, with_token=configuration.token is not None)
    app.include_router(health_routes(service, configuration, metrics))
    app.include_router(grammar_routes(service))
    app.include_router(intake_routes(service, configuration, limits, metrics, ending or service.stopping))

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(app.openapi())

    return Guard(app, configuration, metrics)
