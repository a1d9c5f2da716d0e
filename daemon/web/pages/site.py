"""The application of all pages: routes, login, static files, and rendering of problems."""

from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from hierogram.daemon.extensions import extensions
from hierogram.daemon.web.pages.activity import add_activity_pages
from hierogram.daemon.web.pages.pairs import add_pair_pages
from hierogram.daemon.web.pages.rendering import JSON_SUFFIX, STATIC, PageContext, static_content
from hierogram.daemon.web.pages.rules import add_rule_pages
from hierogram.daemon.web.pages.search import add_search_pages
from hierogram.daemon.web.pages.sql import add_sql_pages
from hierogram.daemon.web.protocol.access import COOKIE, LOGIN_PATH, SESSION_SECONDS, STATIC_PREFIX
from hierogram.daemon.web.protocol.bodies import confirmed_form, form_values, query_values
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import ProblemError, install_problem_handlers, problem_response

_MEDIA_TYPES = {"svg": "image/svg+xml", "css": "text/css", "js": "text/javascript"}
_IMMUTABLE = "public, max-age=31536000, immutable"
"""Cache header of static files, whose URLs contain a digest of the content."""


def build_pages(
    page: PageContext, sql_seconds: float, lifespan: Any = None, context: WebContext | None = None
) -> FastAPI:
    """Return the application for the pages of a store. With a daemon's `context`, extensions add pages."""
    extra_pages = []
    if context is not None:
        extra_pages = [item for extension in extensions() for item in extension.pages(context, page)]
    page.navigation = [(item.name, item.path, item.title) for item in extra_pages]
    turns = Depends(page.threads.read_turns, scope="function")
    app = FastAPI(title="Hierogram pages", openapi_url=None, dependencies=[turns], lifespan=lifespan)
    for add in (add_search_pages, add_rule_pages, add_pair_pages, add_activity_pages, _add_login_pages):
        add(app, page)
    for item in extra_pages:
        app.include_router(item.router)
    if page.sql_runner is not None:
        add_sql_pages(app, page, page.sql_runner, sql_seconds)

    @app.get(STATIC_PREFIX + "{name:path}")
    async def file(name: str) -> Response:
        if name not in STATIC:
            raise ProblemError(HTTPStatus.NOT_FOUND, f"static file {name} not found")
        media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
        return Response(static_content(name), media_type=media_type, headers={"Cache-Control": _IMMUTABLE})

    def render(request: Request, problem: ProblemError) -> Response:
        if request.url.path.endswith(JSON_SUFFIX) or "text/html" not in request.headers.get("accept", ""):
            return problem_response(problem)
        content = {"title": problem.status.phrase, "detail": problem.detail}
        response = page.render_html(request, "problem", content, problem.status)
        response.headers.update(problem.headers)
        return response

    install_problem_handlers(app, render)
    return app


def _add_login_pages(app: FastAPI, page: PageContext) -> None:
    sessions = page.sessions

    @app.get(LOGIN_PATH)
    def login_page(request: Request) -> Response:
        parameters = query_values(request, "next")
        if not sessions.required:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        target = _redirect_target(parameters.get("next", "/"))
        return page.render_html(request, "login", {"next": target, "wrong": False})

    @app.post(LOGIN_PATH)
    async def login(request: Request) -> Response:
        values = await form_values(request)
        target = _redirect_target(values.get("next", "/"))
        if not sessions.is_token(values.get("token", "")):
            return page.render_html(request, "login", {"next": target, "wrong": True}, HTTPStatus.UNAUTHORIZED)
        response = RedirectResponse(target, HTTPStatus.SEE_OTHER)
        response.set_cookie(
            COOKIE, sessions.make_cookie(), max_age=SESSION_SECONDS, httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return response

    @app.get("/logout")
    def logout_page(request: Request) -> Response:
        query_values(request)
        token = sessions.form_token(request.cookies.get(COOKIE), "/logout")
        return page.render_html(request, "logout", {"form_token": token})

    @app.post("/logout")
    async def logout(request: Request) -> Response:
        await confirmed_form(request, sessions)
        response = RedirectResponse(LOGIN_PATH, HTTPStatus.SEE_OTHER)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response


def _redirect_target(target: str) -> str:
    """Return the target of a login, or `/` if it may lead to another site."""
    safe = target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()
    return target if safe else "/"
