"""Event feed: events are appended within the transaction that causes them, and are read in order of id.

The store also records each webhook's deliveries, and the last event for which deliveries were queued.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import fields
from operator import attrgetter

from sqlalchemy import Connection, delete, func, insert, select, update

from hierogram.storage.database.transactions import StoreAccess, WriteTransaction, now
from hierogram.storage.records.operations import Delivery, Event, EventPage, NewEvent, Webhook
from hierogram.storage.schema.tables import event_state, events, webhook_deliveries, webhooks

_FIELDS = tuple(field.name for field in fields(NewEvent))
_COLUMNS = ("id", "at", *_FIELDS)
_values = attrgetter(*_FIELDS[:-1])

DELIVERY_STATES = WAITING, DONE, FAILED = "waiting", "done", "failed"
_MAX_FINISHED = 1_000
"""Number of finished deliveries that are kept for each webhook."""
_EVENTS_AT_ONCE = 100
_MAX_DUE = 20


class Events(StoreAccess):
    """Event feed, and the deliveries of events to webhooks."""

    def events(self, after: int | None = None, limit: int = 100, kinds: Collection[str] = ()) -> EventPage:
        """Return up to `limit` events after an event id, or from the oldest event. Empty `kinds` select all events."""
        with self._reading() as connection:
            return read(connection, after, limit, kinds)

    def record_event(self, event: NewEvent) -> None:
        """Append an event without another change of the store."""
        with self._writing() as transaction:
            append(transaction, [event])

    def set_event_limit(self, number: int) -> None:
        """Keep the last `number` events from now on, and delete older events."""
        with self._writing() as transaction:
            last, _ = _state(transaction.connection)
            transaction.connection.execute(update(event_state).values(max_events=number))
            transaction.connection.execute(delete(events).where(events.c.id <= last - number))

    def queue_deliveries(self, webhook: Webhook, kinds: Collection[str]) -> int:
        """Queue up to `_EVENTS_AT_ONCE` events for a webhook. Returns the number of new deliveries.

        A new webhook is only registered, and receives later events.
        """
        position_of = select(webhooks.c.last_event_id).where(webhooks.c.name == webhook.name)
        with self._reading() as connection:
            position = connection.scalar(position_of)
            if position is not None and position == _state(connection)[0]:
                return 0
        with self._writing() as transaction:
            connection = transaction.connection
            position = connection.scalar(position_of)
            page = read(connection, position, _EVENTS_AT_ONCE, kinds)
            if position is None:
                connection.execute(insert(webhooks).values(**webhook._asdict(), last_event_id=page.last))
                return 0
            if page.events:
                rows = [
                    {"webhook": webhook.name, "event_id": event.id, "state": WAITING, "attempts": 0, "retry_at": 0.0,
                     "body": json.dumps(event.plain(), ensure_ascii=False)}
                    for event in page.events
                ]  # fmt: skip
                connection.execute(insert(webhook_deliveries), rows)
            reached = page.events[-1].id if len(page.events) == _EVENTS_AT_ONCE else page.last
            if reached != position:
                connection.execute(
                    update(webhooks).where(webhooks.c.name == webhook.name).values(last_event_id=reached)
                )
                table = webhook_deliveries.c
                is_finished = (table.webhook == webhook.name) & (table.state != WAITING)
                newest_deleted = connection.scalar(
                    select(table.event_id).where(is_finished).order_by(table.event_id.desc())
                    .offset(_MAX_FINISHED).limit(1)
                )  # fmt: skip
                if newest_deleted is not None:
                    connection.execute(delete(webhook_deliveries).where(is_finished, table.event_id <= newest_deleted))
            return len(page.events)

    def due_deliveries(self, webhook: Webhook, moment: float, longest_pause: float) -> list[Delivery]:
        """Return up to `_MAX_DUE` deliveries for a webhook that are due at `moment` (seconds since 1970)."""
        with self._reading() as connection:
            table = webhook_deliveries.c
            statement = (
                select(table.webhook, table.event_id, table.attempts, table.body)
                .where(table.state == WAITING, table.webhook == webhook.name)
                # A retry later than the longest pause is due, because the clock was ahead when it was recorded.
                .where((table.retry_at <= moment) | (table.retry_at > moment + longest_pause))
                .order_by(table.retry_at, table.event_id)
                .limit(_MAX_DUE)
            )
            return [Delivery._make(row) for row in connection.execute(statement)]

    def record_delivery(
        self, delivery: Delivery, status: int | None, error: str | None, retry_at: float | None
    ) -> None:
        """Record an attempt. It succeeded if `error` is None, and is not repeated if `retry_at` is None."""
        with self._writing() as transaction:
            table = webhook_deliveries
            state = DONE if error is None else FAILED if retry_at is None else WAITING
            transaction.connection.execute(
                update(table)
                .where(table.c.webhook == delivery.webhook, table.c.event_id == delivery.event_id)
                .values(
                    state=state, attempts=delivery.attempts + 1, status=status, error=error, retry_at=retry_at or 0.0
                )
            )


def append(transaction: WriteTransaction, new: Sequence[NewEvent]) -> None:
    """Append events, and delete the oldest events beyond the limit."""
    if not new:
        return
    connection = transaction.connection
    last, number_kept = _state(connection)
    time = transaction.loader.moment(now())
    rows = [
        (
            last + k,
            time,
            *_values(event),
            None if event.detail is None else json.dumps(event.detail, ensure_ascii=False),
        )
        for k, event in enumerate(new, 1)
    ]
    transaction.loader.insert(events, _COLUMNS, rows)
    last += len(new)
    connection.execute(update(event_state).values(last_event_id=last))
    connection.execute(delete(events).where(events.c.id <= last - number_kept))


def _state(connection: Connection) -> tuple[int, int]:
    """Return the last event's id and the number of events to keep."""
    row = connection.execute(select(event_state.c.last_event_id, event_state.c.max_events)).one()
    return row.last_event_id, row.max_events


def read(connection: Connection, after: int | None, limit: int, kinds: Collection[str] = ()) -> EventPage:
    """Return up to `limit` events after an event id, or from the oldest event. Empty `kinds` select all events."""
    last, _ = _state(connection)
    first = connection.scalar(select(func.min(events.c.id)))
    oldest = last + 1 if first is None else first
    query = select(*(events.c[name] for name in _COLUMNS)).where(events.c.id > (after or 0))
    if kinds:
        query = query.where(events.c.kind.in_(sorted(kinds)))
    rows = connection.execute(query.order_by(events.c.id).limit(limit)).all()
    events_read = [Event(**{**row._mapping, "detail": row.detail and json.loads(row.detail)}) for row in rows]
    return EventPage(events_read, oldest, last, 0 if after is None else max(oldest - 1 - after, 0))
