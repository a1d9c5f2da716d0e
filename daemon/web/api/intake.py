"""POST /v1/pairs: JSON lines of any length into the store, no faster than it can keep up with."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Annotated, TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse, Response

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.corpora.ingest import DEFAULT_CORPUS
from hierogram.daemon.corpora.limits import Limits
from hierogram.daemon.corpora.texts import pipeline_of, two_languages
from hierogram.daemon.exceptions import InputError, TooManyRejectedError, UsageError, WrongKindError
from hierogram.daemon.web.api.metrics import RequestMetrics
from hierogram.daemon.web.api.records import IntakeAnswer
from hierogram.daemon.web.api.requests import Body
from hierogram.daemon.web.protocol.bodies import ClientGoneError, line_chunks
from hierogram.daemon.web.protocol.problems import STORE_RETRY_SECONDS, ProblemError, try_later
from hierogram.daemon.web.protocol.service import Service
from hierogram.storage.exceptions import RequestMovedError, StoreError, StoreUnavailableError
from hierogram.storage.operations.requests import LONGEST_KEY
from hierogram.storage.records import SETTLED
from hierogram.storage.store import Store

T = TypeVar("T")

JSON_LINES = ("application/jsonl", "application/x-ndjson", "application/ndjson", "application/json")
"""What a body of pairs may be called; forms and plain text, which any web page may send, are not among them."""

_PRUNE_SECONDS = 600.0
_LAG_LOOK_SECONDS = 0.5
_LAG_RETRY_SECONDS = 60

_LINKS = [
    {"type": "string"},
    {"type": "null"},
    {
        "type": "array",
        "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
    },
]
_LINE = {
    "description": "A line of the body. Other members are not used, and the answer names them.",
    "type": "object",
    "required": ["source", "target"],
    "properties": {
        "source": {"type": "string"},
        "target": {"type": "string"},
        "alignment": {
            "description": "Links as `0-0 1-2` or as pairs of numbers; left out where the aligner shall find them.",
            "anyOf": _LINKS,
        },
        "fixed": {"description": "Links that the pair has, whatever the aligner thinks.", "anyOf": _LINKS},
        "forbidden": {"description": "Links that it has not.", "anyOf": _LINKS},
        "id": {
            "description": "The sender's own name of the pair, unique in its corpus.",
            "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}, {"type": "null"}],
        },
    },
}
"""A line of JSON lines, which OpenAPI 3.1 has no word for."""

_log = logging.getLogger(__name__)

_LANGUAGES = "^{0},{0}$".format(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
"""Two languages, source and target, as in `fr,en`."""

_PROBLEMS: dict[int | str, dict[str, object]] = {
    408: {"description": "The client was too slow."},
    409: {"description": "A request with this Idempotency-Key is being taken in, or the store takes no such pairs."},
    413: {"description": "The body is too large."},
    415: {"description": "The body is not called JSON lines, or is compressed."},
    422: {"description": "A parameter or most lines are wrong, or the Idempotency-Key is that of another request."},
    503: {"description": "Not now: too much waits, the store does not answer, or the daemon stops. See Retry-After."},
}


class _Intakes:
    """The bodies that are being taken in: not too many at a time, and none twice."""

    def __init__(self, service: Service, configuration: HttpConfiguration, ending: Callable[[], bool]) -> None:
        self._service = service
        self._configuration = configuration
        self._ending = ending
        self._keys: set[str] = set()
        self._running = 0
        self._threads = CapacityLimiter(configuration.max_intakes)
        self._pruned = -_PRUNE_SECONDS

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What the work returns; it is done in a thread of the intakes."""
        return await to_thread.run_sync(work, limiter=self._threads)

    @asynccontextmanager
    async def place(self, key: str | None) -> AsyncIterator[None]:
        """A place among the intakes; raises `ProblemError` where there is none."""
        if self._running >= self._configuration.max_intakes:
            raise try_later(f"{self._running} bodies are being taken in, which is as many as may be", 2)
        if key is not None and key in self._keys:
            raise ProblemError(
                HTTPStatus.CONFLICT,
                f"a request with the Idempotency-Key {key!r} is being taken in",
                {"Retry-After": "5"},
            )
        self._running += 1
        if key is not None:
            self._keys.add(key)
        try:
            await self._prune()
            yield
        finally:
            self._running -= 1
            self._keys.discard(key or "")

    async def _prune(self) -> None:
        if time.monotonic() - self._pruned < _PRUNE_SECONDS:
            return
        self._pruned = time.monotonic()
        oldest = datetime.now(UTC) - timedelta(hours=self._configuration.idempotency_hours)
        await self.in_thread(lambda: self._service.store.forget_requests(oldest))

    async def wait_for_lag(self) -> None:
        """Returns when not too many pairs wait for sampling; raises `ProblemError` after the configured patience."""
        since = time.monotonic()
        while True:
            if self._ending():
                raise try_later("the daemon is stopping: send the rest to the next one", STORE_RETRY_SECONDS)
            waiting = await self.in_thread(self._unsettled)
            if waiting <= self._configuration.max_lag:
                return
            if time.monotonic() - since >= self._configuration.lag_patience:
                raise try_later(
                    f"{waiting:,} pairs wait for sampling, over {self._configuration.max_lag:,} (max_lag)",
                    _LAG_RETRY_SECONDS,
                )
            await asyncio.sleep(_LAG_LOOK_SECONDS)

    def _unsettled(self) -> int:
        return self._service.store.count_pairs() - self._service.store.count_pairs([SETTLED])


