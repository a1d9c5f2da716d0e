"""Error responses as `application/problem+json` [RFC 9457], and checks of query parameters."""

import json
import re
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

from hierogram.daemon import exceptions as errors
from hierogram.samplers.exceptions import DerivationError
from hierogram.storage.exceptions import SlowQueryError, StoreError

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


def describe(texts: Mapping[int, str]) -> Responses:
    """Return the descriptions of responses for the OpenAPI document, given a text for each status."""
    return {status: {"description": text} for status, text in texts.items()}


PAIR_NOT_FOUND = describe({404: "Pair not found."})


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
        case _ if isinstance(error, _CONFLICTS):
            return ProblemError(HTTPStatus.CONFLICT, str(error))
        case errors.InputError():
            return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        case SlowQueryError():
            return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
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


_MAX_PARAMETERS = 100


def parse_query(request: Request, accepted: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Parse the query. `accepted` maps the names of parameters to True if repeatable. Raises `ProblemError`."""
    try:
        query = request.scope["query_string"].decode("ascii")
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
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
            detail = f"the query parameter {name!r} is given {count} times, but must be given once"
            raise ProblemError(HTTPStatus.BAD_REQUEST, detail, parameter=name)
    return pairs


async def check_query(request: Request) -> None:
    """Check the query against the parameters in the OpenAPI document. Raises `ProblemError`."""
    path = getattr(request.scope["route"], "path_format", request.url.path)
    operation = request.app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    parameters = (parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query")
    parse_query(request, {parameter["name"]: parameter["schema"].get("type") == "array" for parameter in parameters})


_PROBLEM_SCHEMA = {
    "title": "Problem",
    "description": "Error [RFC 9457]. Some errors have further members.",
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string", "description": "Reason phrase of the status."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "Human-readable explanation of the problem and its solution."},
    },
}
_PROBLEM_REFERENCE = {"schema": {"$ref": "#/components/schemas/Problem"}}

_COMMON_RESPONSES = {
    400: "The query is malformed, or a parameter is unknown or repeated.",
    421: "The header Host does not name this machine, and the daemon has no token.",
    429: "Too many requests from this address. See Retry-After.",
    500: "Internal error. See the log of the daemon.",
    503: "The store does not respond, or too many requests are running. See Retry-After.",
}


class DescribedApi(FastAPI):
    """FastAPI application whose OpenAPI document contains the responses common to all routes."""

    def __init__(self, *, with_token: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self._with_token = with_token

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document. FastAPI rebuilds it after routes are added."""
        document = super().openapi()
        if "Problem" not in document.get("components", {}).get("schemas", {}):
            _complete(document, self._with_token)
        return document


def _complete(document: dict[str, Any], with_token: bool) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    # Drop FastAPI's schemas of validation errors, because this API returns problems instead.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM_SCHEMA
    if with_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operation in ((path, item) for path, methods in document["paths"].items() for item in methods.values()):
        for parameter in operation.get("parameters", ()):
            # Remove null from the schema of an optional parameter, because a query cannot express null.
            schema = parameter["schema"]
            choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
            if len(choices) == 1:
                parameter["schema"] = {name: schema[name] for name in schema if name != "anyOf"} | dict(choices[0])
        responses = operation["responses"]
        for status, text in _COMMON_RESPONSES.items():
            responses.setdefault(str(status), {"description": text})
        invalid_response = responses.get("422")
        # Replace FastAPI's 422 response, because its schema is dropped. Keep a response that the route declares.
        is_replaceable = not invalid_response or "HTTPValidationError" in str(invalid_response.get("content"))
        if operation.get("parameters") and is_replaceable:
            responses["422"] = {"description": "The value of a parameter is invalid."}
        if with_token and path not in HEALTH_PATHS:
            operation["security"] = [{"token": []}]
            responses["401"] = {"description": "The token is missing or invalid."}
        for status, response in responses.items():
            if int(status) >= HTTPStatus.BAD_REQUEST:
                response.setdefault("content", {})[MEDIA_TYPE] = _PROBLEM_REFERENCE
        operation["responses"] = dict(sorted(responses.items()))


def _methods_at(document: dict[str, Any], path: str) -> list[str]:
    methods: set[str] = set()
    for template, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
            methods |= {method.upper() for method in operations}
    return sorted(methods)
