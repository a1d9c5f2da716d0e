"""The application of all pages: routes, login, static files, and rendering of problems."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.extensions import extensions
from hierogram.daemon.web.pages.activity import activity_routes
from hierogram.daemon.web.pages.forms import check_form_token, form_values, texts
from hierogram.daemon.web.pages.pairs import pair_routes
from hierogram.daemon.web.pages.rendering import JSON_ENDING, STATIC, PageContext, address, static_content
from hierogram.daemon.web.pages.rules import rule_routes
from hierogram.daemon.web.pages.search import search_routes
from hierogram.daemon.web.pages.sql import sql_routes
from hierogram.daemon.web.pages.words import word_routes
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import ProblemError, install_problem_handlers, problem_response
from hierogram.daemon.web.protocol.sessions import COOKIE, ENTER, FILES, LASTS_SECONDS, Sessions, is_cross_site
from hierogram.daemon.web.protocol.threads import Threads
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.sql_runner import SqlRunner

_TYPES = {"svg": "image/svg+xml", "css": "text/css", "js": "text/javascript"}
_FOREVER = "public, max-age=31536000, immutable"


def build_pages(
    reader: Reader,
    sessions: Sessions,
    configuration: HttpConfiguration,
    sql_runner: SqlRunner | None,
    lifespan: Any = None,
    context: WebContext | None = None,
) -> FastAPI:
    """Return the application with the pages of a store. With the `context` of a daemon, pairs can be withdrawn."""
    threads = context.threads if context else Threads()
    page = PageContext(reader, sessions, context.service if context else None, asks=sql_runner is not None)
    added = []
    if context is not None:
        added = [
            added_page for extension in extensions() if extension.pages for added_page in extension.pages(context, page)
        ]
    page.navigation = [(added_page.name, added_page.path, added_page.title) for added_page in added]
    app = FastAPI(
        title="Hierogram pages",
        openapi_url=None,
        dependencies=[Depends(threads.reads, scope="function")],
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    for routes in (search_routes, rule_routes, word_routes, activity_routes, login_routes):
        app.include_router(routes(page))
    app.include_router(pair_routes(page, threads))
    for added_page in added:
        app.include_router(added_page.router)
    if sql_runner is not None:
        app.include_router(sql_routes(page, sql_runner, configuration.sql_seconds, threads.downloads))

    @app.get(FILES + "{name:path}")
    async def file(name: str) -> Response:
        """Return a static file. Its path changes with its content."""
        if name not in STATIC:
            raise ProblemError(HTTPStatus.NOT_FOUND, "file not found")
        return Response(
            static_content(name), media_type=_TYPES[name.rpartition(".")[2]], headers={"Cache-Control": _FOREVER}
        )  # fmt: skip

    def render(request: Request, problem: ProblemError) -> Response:
        if request.url.path.endswith(JSON_ENDING) or "text/html" not in request.headers.get("accept", ""):
            return problem_response(problem)
        content = {"title": problem.status.phrase, "status": int(problem.status), "detail": problem.detail}
        made = page.html(request, "problem", content, problem.status)
        made.headers.update(problem.headers)
        return made

    install_problem_handlers(app, render)
    return app


def login_routes(page: PageContext) -> APIRouter:
    """Return the router for login and logout."""
    router = APIRouter()
    sessions = page.sessions

    @router.get(ENTER)
    def enter_page(request: Request) -> Response:
        """Return the login form."""
        parameters = texts(request, "next")
        if not sessions.required:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return page.html(request, "enter", {"next": _redirect_target(parameters.get("next", "/")), "wrong": False})

    @router.post(ENTER)
    async def enter(request: Request) -> Response:
        """Check the token and set a session cookie."""
        values = await form_values(request)
        if is_cross_site(request):
            raise ProblemError(HTTPStatus.FORBIDDEN, "requests from other sites are not allowed")
        target = _redirect_target(values.get("next", "/"))
        if not sessions.is_token(values.get("token", "")):
            content = {"next": target, "wrong": True}
            return page.html(request, "enter", content, HTTPStatus.UNAUTHORIZED)
        response = RedirectResponse(target, HTTPStatus.SEE_OTHER)
        response.set_cookie(
            COOKIE, sessions.begin(), max_age=LASTS_SECONDS, httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return response

    @router.get("/leave")
    def leave_page(request: Request) -> Response:
        """Return the logout form."""
        token = sessions.form_token(request.cookies.get(COOKIE), "/leave")
        return page.html(request, "leave", {"form_token": token})

    @router.post("/leave")
    async def leave(request: Request) -> Response:
        """Delete the session cookie."""
        check_form_token(request, sessions, await form_values(request))
        response = RedirectResponse(address(ENTER), HTTPStatus.SEE_OTHER)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    return router


def _redirect_target(target: str) -> str:
    safe = target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()
    return target if safe else "/"