def intake_routes(
    service: Service,
    configuration: HttpConfiguration,
    limits: Limits,
    metrics: RequestMetrics,
    ending: Callable[[], bool],
) -> APIRouter:
    """The routes of this module."""
    router = APIRouter(prefix="/v1", tags=["intake"])
    intakes = _Intakes(service, configuration, ending)

    async def take_in(request: Request, body: Body) -> None:
        async for lines in line_chunks(request, configuration.max_request_bytes):
            await intakes.wait_for_lag()
            metrics.count_lines(await intakes.in_thread(partial(body.add, lines)))
        await intakes.in_thread(body.finish)

    async def fail(body: Body, reason: str) -> None:
        with CancelScope(shield=True):
            await intakes.in_thread(lambda: body.fail(reason))

    @router.post(
        "/pairs",
        response_model=IntakeAnswer,
        responses=_PROBLEMS,
        openapi_extra={"requestBody": {"required": True, "content": {JSON_LINES[0]: {"x-item-schema": _LINE}}}},
    )
    async def add_pairs(
        request: Request,
        corpus: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] = DEFAULT_CORPUS,
        languages: Annotated[str | None, Query(max_length=40, pattern=_LANGUAGES)] = None,
        idempotency_key: Annotated[
            str | None, Header(min_length=1, max_length=LONGEST_KEY, pattern=r"^[\x21-\x7e]+$")
        ] = None,
    ) -> Response:
        """Take in pairs, one JSON object `{"source", "target", "alignment", "id"}` a line.

        What was stored when a request breaks off stays stored; with an `Idempotency-Key`, the same request may be sent
        again until it is answered, and is counted once. `languages` says which the body has, source and target, as in
        `fr,en`; a store that has others refuses it.
        """
        _check_content(request)
        async with intakes.place(idempotency_key):
            await intakes.in_thread(lambda: _check_languages(service.store, languages))
            await intakes.wait_for_lag()
            body = await intakes.in_thread(
                lambda: Body(service.store, corpus, idempotency_key, configuration.max_line_bytes, limits)
            )
            try:
                await take_in(request, body)
            except (ProblemError, StoreError, InputError, ClientGoneError) as error:
                await fail(body, str(error))
                _log.warning("a body of pairs broke off: %s", error)
                raise _problem(error, body) from error
            except BaseException as error:
                await fail(body, str(error) or type(error).__name__)
                raise
        headers = {"Idempotency-Replayed": "true"} if body.repeated else {}
        return JSONResponse(asdict(body.answer), headers=headers)

    return router


def _check_content(request: Request) -> None:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in JSON_LINES:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the body is called {kind or 'nothing'!r}: send JSON lines with `Content-Type: {JSON_LINES[0]}`",
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is compressed: send it as it is")


def _check_languages(store: Store, given: str | None) -> None:
    if given is None:
        return
    try:
        pipeline_of(store.settings(), two_languages(given, "languages"))
    except UsageError as error:
        raise ProblemError(HTTPStatus.CONFLICT, str(error)) from error


def _problem(error: Exception, body: Body) -> ProblemError:
    """What to tell a client whose body broke off: the reason, and what was taken in before."""
    if isinstance(error, ProblemError):
        problem = error
    elif isinstance(error, RequestMovedError):
        problem = ProblemError(HTTPStatus.CONFLICT, str(error), {"Retry-After": str(STORE_RETRY_SECONDS)})
    elif isinstance(error, StoreUnavailableError):
        problem = try_later(str(error), STORE_RETRY_SECONDS)
    elif isinstance(error, WrongKindError):
        problem = ProblemError(HTTPStatus.CONFLICT, str(error))
    elif isinstance(error, TooManyRejectedError):
        problem = ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    elif isinstance(error, InputError):
        problem = ProblemError(HTTPStatus.INSUFFICIENT_STORAGE, str(error))
    else:
        problem = ProblemError(HTTPStatus.BAD_REQUEST, str(error))
    problem.headers.setdefault("Connection", "close")
    problem.extra["taken"] = asdict(body.answer)
    return problem
