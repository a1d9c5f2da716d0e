"""Answers that say what went wrong, `application/problem+json` [RFC 9457]; queries that a route does not know."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from hierogram.daemon.web.protocol.document import MEDIA_TYPE, methods_at, query_parameters
from hierogram.storage.exceptions import StoreError

STORE_RETRY_SECONDS = 5


class ProblemError(Exception):
    """A request that cannot be answered as asked: status, a sentence, headers, and what else the answer says."""

    def __init__(
        self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None, **extra: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = extra


def try_later(detail: str, seconds: int, **extra: object) -> ProblemError:
    """Not now: the client may ask again after so many seconds."""
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": str(seconds)}, **extra)


def answer(problem: ProblemError) -> JSONResponse:
    """The problem as an answer."""
    content = {"title": problem.status.phrase, "status": int(problem.status), "detail": problem.detail}
    return JSONResponse(content | problem.extra, problem.status, problem.headers, MEDIA_TYPE)


async def _of_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return answer(error)


async def _of_store(_request: Request, error: Exception) -> JSONResponse:
    return answer(try_later(str(error), STORE_RETRY_SECONDS))


_TYPES = {
    "string": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "dict": "an object", "model": "an object", "model_attributes": "an object", "decimal": "a number",
    "tuple": "a list", "datetime": "a date with a time", "date": "a date",
}  # fmt: skip
_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "string_too_short": "a text of at least {min_length} characters",
    "string_too_long": "a text of at most {max_length} characters: divide it",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}: send the rest in another request",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "finite_number": "a finite number",
}
_SHOWN_CHARACTERS = 60


def faults_of(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return what pydantic found, in plain words: `where` (`pairs.0.source`), and as `reason` what has to be there."""
    return [{"where": ".".join(map(str, error["loc"])) or "body", "reason": _reason(error)} for error in errors]


def said(faults: Iterable[Mapping[str, str]]) -> str:
    """The faults as a sentence."""
    return "; ".join(f"{fault['where']}: {fault['reason']}" for fault in faults)


def _reason(error: Mapping[str, Any]) -> str:
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind == "missing":
        return "is missing: add it"
    if kind == "extra_forbidden":
        return "is not known here: leave it out, or see whether its name is right"
    if kind in _BOUNDS:
        wanted = _BOUNDS[kind].format_map({name: str(value) for name, value in context.items()})
    else:
        wanted = _TYPES.get(kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float"), "")
    if not wanted:
        return str(error["msg"])
    value = error.get("input")
    shown = json.dumps(value, ensure_ascii=False, default=str)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}…"
    return f"has to be {wanted}, and is {shown}"


def problem_of_parameters(error: RequestValidationError) -> ProblemError:
    """Return what is wrong with the parameters of a request."""
    faults = faults_of(error.errors())
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, said(faults), faults=faults)


async def _of_parameters(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return answer(problem_of_parameters(error))


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Each route names its own method; the document knows all that an address has.
        methods = methods_at(request.app.openapi(), request.url.path)
        headers["Allow"] = ", ".join(methods) or headers.get("Allow", "GET")
    return answer(ProblemError(HTTPStatus(error.status_code), str(error.detail), headers))


async def _unforeseen(_request: Request, error: Exception) -> JSONResponse:
    detail = f"the daemon failed at this request ({type(error).__name__}); its log says more"
    return answer(ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, detail))


def answer_problems(app: FastAPI) -> None:
    """Has the app answer every error with a problem."""
    app.add_exception_handler(ProblemError, _of_problem)
    app.add_exception_handler(StoreError, _of_store)
    app.add_exception_handler(PoolTimeoutError, _of_store)
    app.add_exception_handler(RequestValidationError, _of_parameters)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unforeseen)


_SHOWN_NAME = 100
_NEAR = 0.5
"""How alike two names are, as `difflib` measures it, where one may be meant for the other."""


async def refuse_unknown(request: Request) -> None:
    """Raise `ProblemError` (400) where the query holds a name that the route does not know, or one too often."""
    path = getattr(request.scope["route"], "path_format", request.url.path)
    known = query_parameters(request.app.openapi(), request.method, path)
    query = request.scope["query_string"]
    try:
        given = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the query is not UTF-8, written with % and two digits") from error
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the query cannot be read: {error}") from error
    for name, times in Counter(name for name, _ in given).items():
        if name not in known:
            raise unknown_parameter(name, list(known))
        if times > 1 and not known[name]:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, f"{name!r} comes {times} times, but may come once", parameter=name
            )


def unknown_parameter(name: str, known: list[str]) -> ProblemError:
    """The problem of a name that an address does not know, with the nearest that it does."""
    near = get_close_matches(name[:_SHOWN_NAME].lower(), known, 1, _NEAR)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif known:
        hint = f"there are {', '.join(map(repr, known))}"
    else:
        hint = "this address takes none"
    shown = name[:_SHOWN_NAME]
    return ProblemError(
        HTTPStatus.BAD_REQUEST,
        f"there is no query parameter {shown!r}: {hint}",
        parameter=shown,
        nearest=near[0] if near else None,
    )
