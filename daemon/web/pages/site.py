"""The application of all pages: routes, the door for browsers, files that pages load, and what is said of problems."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from hierogram.daemon.web.pages.asking import asking_routes
from hierogram.daemon.web.pages.forms import form_values, from_elsewhere, ours, texts
from hierogram.daemon.web.pages.now import now_routes
from hierogram.daemon.web.pages.pairs import pair_routes
from hierogram.daemon.web.pages.rendering import STATIC, Nature, PageContext, View, address, static_content, wants_page
from hierogram.daemon.web.pages.rules import rule_routes
from hierogram.daemon.web.pages.search import search_routes
from hierogram.daemon.web.pages.words import word_routes
from hierogram.daemon.web.protocol.problems import (
    STORE_RETRY_SECONDS,
    ProblemError,
    answer,
    problem_of_parameters,
    try_later,
)
from hierogram.daemon.web.protocol.service import Service
from hierogram.daemon.web.protocol.sessions import COOKIE, ENTER, FILES, LASTS_SECONDS, Sessions
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
    page = PageContext(reader, view, service)
    app = FastAPI(title="Hierogram's pages", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    for routes in (search_routes, rule_routes, pair_routes, word_routes, now_routes, entering_routes):
        app.include_router(routes(page))
    if asking is not None:
        app.include_router(asking_routes(page, asking.asker, asking.seconds, asking.rows))
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


def entering_routes(page: PageContext) -> APIRouter:
    """The routes of this module."""
    router = APIRouter()
    sessions = page.view.sessions

    @router.get(ENTER)
    def enter_page(request: Request) -> Response:
        """Asks for the token."""
        given = texts(request, "next")
        if not sessions.needed:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return page.view.page(request, "enter", {"next": _inside(given.get("next", "/")), "wrong": False})

    @router.post(ENTER)
    async def enter(request: Request) -> Response:
        """Gives a browser that shows the token a cookie."""
        values = await form_values(request)
        if from_elsewhere(request):
            raise ProblemError(HTTPStatus.FORBIDDEN, "this was sent by a page of another site")
        place = _inside(values.get("next", "/"))
        if not sessions.right(values.get("token", "")):
            content = {"next": place, "wrong": True}
            return page.view.page(request, "enter", content, HTTPStatus.UNAUTHORIZED)
        gone = RedirectResponse(place, HTTPStatus.SEE_OTHER)
        gone.set_cookie(
            COOKIE, sessions.begin(), max_age=LASTS_SECONDS, httponly=True, samesite="strict",
            secure=request.headers.get("x-forwarded-proto") == "https",
        )  # fmt: skip
        return gone

    @router.get("/leave")
    def leave_page(request: Request) -> Response:
        """Asks whether to leave."""
        token = sessions.form_token(request.cookies.get(COOKIE), "/leave")
        return page.view.page(request, "leave", {"form_token": token})

    @router.post("/leave")
    async def leave(request: Request) -> Response:
        """Takes the cookie back."""
        ours(request, sessions, await form_values(request))
        gone = RedirectResponse(address(ENTER), HTTPStatus.SEE_OTHER)
        gone.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return gone

    return router


def _inside(place: str) -> str:
    """A page of ours to go to; whatever may lead elsewhere leads to the first."""
    safe = place.startswith("/") and not place.startswith("//") and "\\" not in place and place.isprintable()
    return place if safe else "/"
