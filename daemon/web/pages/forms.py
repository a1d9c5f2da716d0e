"""Parsing of query options, query texts and submitted forms."""

from collections.abc import Mapping
from http import HTTPStatus
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from urllib.parse import parse_qsl

from starlette.requests import Request

from hierogram.daemon.web.protocol.bodies import MAX_ID, check_content, read_body
from hierogram.daemon.web.protocol.problems import ProblemError, parse_query
from hierogram.daemon.web.protocol.sessions import COOKIE, Sessions, is_cross_site
from hierogram.storage.options import OptionError, OptionField, check

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_MAX_VALUE_LENGTH = 60_000
"""Longest query value in characters; a request head is not longer."""

Options = TypeVar("Options", bound="DataclassInstance")


def query_values(request: Request, *names: str) -> dict[str, str]:
    """Return the non-empty query values by name. Raises `ProblemError` if a name or value is invalid."""
    parameters = parse_query(request, dict.fromkeys(names, False))
    for name, value in parameters:
        if "\0" in value or len(value) > _MAX_VALUE_LENGTH:
            raise _invalid(name, f"must be a text of up to {_MAX_VALUE_LENGTH:,} characters without NUL")
    return {name: value for name, value in parameters if value}


def query_options(request: Request, kind: type[Options], *names: str) -> tuple[Options, dict[str, str]]:
    """Return the options in the query and its other values. Raises `ProblemError` if a name or value is invalid."""
    fields = OptionField.of(kind)
    parameters = query_values(request, *fields, *names)
    values = {name: _convert(fields[name], value) for name, value in parameters.items() if name in fields}
    parsed = kind(**values)
    try:
        check(parsed)
    except OptionError as error:
        raise _invalid(error.option, error.reason) from error
    return parsed, {name: value for name, value in parameters.items() if name not in fields}


def _convert(field: OptionField, text: str) -> Any:
    kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
    if int not in kinds:
        return text
    number = whole_number(text)
    if number is None:
        raise _invalid(field.name, f"must be a whole number from 0 to {MAX_ID:,}, got {text[:40]!r}")
    return number


def whole_number(text: str) -> int | None:
    """Parse a nonnegative integer. Returns None for other texts and for numbers above `MAX_ID`."""
    digits = text.strip().lstrip("0") or text.strip()[-1:]
    # Check the length first, because Python refuses to convert very long digit strings.
    if not digits.isascii() or not digits.isdecimal() or len(digits) > len(str(MAX_ID)):
        return None
    return int(digits) if int(digits) <= MAX_ID else None


def _invalid(name: str, reason: str) -> ProblemError:
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{name}: {reason}", parameter=name)


_MAX_FORM_BYTES = 1 << 16
_FORM = "application/x-www-form-urlencoded"

FORM_TOKEN = "form_token"


async def form_values(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises `ProblemError` if the body is not a form or is too large."""
    check_content(request, [_FORM], f"send the form as {_FORM}")
    body = await read_body(request, _MAX_FORM_BYTES)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100))


def check_form_token(request: Request, sessions: Sessions, values: Mapping[str, str]) -> None:
    """Check the CSRF token of a form."""
    if is_cross_site(request):
        raise ProblemError(HTTPStatus.FORBIDDEN, "requests from other sites are not allowed; nothing was changed")
    if not sessions.is_form_valid(values.get(FORM_TOKEN, ""), request.cookies.get(COOKIE), request.url.path):
        raise ProblemError(HTTPStatus.FORBIDDEN, "the form has expired: reload the page; nothing was changed")
