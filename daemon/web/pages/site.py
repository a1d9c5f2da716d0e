"""The application of all pages: routes, files that they load, and what is said where something goes wrong."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from hierogram.daemon.web.pages.asking import asking_routes
from hierogram.daemon.web.pages.entering import entering_routes
from hierogram.daemon.web.pages.now import now_routes
from hierogram.daemon.web.pages.pairs import pair_routes
from hierogram.daemon.web.pages.rendering.view import STATIC, Nature, View, static_content, wants_page
from hierogram.daemon.web.pages.rules import rule_routes
from hierogram.daemon.web.pages.search import search_routes
from hierogram.daemon.web.pages.visit import Visit
from hierogram.daemon.web.pages.words import word_routes
from hierogram.daemon.web.protocol.problems import (
    STORE_RETRY_SECONDS,
    ProblemError,
    answer,
    problem_of_parameters,
    try_later,
)
from hierogram.daemon.web.protocol.service import Service
from hierogram.daemon.web.protocol.sessions import FILES, Sessions
from hierogram.storage.browsing.asking import Asker
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.exceptions import SlowQueryError, StoreError

_TYPES = {"svg": "image/svg+xml", "css": "text/css", "js": "text/javascript"}
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asking:
    """Who answers SQL that people ask, for how many seconds a question, and how many rows of an answer a page shows."""

    asker: Asker
    seconds: float = 10.0
    rows: int = 500


def build_pages(
    reader: Reader,
    sessions: Sessions,
    service: Service | None = None,
    asking: Asking | None = None,
    lifespan: Any = None,
) -> FastAPI:
    """The pages of a store; with a service, those of its daemon, where pairs may be taken out.

    SQL is answered only with `asking`.
    """
    nature = Nature(reader.url, writes=service is not None, asks=asking is not None, live=service is not None)
    view = View(nature, sessions)
    visit = Visit(reader, view, service)
    app = FastAPI(title="Hierogram's pages", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    for routes in (search_routes, rule_routes, pair_routes, word_routes, now_routes, entering_routes):
        app.include_router(routes(visit))
    if asking is not None:
        app.include_router(asking_routes(visit, asking.asker, asking.seconds, asking.rows))
    _serve_files(app)
    _answer_problems(app, view)
    return app


def _serve_files(app: FastAPI) -> None:
    contents = {name: static_content(name) for name in STATIC}

    @app.get(FILES + "{name:path}")
    async def file(name: str) -> Response:
        """A file that pages load; its address changes with its content."""
        if name not in contents:
            raise ProblemError(HTTPStatus.NOT_FOUND, "there is no such file")
        return Response(
            contents[name], media_type=_TYPES[name.rpartition(".")[2]], headers={"Cache-Control": _FOREVER}
        )  # fmt: skip


def _answer_problems(app: FastAPI, view: View) -> None:
    def said(request: Request, problem: ProblemError) -> Response:
        if not wants_page(request):
            return answer(problem)
        content = {"title": problem.status.phrase, "status": int(problem.status), "detail": problem.detail}
        made = view.page(request, "problem", content, problem.status)
        made.headers.update(problem.headers)
        return made

    async def of_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return said(request, error)

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        detail = f"there is no page at {request.url.path}" if status == HTTPStatus.NOT_FOUND else str(error.detail)
        return said(request, ProblemError(status, detail, dict(error.headers or {})))

    async def of_parameters(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return said(request, problem_of_parameters(error))

    async def of_store(request: Request, error: Exception) -> Response:
        return said(request, try_later(str(error), STORE_RETRY_SECONDS))

    async def of_slowness(request: Request, error: Exception) -> Response:
        return said(request, ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)))

    async def unforeseen(request: Request, error: Exception) -> Response:
        detail = f"the page failed ({type(error).__name__}); the daemon's log says more"
        return said(request, ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, detail))

    app.add_exception_handler(ProblemError, of_problem)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_parameters)
    app.add_exception_handler(SlowQueryError, of_slowness)
    app.add_exception_handler(StoreError, of_store)
    app.add_exception_handler(PoolTimeoutError, of_store)
    app.add_exception_handler(Exception, unforeseen)
