"""POST /v1/pairs: ingest JSON lines in chunks, with backpressure and idempotency keys."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Annotated
from uuid import uuid4

from anyio import CancelScope, CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from hierogram.daemon.deadline import Result
from hierogram.daemon.exceptions import InputError, TemporarySpaceError, UsageError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.formats import JSONL, parse_json_object, parse_lines
from hierogram.daemon.text.ingest import DEFAULT_CORPUS, IngestBatch, check_input_kind
from hierogram.daemon.text.inspection import Note
from hierogram.daemon.text.lines import InputLimits, detect_data_type
from hierogram.daemon.text.pipeline import Languages, make_pipeline, two_languages
from hierogram.daemon.text.reading import IngestOptions, InputValidator
from hierogram.daemon.web.protocol.bodies import check_content, line_chunks
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import STORE_RETRY_SECONDS, ProblemError, describe, make_problem, try_later
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.storage.exceptions import StoreError, WriteConflictError
from hierogram.storage.pairs.ingest import MAX_KEY_LENGTH, Receipt
from hierogram.storage.records.operations import RequestRow
from hierogram.storage.records.pairs import UNSETTLED, IngestTotals, RejectedLine

_SHOWN_REJECTIONS = 100
_SHOWN_FIELDS = 20
_SHOWN_CHARACTERS = 100


class RejectedAnswer(BaseModel):
    """A rejected line, or several consecutive lines rejected for the same reason."""

    line: int = Field(description="Number of the first line, counted from 1.")
    last_line: int = Field(description="Number of the last line.")
    reason: str
    message: str


class IngestAnswer(BaseModel):
    """Report on a body of pairs."""

    batch: int = 0
    corpus: str
    lines: int = 0
    accepted: int = 0
    duplicates: int = Field(default=0, description="Lines whose pairs were already in the corpus.")
    rejected: int = 0
    reasons: dict[str, int] = {}
    rejected_lines: list[RejectedAnswer] = Field(
        default=[],
        description="The first 100 groups of consecutive rejected lines. The table rejected_lines contains all.",
    )
    more_rejected: int = 0
    unused_fields: dict[str, int] = Field(
        default={}, description="Number of lines with each unknown member of the JSON objects, for up to 20 members."
    )
    more_unused_fields: int = Field(default=0, description="Occurrences of further unknown members.")
    notes: list[Note] = Field(default=[], description="Notes on the whole body.")

    def plus(self, totals: IngestTotals, rejected: Sequence[RejectedLine], unused: Mapping[str, int]) -> "IngestAnswer":
        """Return a copy with the counts of a chunk added. `unused` counts its lines with each unknown member."""
        answer = self.model_copy(deep=True)
        answer.lines += totals.accepted + totals.duplicates + totals.rejected
        answer.accepted += totals.accepted
        answer.duplicates += totals.duplicates
        answer.rejected += totals.rejected
        for run in rejected:
            answer.reasons[run.reason] = answer.reasons.get(run.reason, 0) + run.lines
            if len(answer.rejected_lines) < _SHOWN_REJECTIONS:
                answer.rejected_lines.append(RejectedAnswer.model_validate(run, from_attributes=True))
            else:
                answer.more_rejected += run.lines
        unused_fields = answer.unused_fields
        for name, count in sorted(unused.items()):
            shortened = name[:_SHOWN_CHARACTERS].encode(errors="replace").decode()
            if shortened in unused_fields or len(unused_fields) < _SHOWN_FIELDS:
                unused_fields[shortened] = unused_fields.get(shortened, 0) + count
            else:
                answer.more_unused_fields += count
        return answer


class IngestRequest:
    """Ingestion of one request body in chunks. A later attempt with the idempotency key resumes it.

    Each attempt records its progress in the same transaction as its pairs. The next attempt skips the recorded lines,
    checks their digest, and continues the counts. Call the methods from one thread at a time.
    """

    def __init__(
        self, store: GrammarStore, corpus: str, key: str | None, limits: InputLimits, languages: Languages | None
    ) -> None:
        self._store = store.store
        self._corpus = corpus
        self._key = key
        self._limits = limits
        self._languages = languages
        self._digest = blake2b(digest_size=16)
        self._seen = 0
        """Number of lines that this attempt has received."""
        self._open_batch: tuple[InputValidator, IngestBatch] | None = None
        self._earlier_request = self._store.find_request(key) if key is not None else None
        self.is_replay = self._earlier_request is not None and self._earlier_request.done
        """True if an earlier attempt completed the request."""
        self.answer = IngestAnswer(corpus=corpus)
        if self._earlier_request:
            self.answer = IngestAnswer.model_validate_json(self._earlier_request.response)
            if self._earlier_request.corpus != corpus:
                raise self._key_conflict(f"the earlier request used the corpus {self._earlier_request.corpus!r}")

    def add(self, lines: list[bytes]) -> None:
        """Ingest the next lines, or skip lines that an earlier attempt ingested."""
        if not self._seen and lines:
            if lines[0].lstrip().startswith(b"["):
                raise _not_json_lines("a JSON array", ": convert an array with jq -c '.[]'")
            if (kind := detect_data_type(lines[0])) is not None:
                raise _not_json_lines(kind, ", not compressed")
        skipped = lines[: max(0, self.answer.lines - self._seen)]
        if skipped:
            self._skip(skipped)
            lines = lines[len(skipped) :]
        if not lines:
            return
        if self.is_replay:
            raise self._key_conflict("the earlier request had fewer lines")
        validator, batch = self._open()
        unused: Counter[str] = Counter()
        [fields] = parse_lines([lines], partial(parse_json_object, unused=unused), self._seen + 1)
        digest = self._digest.copy()
        digest.update(b"\n".join(lines) + b"\n")

        def receipt(added: IngestTotals, rejected: list[RejectedLine]) -> Receipt:
            return self._receipt(self.answer.plus(added, rejected, unused), digest.digest())

        totals, rejected = batch.store(validator.validate([fields]), receipt if self._key is not None else None)
        self.answer = self.answer.plus(totals, rejected, unused)
        self._digest = digest
        self._seen = self.answer.lines

    def _skip(self, lines: list[bytes]) -> None:
        self._digest.update(b"\n".join(lines) + b"\n")
        if not self.is_replay:
            [fields] = parse_lines([lines], parse_json_object, self._seen + 1)
            # Validate stored lines again, so that later repeats are numbered correctly.
            validator, _ = self._open()
            validator.validate([fields])
        self._seen += len(lines)
        assert self._earlier_request is not None
        if self._seen == self._earlier_request.lines and self._digest.digest() != self._earlier_request.digest:
            raise self._key_conflict("the earlier request had different lines")

    def finish(self) -> None:
        """Close the batch after the last line. Raises `ProblemError` for an empty body or missing lines."""
        if self._seen < self.answer.lines:
            raise self._key_conflict("the earlier request had more lines")
        if not self._seen:
            raise _not_json_lines("empty")
        if not self.is_replay:
            validator, batch = self._open()
            validator.close()
            self.answer.notes = batch.notes()
            receipt = self._receipt(self.answer, self._digest.digest(), done=True)
            batch.finish(receipt if self._key is not None else None)

    def fail(self, reason: str) -> None:
        """Close the batch as failed. Stored lines are kept, and no more lines may be added."""
        if self._open_batch:
            validator, batch = self._open_batch
            validator.close()
            batch.fail(reason)

    def _open(self) -> tuple[InputValidator, IngestBatch]:
        if self._open_batch is None:
            settings = check_input_kind(self._store, PAIRS)
            # The origin must be unique, because origin and line number identify a rejected line.
            name = self._key if self._key is not None else uuid4().hex
            validator = InputValidator(settings, IngestOptions(self._languages, self._limits))
            batch = IngestBatch(self._store, self._corpus, f"http:{name}", JSONL, self._limits)
            self.answer.batch = batch.report.batch
            self._open_batch = validator, batch
        return self._open_batch

    def _receipt(self, answer: IngestAnswer, digest: bytes, *, done: bool = False) -> Receipt:
        report = json.dumps(answer.model_dump())
        return RequestRow(self._key or "", self._corpus, answer.lines, digest, done, report), self.answer.lines or None

    def _key_conflict(self, reason: str) -> ProblemError:
        detail = f"Idempotency-Key {self._key!r} was used for another request: {reason}; use a new key for new content"
        return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)


def _not_json_lines(body: str, detail: str = "") -> ProblemError:
    expected = 'send JSON lines, one object {"source": …, "target": …} per line'
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"the body is {body}: {expected}{detail}")


JSON_LINES = ("application/jsonl", "application/x-ndjson", "application/ndjson", "application/json")
"""Accepted content types. Any web page can send forms and plain text, so these are excluded."""

_MAX_BODIES = 4
_PRUNE_SECONDS = 600.0
_LAG_POLL_SECONDS = 0.5
_LAG_RETRY_SECONDS = 60

_LINK_SCHEMA = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
_LINKS_SCHEMA = [{"type": "string"}, {"type": "null"}, {"type": "array", "items": _LINK_SCHEMA}]
_LINE_SCHEMA = {
    "description": "A line of the body. Other members are ignored and listed in the response.",
    "type": "object",
    "required": ["source", "target"],
    "properties": {
        "source": {"type": "string"},
        "target": {"type": "string"},
        "alignment": {
            "description": "Links, such as `0-0 1-2` or a list of pairs of numbers. If omitted, the aligner links "
            "the pair.",
            "anyOf": _LINKS_SCHEMA,
        },
        "fixed": {"description": "Links that must be present, regardless of the aligner.", "anyOf": _LINKS_SCHEMA},
        "forbidden": {"description": "Links that must be absent.", "anyOf": _LINKS_SCHEMA},
        "id": {
            "description": "External id of the pair, unique in its corpus.",
            "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}, {"type": "null"}],
        },
    },
}
"""Schema of a line, in the extension field `x-item-schema`: OpenAPI 3.1 cannot describe JSON Lines."""

_log = logging.getLogger(__name__)

_LANGUAGES_PATTERN = "^{0},{0}$".format(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")

_PROBLEMS = describe({
    408: "The client was too slow.",
    409: "A request with this Idempotency-Key is in progress, or the store has trees or other languages.",
    413: "The body is too large.",
    415: "The content type is not JSON lines, or the body is compressed.",
    422: "A parameter or too many lines are invalid, the body has no JSON lines, or the Idempotency-Key was used for "
    "another request.",
    503: "Too many pairs are not settled, too many requests with pairs are running, the store does not respond, or the "
    "daemon is stopping. See Retry-After.",
    507: "The daemon has no space for a temporary file.",
})  # fmt: skip


class _IngestSlots:
    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._store = context.service.store
        self._keys: set[str] = set()
        self._running = 0
        self._threads = CapacityLimiter(_MAX_BODIES)
        self._pruned = -_PRUNE_SECONDS
        """Monotonic time at which old idempotency keys were last deleted."""

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        return await to_thread.run_sync(work, limiter=self._threads)

    @asynccontextmanager
    async def acquire(self, key: str | None) -> AsyncIterator[None]:
        """Hold an ingestion slot. Raises `ProblemError` if all slots, or the idempotency key, are in use."""
        if self._running >= _MAX_BODIES:
            raise try_later(f"too many concurrent requests with pairs, the limit is {_MAX_BODIES}", 2)
        if key is not None and key in self._keys:
            problem = f"a request with the Idempotency-Key {key!r} is in progress"
            raise ProblemError(HTTPStatus.CONFLICT, problem, {"Retry-After": str(STORE_RETRY_SECONDS)})
        self._running += 1
        if key is not None:
            self._keys.add(key)
        try:
            if time.monotonic() - self._pruned >= _PRUNE_SECONDS:
                self._pruned = time.monotonic()
                oldest = datetime.now(UTC) - timedelta(hours=self._context.http.idempotency_hours)
                await self.in_thread(partial(self._store.forget_requests, oldest))
            yield
        finally:
            self._running -= 1
            self._keys.discard(key or "")

    async def wait_until_caught_up(self) -> None:
        """Wait until the backlog is within `max_lag`. Raises `ProblemError` on timeout or shutdown."""
        started, http = time.monotonic(), self._context.http
        while True:
            if self._context.stopping():
                raise try_later("the HTTP server is stopping: send the rest after its restart", STORE_RETRY_SECONDS)
            unsettled = await self.in_thread(partial(self._store.count_pairs, UNSETTLED))
            if unsettled <= http.max_lag:
                return
            if time.monotonic() - started >= http.backlog_timeout:
                limit = f"the limit is {http.max_lag:,} (max_lag)"
                raise try_later(f"{unsettled:,} pairs are not settled yet, {limit}", _LAG_RETRY_SECONDS)
            await asyncio.sleep(_LAG_POLL_SECONDS)


def ingest_routes(context: WebContext) -> APIRouter:
    """Return the router of `POST /v1/pairs`."""
    router = APIRouter(prefix="/v1", tags=["ingest"])
    slots, opened = _IngestSlots(context), context.service.grammar_store

    @router.post(
        "/pairs",
        response_model=IngestAnswer,
        responses=_PROBLEMS,
        openapi_extra={"requestBody": {"required": True, "content": {JSON_LINES[0]: {"x-item-schema": _LINE_SCHEMA}}}},
    )
    async def add_pairs(
        request: Request,
        corpus: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] = DEFAULT_CORPUS,
        languages: Annotated[str | None, Query(max_length=40, pattern=_LANGUAGES_PATTERN)] = None,
        idempotency_key: Annotated[
            str | None, Header(min_length=1, max_length=MAX_KEY_LENGTH, pattern=r"^[\x21-\x7e]+$")
        ] = None,
    ) -> Response:
        """Ingest pairs, one JSON object per line with `source`, `target`, and optionally links and an `id`.

        If a request is interrupted, the lines already stored are kept. With an `Idempotency-Key`, the same request can
        be repeated until it succeeds, and its lines are counted once. `languages` are the source and target language of
        the body, such as `fr,en`. A store of other languages rejects the request.
        """
        check_content(request, JSON_LINES, f"send JSON lines with `Content-Type: {JSON_LINES[0]}`")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            problem = "compressed bodies are not supported: send the body uncompressed"
            raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
        async with slots.acquire(idempotency_key):
            input_languages = None
            if languages is not None:
                input_languages = await slots.in_thread(partial(_parse_languages, opened, languages))
            await slots.wait_until_caught_up()
            arguments = opened, corpus, idempotency_key, context.configuration.intake, input_languages
            body = await slots.in_thread(partial(IngestRequest, *arguments))
            try:
                async for lines in line_chunks(request, context.http.max_request_bytes):
                    await slots.wait_until_caught_up()
                    await slots.in_thread(partial(body.add, lines))
                await slots.in_thread(body.finish)
            except BaseException as error:
                with CancelScope(shield=True):
                    await slots.in_thread(partial(body.fail, str(error) or type(error).__name__))
                if not isinstance(error, (ProblemError, StoreError, InputError, UsageError)):
                    raise
                _log.warning("body of pairs aborted: %s", error)
                raise _problem(request, error, body) from error
        headers = {"Idempotency-Replayed": "true"} if body.is_replay else {}
        return JSONResponse(body.answer.model_dump(), headers=headers)

    return router


def _parse_languages(store: GrammarStore, languages: str) -> Languages | None:
    try:
        return make_pipeline(store.settings(), two_languages(languages, "languages")).languages
    except UsageError as error:
        raise ProblemError(HTTPStatus.CONFLICT, str(error)) from error


def _problem(request: Request, error: Exception, body: IngestRequest) -> ProblemError:
    match error:
        case UsageError():
            # The package of a language is not installed, or another request has set other languages in the store.
            problem = ProblemError(HTTPStatus.CONFLICT, str(error))
        case WriteConflictError():
            problem = ProblemError(HTTPStatus.CONFLICT, str(error), {"Retry-After": str(STORE_RETRY_SECONDS)})
        case TemporarySpaceError():
            problem = ProblemError(HTTPStatus.INSUFFICIENT_STORAGE, str(error))
        case _:
            problem = make_problem(request, error)
    problem.headers.setdefault("Connection", "close")
    problem.extra["ingested"] = body.answer.model_dump()
    return problem
