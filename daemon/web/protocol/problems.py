"""Error responses as `application/problem+json` [RFC 9457]."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from hierogram.daemon import exceptions as errors
from hierogram.samplers.exceptions import DerivationError
from hierogram.storage.exceptions import StoreError

MEDIA_TYPE = "application/problem+json"

TM_PREFIX = "/tmserver/"
"""Path prefix of the translation-memory API, whose clients may send the token as a password."""

API_PREFIXES = ("/v1/", TM_PREFIX, "/healthz", "/readyz", "/metrics", "/openapi.json", "/mcp")
"""Path prefixes of the API. Other paths are pages, or belong to a `ProtocolApp`."""

LIVENESS_PATH = "/healthz"
HEALTH_PATHS = (LIVENESS_PATH, "/readyz")
"""Paths of health checks. They need no token, because load balancers do not have one."""

STORE_RETRY_SECONDS = 5
_CONFLICTS = (errors.WrongKindError, errors.NothingLearnedError, errors.AlignerUntrainedError, DerivationError)


class ProblemError(Exception):
    """Error response: status, explanation, headers, and further members of the problem."""

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


def describe(texts: Mapping[int, str]) -> Responses:
    """Return the descriptions of responses for the OpenAPI document, given a text for each status."""
    return {status: {"description": text} for status, text in texts.items()}


PAIR_NOT_FOUND = describe({404: "Pair not found."})


def unknown_pair(pair_id: int) -> ProblemError:
    """Return the 404 problem for an unknown pair id."""
    return ProblemError(HTTPStatus.NOT_FOUND, f"pair {pair_id} not found")


SHOWN_CHARACTERS = 60


def wrong_values(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return a 422 problem for pydantic errors. Each fault has `where` (`pairs.0.source`) and `reason`."""
    faults = []
    for error in errors:
        reason = str(error["msg"]).removeprefix("Value error, ")
        if error["type"] not in ("missing", "extra_forbidden", "value_error"):
            value = json.dumps(error.get("input"), ensure_ascii=False, default=str)
            reason += f", got {value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + '…'}"
        faults.append({"where": ".".join(map(str, error["loc"])) or "body", "reason": reason})
    detail = "; ".join(f"{fault['where']}: {fault['reason']}" for fault in faults)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, faults=faults)


def make_problem(request: Request, error: Exception) -> ProblemError:
    """Return the problem for an exception. The message of an unexpected exception is not shown."""
    match error:
        case ProblemError():
            return error
        case RequestValidationError():
            return wrong_values(error.errors())
        case _ if isinstance(error, _CONFLICTS):
            return ProblemError(HTTPStatus.CONFLICT, str(error))
        case errors.InputError():
            return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        case StoreError() | PoolTimeoutError() | errors.BusyError():
            return try_later(str(error), STORE_RETRY_SECONDS)
        case errors.DeadlineError():
            return ProblemError(HTTPStatus.GATEWAY_TIMEOUT, str(error))
        case HTTPException():
            status, detail, headers = HTTPStatus(error.status_code), str(error.detail), dict(error.headers or {})
            path = request.url.path
            if status == HTTPStatus.NOT_FOUND and not path.startswith(API_PREFIXES):
                detail = f"page {path} not found"
            elif status == HTTPStatus.METHOD_NOT_ALLOWED and path.startswith(API_PREFIXES):
                # List the methods from the OpenAPI document, because the error contains the methods of only one route.
                headers["Allow"] = ", ".join(_methods_at(request.app.openapi(), path)) or headers.get("Allow", "GET")
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
        ProblemError, *_CONFLICTS, errors.InputError, errors.BusyError, errors.DeadlineError, StoreError,
        PoolTimeoutError, RequestValidationError, HTTPException, Exception,
    ):  # fmt: skip
        app.add_exception_handler(kind, handle)


def _methods_at(document: dict[str, Any], path: str) -> list[str]:
    methods: set[str] = set()
    for template, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
            methods |= {method.upper() for method in operations}
    return sorted(methods)
