"""Forms that browsers send: what they hold, and that a page of ours made them."""

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from hierogram.daemon.web.protocol.bodies import whole
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.daemon.web.protocol.sessions import COOKIE, Sessions

_LARGEST = 1 << 16
_FORM = "application/x-www-form-urlencoded"

TOKEN = "form_token"


async def form_values(request: Request) -> dict[str, str]:
    """The fields of a form; raises `ProblemError`."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a form is sent as {_FORM}")
    body = await whole(request, _LARGEST)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100))


def from_elsewhere(request: Request) -> bool:
    """Whether another site's page has the browser ask; browsers say so themselves, other programs need not."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")


def ours(request: Request, sessions: Sessions, values: Mapping[str, str]) -> None:
    """Raises `ProblemError` where a form that changes something was not made by a page of ours for this browser."""
    if from_elsewhere(request):
        raise ProblemError(HTTPStatus.FORBIDDEN, "this was asked by a page of another site: nothing was changed")
    if not sessions.form_is_ours(values.get(TOKEN, ""), request.cookies.get(COOKIE), request.url.path):
        raise ProblemError(HTTPStatus.FORBIDDEN, "the form is too old: open the page again; nothing was changed")
