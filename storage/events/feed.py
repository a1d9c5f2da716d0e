"""The feed: events are appended within the transaction that causes them, and read by position."""

import json
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, func, select, update

from hierogram.storage.database.transactions import Writing, now
from hierogram.storage.records.events import Event, EventPage, NewEvent
from hierogram.storage.schema.event_tables import event_state, events

_COLUMNS = ("id", "at", *NewEvent._fields)


def append(writing: Writing, new: Sequence[NewEvent]) -> None:
    """Appends events, and drops the oldest where there are more than are kept."""
    if not new:
        return
    connection = writing.connection
    last, kept = _state(connection)
    at = writing.loader.moment(now())
    writing.loader.insert(events, _COLUMNS, [(last + k, at, *_values(event)) for k, event in enumerate(new, 1)])
    last += len(new)
    connection.execute(update(event_state).values(last_id=last))
    connection.execute(delete(events).where(events.c.id <= last - kept))


def _values(event: NewEvent) -> tuple[object, ...]:
    detail = None if event.detail is None else json.dumps(event.detail, ensure_ascii=False)
    return (*event[:-1], detail)


def _state(connection: Connection) -> tuple[int, int]:
    """The id of the last event, and how many are kept."""
    row = connection.execute(select(event_state.c.last_id, event_state.c.kept)).one()
    return row.last_id, row.kept


def keep(writing: Writing, number: int) -> None:
    """Keeps so many events from now on."""
    last, _ = _state(writing.connection)
    writing.connection.execute(update(event_state).values(kept=number))
    writing.connection.execute(delete(events).where(events.c.id <= last - number))


def read(connection: Connection, after: int | None, limit: int, kinds: Collection[str] = ()) -> EventPage:
    """Up to `limit` events after a position (None: from the oldest on), of all kinds or of some."""
    last, _ = _state(connection)
    first = connection.scalar(select(func.min(events.c.id)))
    oldest = last + 1 if first is None else first
    wanted = select(*(events.c[name] for name in _COLUMNS)).where(events.c.id > (after or 0))
    if kinds:
        wanted = wanted.where(events.c.kind.in_(sorted(kinds)))
    rows = connection.execute(wanted.order_by(events.c.id).limit(limit)).all()
    found = [Event._make((*row[:-1], None if row.detail is None else json.loads(row.detail))) for row in rows]
    return EventPage(found, oldest, last, 0 if after is None else max(oldest - 1 - after, 0))
