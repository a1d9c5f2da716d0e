"""Answers that say what went wrong: `application/problem+json` [RFC 9457]."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from hierogram.daemon.web.protocol.document import MEDIA_TYPE, methods_at
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


def problem_of_parameters(error: RequestValidationError) -> ProblemError:
    """What is wrong with the parameters of a request."""
    faults = [
        {"where": ".".join(map(str, fault["loc"])), "reason": fault["msg"]} for fault in error.errors()
    ]  # fmt: skip
    detail = "; ".join(f"{fault['where']}: {fault['reason']}" for fault in faults)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, faults=jsonable_encoder(faults))


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
