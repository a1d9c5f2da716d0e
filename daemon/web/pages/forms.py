"""Parsing of query values and submitted forms."""

from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.requests import Request

from hierogram.daemon.web.protocol.bodies import MAX_ID, check_content, read_body
from hierogram.daemon.web.protocol.problems import ProblemError, parse_query
from hierogram.daemon.web.protocol.sessions import COOKIE, Sessions, is_cross_site

_MAX_VALUE_LENGTH = 60_000
"""Maximum length of a query value in characters. uvicorn rejects request heads above 64 KiB before this check."""


def query_values(request: Request, *names: str) -> dict[str, str]:
    """Return the non-empty query values by name. Raises `ProblemError` if a name or value is invalid."""
    parameters = parse_query(request, dict.fromkeys(names, False))
    for name, value in parameters:
        if "\0" in value or len(value) > _MAX_VALUE_LENGTH:
            raise invalid_value(name, f"must be a text of up to {_MAX_VALUE_LENGTH:,} characters without NUL")
    return {name: value for name, value in parameters if value}


def whole_number(text: str) -> int | None:
    """Parse a nonnegative integer. Returns None for other texts and for numbers above `MAX_ID`."""
    digits = text.strip().lstrip("0") or text.strip()[-1:]
    # Check the length first, because Python refuses to convert very long digit strings.
    if not digits.isascii() or not digits.isdecimal() or len(digits) > len(str(MAX_ID)):
        return None
    return int(digits) if int(digits) <= MAX_ID else None


def invalid_value(name: str, reason: str) -> ProblemError:
    """Return the problem for an invalid query value."""
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{name}: {reason}", parameter=name)


_MAX_FORM_BYTES = 1 << 16
_FORM = "application/x-www-form-urlencoded"

FORM_TOKEN = "form_token"


async def form_values(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises `ProblemError` for requests from other origins and invalid bodies."""
    if is_cross_site(request):
        raise ProblemError(HTTPStatus.FORBIDDEN, "requests from other sites are not allowed; nothing was changed")
    check_content(request, [_FORM], f"send the form as {_FORM}")
    body = await read_body(request, _MAX_FORM_BYTES)
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from error


async def confirmed_form(request: Request, sessions: Sessions) -> dict[str, str]:
    """Return the fields of a form with a valid CSRF token, see `form_values`. Raises `ProblemError` otherwise."""
    values = await form_values(request)
    if not sessions.is_form_valid(values.get(FORM_TOKEN, ""), request.cookies.get(COOKIE), request.url.path):
        raise ProblemError(HTTPStatus.FORBIDDEN, "the form has expired: reload the page; nothing was changed")
    return values
