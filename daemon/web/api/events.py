"""Serve what has changed, as pages of JSON and as a stream of server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal, get_args

from anyio import to_thread
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from hierogram.daemon.web.protocol.problems import ProblemError, try_later
from hierogram.daemon.web.protocol.service import Service
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records.operations import EVENT_KINDS, EventPage

STREAM = "text/event-stream"

_LARGEST_ID = (1 << 63) - 1
_MOST = 1_000
_MOST_STREAMS = 20
_A_LOOK = 200
_LOOK_SECONDS = 0.5
_HEARTBEAT_SECONDS = 15
_RETRY_SECONDS = 10

Kind = Literal[
    "rule-new", "rule-gone", "rule-moved", "rules-changed", "pairs-rejected", "export-done", "export-failed"
]  # fmt: skip
assert set(get_args(Kind)) == set(EVENT_KINDS)


class EventAnswer(BaseModel):
    """Something that changed; what does not concern its kind is left out."""

    id: int
    at: datetime
    kind: Kind
    rule_id: int | None = None
    source: str | None = None
    target: str | None = None
    expected_uses_before: float | None = Field(default=None, description="Those of the rule when it was last reported.")
    expected_uses_now: float | None = None
    error: float | None = Field(default=None, description="Monte-Carlo standard error of the difference.")
    number: int | None = Field(default=None, description="Lines, or rules.")
    detail: dict[str, Any] | None = None


class EventsAnswer(BaseModel):
    """Events in the order in which they were committed."""

    events: list[EventAnswer]
    next: int = Field(description="What to give as `after` the next time.")
    oldest: int = Field(description="The first event that is kept.")
    last: int = Field(description="The last event.")


def event_routes(service: Service, ending: Callable[[], bool]) -> APIRouter:
    """The routes of this module; streams end when `ending` says so."""
    router = APIRouter(prefix="/v1", tags=["looking"])
    streams = _Streams()

    @router.get(
        "/events",
        response_model=EventsAnswer,
        response_model_exclude_none=True,
        responses={
            200: {"content": {STREAM: {}}},
            410: {"description": "Events after `after` are no longer kept: `oldest` is the first that is."},
        },
    )
    async def events(
        after: Annotated[
            int | None,
            Query(ge=0, le=_LARGEST_ID, description="Events after this one; without, from the oldest that is kept."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST, description="Most events of a page.")] = 100,
        kind: Annotated[list[Kind] | None, Query(max_length=10, description="Kinds of events; else all.")] = None,
        accept: Annotated[str, Header()] = "",
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """What has changed; a stream of server-sent events where the client asks for text/event-stream."""
        kinds = kind or []
        if STREAM in accept:
            position = _position(last_event_id) if last_event_id else after
            return await streams.open(_Feed(service, kinds, ending), position)
        page = await to_thread.run_sync(lambda: service.store.events(after, limit, kinds))
        if page.missed:
            raise ProblemError(
                HTTPStatus.GONE,
                f"{page.missed:,} events after {after} are no longer kept: go on from the oldest, {page.oldest}",
                oldest=page.oldest,
                last=page.last,
            )
        return JSONResponse(
            {
                "events": [event.plain() for event in page.events],
                "next": page.events[-1].id if len(page.events) == limit else max(page.last, after or 0),
                "oldest": page.oldest,
                "last": page.last,
            }
        )

    return router


def _position(given: str) -> int:
    if not (given.isascii() and given.isdecimal() and len(given) < 19):
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"Last-Event-ID {given[:40]!r} is no position: give a whole number")
    return int(given)


class _Feed:
    """The store's events of some kinds, as a stream asks for them."""

    def __init__(self, service: Service, kinds: list[Any], ending: Callable[[], bool]) -> None:
        self._store = service.store
        self._kinds = kinds
        self.ending = ending

    async def page(self, after: int | None, limit: int = _A_LOOK) -> EventPage:
        return await to_thread.run_sync(lambda: self._store.events(after, limit, self._kinds))


class _Stream(EventSourceResponse):
    """A stream of events that gives its place back, however it ends, begun or not."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], ended: Callable[[], None]) -> None:
        super().__init__(events, ping=_HEARTBEAT_SECONDS)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends events until the client goes or they end."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


class _Streams:
    """The streams that are open, no more than may be."""

    def __init__(self) -> None:
        self._open = 0

    async def open(self, feed: _Feed, after: int | None) -> Response:
        """A stream of what comes after a position; without one, of what comes from now on."""
        if self._open >= _MOST_STREAMS:
            raise try_later(f"there are as many streams of events as may be ({_MOST_STREAMS})", _RETRY_SECONDS)
        # Before anything is waited for: others begin meanwhile.
        self._open += 1
        try:
            first = await feed.page(after, 1)
        except BaseException:
            self._close()
            raise
        return _Stream(_events(feed, first.last if after is None else after), self._close)

    def _close(self) -> None:
        self._open -= 1


async def _events(feed: _Feed, position: int) -> AsyncIterator[ServerSentEvent]:
    while not feed.ending():
        try:
            page = await feed.page(position)
        except StoreError:
            # The client comes again, and hears then whether the store answers.
            return
        if page.missed:
            position = page.oldest - 1
            yield ServerSentEvent(
                f'{{"missed": {page.missed}, "oldest": {page.oldest}}}', event="missed", id=str(position)
            )
        for event in page.events:
            yield ServerSentEvent(_json(event.plain()), event=event.kind, id=str(event.id))
        reached = page.events[-1].id if len(page.events) >= _A_LOOK else page.last
        if reached > position:
            position = reached
        else:
            await asyncio.sleep(_LOOK_SECONDS)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
