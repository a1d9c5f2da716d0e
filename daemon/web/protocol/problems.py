"""Error responses as `application/problem+json` [RFC 9457], and checks of query parameters."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
from hierogram.daemon.web.protocol.document import API_PREFIXES, MEDIA_TYPE, methods_at
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
    """Return a 503 problem that asks the client to retry after `seconds`."""
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": str(seconds)}, **extra)


def problem_response(problem: ProblemError) -> JSONResponse:
    """Return the response for a problem."""
    content = {"title": problem.status.phrase, "status": int(problem.status), "detail": problem.detail}
    return JSONResponse(content | problem.extra, problem.status, problem.headers, MEDIA_TYPE)


Responses = dict[int | str, dict[str, Any]]
"""Descriptions of responses in the OpenAPI document, by status."""
PAIR_NOT_FOUND: Responses = {404: {"description": "Pair not found."}}


def unknown_pair(pair_id: int) -> ProblemError:
    """Return the 404 problem for an unknown pair id."""
    return ProblemError(HTTPStatus.NOT_FOUND, f"pair {pair_id} not found")


_SHOWN_CHARACTERS = 60


def wrong_values(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return a 422 problem for pydantic's errors. Each of its `faults` has `where` (`pairs.0.source`) and `reason`."""
    faults = []
    for error in errors:
        reason = str(error["msg"]).removeprefix("Value error, ")
        if error["type"] not in ("missing", "extra_forbidden", "value_error"):
            value = json.dumps(error.get("input"), ensure_ascii=False, default=str)
            reason += f", got {value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + '…'}"
        faults.append({"where": ".".join(map(str, error["loc"])) or "body", "reason": reason})
    detail = "; ".join(f"{fault['where']}: {fault['reason']}" for fault in faults)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, faults=faults)


def make_problem(request: Request, error: Exception) -> ProblemError:
    """Return the problem for an exception. An unexpected exception becomes a 500 problem without its message."""
    match error:
        case ProblemError():
            return error
        case RequestValidationError():
            return wrong_values(error.errors())
        case WrongKindError() | NothingLearnedError() | AlignerUntrainedError() | DerivationError():
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
            if status == HTTPStatus.NOT_FOUND and not path.startswith(API_PREFIXES):
                detail = f"page {path} not found"
            elif status == HTTPStatus.METHOD_NOT_ALLOWED and path.startswith(API_PREFIXES):
                # List the methods from the OpenAPI document, because the error contains the methods of only one route.
                headers["Allow"] = ", ".join(methods_at(request.app.openapi(), path)) or headers.get("Allow", "GET")
            return ProblemError(status, detail, headers)
    detail = f"internal error ({type(error).__name__}); see the log of the server"
    return ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def install_problem_handlers(
    app: FastAPI,
    render: Callable[[Request, ProblemError], Response] = lambda _request, problem: problem_response(problem),
) -> None:
    """Register exception handlers that return `application/problem+json`, or the response of `render`."""

    async def handle(request: Request, error: Exception) -> Response:
        return render(request, make_problem(request, error))

    # Starlette logs each error that reaches the handler of `Exception`, so list the expected errors.
    for kind in (
        ProblemError, InputError, NothingLearnedError, AlignerUntrainedError, StoreError, PoolTimeoutError,
        DerivationError, BusyError, DeadlineError, RequestValidationError, HTTPException, Exception,
    ):  # fmt: skip
        app.add_exception_handler(kind, handle)


_MAX_PARAMETERS = 100


def parse_query(request: Request, accepted: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Parse the query. `accepted` maps the name of each parameter to True if the parameter is repeatable.

    Raises `ProblemError` (400) if the query is malformed, or if a parameter is unknown or wrongly repeated.
    """
    try:
        pairs = parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS,
        )  # fmt: skip
    except UnicodeError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the query must be percent-encoded UTF-8") from error
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the query cannot be read: {error}") from error
    for name, count in Counter(name for name, _ in pairs).items():
        if name not in accepted:
            hint = f"expected {', '.join(map(repr, accepted))}" if accepted else "this path has no parameters"
            name = name[:_SHOWN_CHARACTERS]
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"unknown query parameter {name!r}: {hint}", parameter=name)
        if count > 1 and not accepted[name]:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST,
                f"the query parameter {name!r} is given {count} times, but must be given once",
                parameter=name,
            )
    return pairs


async def check_query(request: Request) -> None:
    """Check the query against the parameters in the OpenAPI document. Raises the errors of `parse_query`."""
    path = getattr(request.scope["route"], "path_format", request.url.path)
    operation = request.app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    parameters = (parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query")
    parse_query(request, {parameter["name"]: parameter["schema"].get("type") == "array" for parameter in parameters})
