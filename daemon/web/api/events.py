"""Store events, as pages of JSON and as a stream of server-sent events."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Collection
from http import HTTPStatus
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from hierogram.daemon.web.protocol.bodies import MAX_ID
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import ProblemError, try_later
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records.operations import Event, EventKind, EventPage

STREAM = "text/event-stream"
_AFTER = "Return events after this number. By default, pages begin with the oldest event, streams with the next one."
_MAX_EVENTS = 1_000
_MAX_STREAMS = 20
_PAGE_SIZE = 200
_POLL_SECONDS = 0.5
_HEARTBEAT_SECONDS = 15
_RETRY_SECONDS = 10


class EventsAnswer(BaseModel):
    """Events in commit order. Fields that do not apply to the kind of an event are omitted."""

    events: list[Event]
    next: int = Field(description="Value of `after` for the next page.")
    oldest: int = Field(description="Number of the oldest stored event, or `last` + 1 if no event is stored.")
    last: int = Field(description="Number of the newest event.")


def event_routes(context: WebContext) -> APIRouter:
    """Return the router of `GET /v1/events`."""
    router = APIRouter(prefix="/v1", tags=["events"])
    streams = _Streams(context)

    @router.get(
        "/events",
        response_model=EventsAnswer,
        response_model_exclude_none=True,
        responses={
            200: {"content": {STREAM: {}}},
            410: {"description": "Events after `after` have been deleted. `oldest` is the oldest stored event."},
        },
    )
    async def events(
        after: Annotated[int | None, Query(ge=0, le=MAX_ID, description=_AFTER)] = None,
        limit: Annotated[int, Query(ge=1, le=_MAX_EVENTS, description="Maximum number of events.")] = 100,
        kind: Annotated[
            list[EventKind] | None, Query(max_length=10, description="Kinds of events. By default, all kinds.")
        ] = None,
        accept: Annotated[str, Header()] = "",
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Return events, or a stream of server-sent events if the client accepts text/event-stream."""
        kinds = kind or []
        if STREAM in accept:
            if last_event_id and not re.fullmatch("[0-9]{1,18}", last_event_id):
                problem = f"Last-Event-ID must be a whole number, got {last_event_id[:40]!r}"
                raise ProblemError(HTTPStatus.BAD_REQUEST, problem)
            return await streams.open(kinds, int(last_event_id) if last_event_id else after)
        page = await streams.page(kinds, after, limit)
        numbers: dict[str, Any] = {"oldest": page.oldest, "last": page.last}
        if page.missed:
            problem = f"{page.missed:,} events after {after} have been deleted: continue with the oldest stored event"
            raise ProblemError(HTTPStatus.GONE, f"{problem}, after={page.oldest - 1}", **numbers)
        following = page.events[-1].id if len(page.events) == limit else max(page.last, after or 0)
        return JSONResponse({"events": [event.plain() for event in page.events], "next": following, **numbers})

    return router


class _Stream(EventSourceResponse):
    def __init__(self, events: AsyncIterator[bytes], streams: "_Streams") -> None:
        # Caches must not store the stream, and proxies must not buffer it.
        super().__init__(events, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Count down here, because an iterator of events that never started runs no `finally`.
            self._streams.open_count -= 1


class _Streams:
    def __init__(self, context: WebContext) -> None:
        self._store = context.service.grammar_store
        self._threads = context.threads.downloads.threads
        self._stopping = context.stopping
        self.open_count = 0

    async def page(self, kinds: Collection[str], after: int | None, limit: int) -> EventPage:
        return await to_thread.run_sync(lambda: self._store.events(after, limit, kinds), limiter=self._threads)

    async def open(self, kinds: Collection[str], after: int | None) -> Response:
        """Return a stream of the events after number `after`, or of new events if it is None."""
        if self.open_count >= _MAX_STREAMS:
            raise try_later(f"too many open event streams, the limit is {_MAX_STREAMS}", _RETRY_SECONDS)
        # Count the stream before the first await, so that concurrent requests cannot exceed the limit.
        self.open_count += 1
        try:
            first = await self.page(kinds, after, 1)
        except BaseException:
            self.open_count -= 1
            raise
        return _Stream(self._events(kinds, first.last if after is None else after), self)

    async def _events(self, kinds: Collection[str], position: int) -> AsyncIterator[bytes]:
        sent = time.monotonic()
        while not self._stopping():
            try:
                page = await self.page(kinds, position, _PAGE_SIZE)
            except StoreError:
                # End the stream. The client reconnects, and gets an error if the store is still unavailable.
                return
            if page.missed:
                position = page.oldest - 1
                missed = f'{{"missed": {page.missed}, "oldest": {page.oldest}}}'
                yield format_sse_event(data_str=missed, event="missed", id=str(position))
            for event in page.events:
                content = json.dumps(event.plain(), ensure_ascii=False)
                yield format_sse_event(data_str=content, event=event.kind, id=str(event.id))
            if page.missed or page.events:
                sent = time.monotonic()
            elif time.monotonic() - sent >= _HEARTBEAT_SECONDS:
                yield KEEPALIVE_COMMENT
                sent = time.monotonic()
            reached = page.events[-1].id if len(page.events) >= _PAGE_SIZE else page.last
            if reached > position:
                position = reached
            else:
                await asyncio.sleep(_POLL_SECONDS)
