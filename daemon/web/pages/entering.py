"""Showing the token in a form, once, and leaving again."""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hierogram.daemon.web.pages.forms import form_values, from_elsewhere, ours
from hierogram.daemon.web.pages.queries import texts
from hierogram.daemon.web.pages.rendering.view import address
from hierogram.daemon.web.pages.visit import Visit
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.daemon.web.protocol.sessions import COOKIE, ENTER, LASTS_SECONDS


def entering_routes(visit: Visit) -> APIRouter:
    """The routes of this module."""
    router = APIRouter()
    sessions = visit.view.sessions

    @router.get(ENTER)
    def enter_page(request: Request) -> Response:
        """Asks for the token."""
        given = texts(request, "next")
        if not sessions.needed:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return visit.view.page(request, "enter", {"next": _inside(given.get("next", "/")), "wrong": False})

    @router.post(ENTER)
    async def enter(request: Request) -> Response:
        """Gives a browser that shows the token a cookie."""
        values = await form_values(request)
        if from_elsewhere(request):
            raise ProblemError(HTTPStatus.FORBIDDEN, "this was sent by a page of another site")
        place = _inside(values.get("next", "/"))
        if not sessions.right(values.get("token", "")):
            content = {"next": place, "wrong": True}
            return visit.view.page(request, "enter", content, HTTPStatus.UNAUTHORIZED)
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
        return visit.view.page(request, "leave", {"form_token": token})

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
