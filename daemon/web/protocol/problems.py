"""Error responses as `application/problem+json` [RFC 9457], and checks of query parameters."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from hierogram.daemon.exceptions import (
    AlignerUntrainedError,
    BusyError,
    DeadlineError,
    InputError,
    NothingLearnedError,
    WrongKindError,
)
from hierogram.daemon.web.protocol.document import MEDIA_TYPE, OF_THE_API, methods_at, query_parameters
from hierogram.samplers.exceptions import DerivationError
from hierogram.storage.exceptions import SlowQueryError, StoreError

STORE_RETRY_SECONDS = 5


class ProblemError(Exception):
    """Request that cannot be answered: status, detail, headers, and extra members of the problem."""

    def __init__(
        self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None, **extra: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = extra


def try_later(detail: str, seconds: int, **extra: object) -> ProblemError:
    """Return a 503 problem: the client may retry after `seconds`."""
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": str(seconds)}, **extra)


def problem_response(problem: ProblemError) -> JSONResponse:
    """Return the response for a problem."""
    content = {"title": problem.status.phrase, "status": int(problem.status), "detail": problem.detail}
    return JSONResponse(content | problem.extra, problem.status, problem.headers, MEDIA_TYPE)


def unknown_pair(pair_id: int) -> ProblemError:
    """Return the 404 problem for an unknown pair id."""
    return ProblemError(HTTPStatus.NOT_FOUND, f"pair {pair_id} not found")


_TYPES = {
    "string": "a string", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "dict": "an object", "model": "an object", "model_attributes": "an object", "decimal": "a number",
    "tuple": "a list", "datetime": "a date with a time", "date": "a date",
}  # fmt: skip
_BOUNDS = {
    "greater_than_equal": ">= {ge}",
    "greater_than": "> {gt}",
    "less_than_equal": "<= {le}",
    "less_than": "< {lt}",
    "string_too_short": "a string of at least {min_length} characters",
    "string_too_long": "a string of up to {max_length} characters (split longer texts)",
    "too_short": "a list of at least {min_length} items",
    "too_long": "a list of up to {max_length} items (send the rest in another request)",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "string_pattern_mismatch": "a string that matches {pattern}",
    "finite_number": "a finite number",
}
_SHOWN_CHARACTERS = 60


def wrong_values(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return a 422 problem for pydantic's errors; each fault has `where`, such as `pairs.0.source`, and `reason`."""
    faults = [{"where": ".".join(map(str, error["loc"])) or "body", "reason": _reason(error)} for error in errors]
    sentence = "; ".join(f"{fault['where']}: {fault['reason']}" for fault in faults)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, sentence, faults=faults)


def _reason(error: Mapping[str, Any]) -> str:
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return "unknown member: check its spelling or leave it out"
    if kind in _BOUNDS:
        expected = _BOUNDS[kind].format_map({name: str(value) for name, value in context.items()})
    else:
        expected = _TYPES.get(kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float"), "")
    if not expected:
        return str(error["msg"]).removeprefix("Value error, ")
    value = error.get("input")
    value_text = json.dumps(value, ensure_ascii=False, default=str)
    if len(value_text) > _SHOWN_CHARACTERS:
        value_text = f"{value_text[:_SHOWN_CHARACTERS]}…"
    return f"must be {expected}, got {value_text}"


def make_problem(request: Request, error: Exception) -> ProblemError:
    """Return the problem for an exception."""
    match error:
        case ProblemError():
            return error
        case RequestValidationError():
            return wrong_values(error.errors())
        case WrongKindError() | NothingLearnedError() | AlignerUntrainedError():
            return ProblemError(HTTPStatus.CONFLICT, str(error))
        case DerivationError():
            return ProblemError(HTTPStatus.CONFLICT, str(error))
        case InputError():
            return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        case SlowQueryError():
            return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        case StoreError() | PoolTimeoutError() | BusyError():
            return try_later(str(error), STORE_RETRY_SECONDS)
        case DeadlineError():
            return ProblemError(HTTPStatus.GATEWAY_TIMEOUT, str(error))
        case HTTPException():
            status, detail, headers = HTTPStatus(error.status_code), str(error.detail), dict(error.headers or {})
            path = request.url.path
            if status == HTTPStatus.NOT_FOUND and not path.startswith(OF_THE_API):
                detail = f"page {path} not found"
            elif status == HTTPStatus.METHOD_NOT_ALLOWED and path.startswith(OF_THE_API):
                # Each route lists only its own methods; the document lists all methods of a path.
                headers["Allow"] = ", ".join(methods_at(request.app.openapi(), path)) or headers.get("Allow", "GET")
            return ProblemError(status, detail, headers)
    detail = f"internal error ({type(error).__name__}); see the log of the daemon"
    return ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def install_problem_handlers(
    app: FastAPI,
    render: Callable[[Request, ProblemError], Response] = lambda _request, problem: problem_response(problem),
) -> None:
    """Register exception handlers that return `application/problem+json`, or the response of `render`."""

    async def handle(request: Request, error: Exception) -> Response:
        return render(request, make_problem(request, error))

    expected = (ProblemError, InputError, NothingLearnedError, AlignerUntrainedError, StoreError, PoolTimeoutError)
    error_types = (DerivationError, BusyError, DeadlineError, RequestValidationError, HTTPException, Exception)
    for kind in (*expected, *error_types):
        app.add_exception_handler(kind, handle)


_MAX_PARAMETERS = 100
_SHOWN_NAME = 100
_NEAR = 0.5
"""Similarity, as measured by `difflib`, from which a parameter name is suggested for a misspelled one."""


def parse_query(request: Request, accepted: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Return names and values of the query; `accepted` maps names to whether they repeat. Raises `ProblemError`."""
    try:
        pairs = parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS,
        )  # fmt: skip
    except UnicodeError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the query must be percent-encoded UTF-8") from error
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the query cannot be read: {error}") from error
    for name, times in Counter(name for name, _ in pairs).items():
        if name not in accepted:
            raise _unknown_parameter(name, list(accepted))
        if times > 1 and not accepted[name]:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST,
                f"the query parameter {name!r} is repeated {times} times, but must be given once",
                parameter=name,
            )
    return pairs


async def check_query(request: Request) -> None:
    """Raise `ProblemError` (400) if the query has an unknown parameter or repeats one that is not repeatable."""
    path = getattr(request.scope["route"], "path_format", request.url.path)
    parse_query(request, query_parameters(request.app.openapi(), request.method, path))


def _unknown_parameter(name: str, accepted: list[str]) -> ProblemError:
    near = get_close_matches(name[:_SHOWN_NAME].lower(), accepted, 1, _NEAR)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif accepted:
        hint = f"expected {', '.join(map(repr, accepted))}"
    else:
        hint = "this path has no parameters"
    short_name = name[:_SHOWN_NAME]
    return ProblemError(
        HTTPStatus.BAD_REQUEST,
        f"unknown query parameter {short_name!r}: {hint}",
        parameter=short_name,
        nearest=near[0] if near else None,
    )
