"""Event feed, appended by the transactions that cause the events, and deliveries to webhooks."""

import json
from collections.abc import Collection, Sequence
from dataclasses import fields
from operator import attrgetter

from sqlalchemy import Connection, delete, func, insert, select, update

from hierogram.storage.database.transactions import StoreAccess, WriteTransaction
from hierogram.storage.records.operations import Delivery, Event, EventPage, NewEvent, Webhook
from hierogram.storage.schema.tables import event_state, events, webhook_deliveries, webhooks

_values = attrgetter(*(field.name for field in fields(NewEvent) if field.name != "detail"))

DELIVERY_STATES = WAITING, DONE, FAILED = "waiting", "done", "failed"
_MAX_FINISHED = 1_000
"""Number of finished deliveries that are kept for each webhook."""
_EVENTS_AT_ONCE = 100
_MAX_DUE = 20


class Events(StoreAccess):
    """Event feed, and the deliveries of events to webhooks."""

    def events(self, after: int | None = None, limit: int = 100, kinds: Collection[str] = ()) -> EventPage:
        """Return up to `limit` events after an event id, or from the oldest. Empty `kinds` select all events."""
        with self._reading() as connection:
            return _read(connection, after, limit, kinds)

    def record_event(self, event: NewEvent) -> None:
        """Append an event in a transaction of its own."""
        with self._writing() as transaction:
            append(transaction, [event])

    def set_event_limit(self, number: int) -> None:
        """Set the maximum number of stored events, and delete older events."""
        with self._writing() as transaction:
            last, _ = _state(transaction.connection)
            transaction.connection.execute(update(event_state).values(max_events=number))
            transaction.connection.execute(delete(events).where(events.c.id <= last - number))

    def queue_deliveries(self, webhook: Webhook, kinds: Collection[str]) -> int:
        """Queue up to `_EVENTS_AT_ONCE` events, and return their number. A new webhook gets later events."""
        position_of = select(webhooks.c.last_event_id).where(webhooks.c.name == webhook.name)
        with self._reading() as connection:
            position = connection.scalar(position_of)
            if position is not None and position == _state(connection)[0]:
                return 0
        with self._writing() as transaction:
            connection = transaction.connection
            position = connection.scalar(position_of)
            page = _read(connection, position, _EVENTS_AT_ONCE, kinds)
            if position is None:
                connection.execute(insert(webhooks).values(**webhook._asdict(), last_event_id=page.last))
                return 0
            if page.events:
                bodies = [(event.id, json.dumps(event.plain(), ensure_ascii=False)) for event in page.events]
                rows = [(webhook.name, event_id, WAITING, 0, 0.0, body, None, None) for event_id, body in bodies]
                transaction.loader.insert(webhook_deliveries, rows)
            reached = page.events[-1].id if len(page.events) == _EVENTS_AT_ONCE else page.last
            if reached != position:
                transaction.execute(
                    "UPDATE webhooks SET last_event_id = :reached WHERE name = :name",
                    reached=reached,
                    name=webhook.name,
                )
                finished = f"webhook = :name AND state <> '{WAITING}'"
                transaction.execute(
                    f"DELETE FROM webhook_deliveries WHERE {finished} AND event_id <= (SELECT event_id"
                    f" FROM webhook_deliveries WHERE {finished} ORDER BY event_id DESC LIMIT 1 OFFSET {_MAX_FINISHED})",
                    name=webhook.name,
                )
            return len(page.events)

    def due_deliveries(self, webhook: Webhook, moment: float, longest_pause: float) -> list[Delivery]:
        """Return up to `_MAX_DUE` deliveries for a webhook that are due at `moment` (seconds since 1970)."""
        with self._reading() as connection:
            table = webhook_deliveries.c
            statement = (
                select(table.webhook, table.event_id, table.attempts, table.body)
                .where(table.state == WAITING, table.webhook == webhook.name)
                # Treat a retry more than `longest_pause` in the future as due: the clock must have been ahead when it
                # was recorded.
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
            table = webhook_deliveries.c
            state = DONE if error is None else FAILED if retry_at is None else WAITING
            values = {"state": state, "attempts": delivery.attempts + 1, "status": status, "error": error}
            is_delivery = (table.webhook == delivery.webhook) & (table.event_id == delivery.event_id)
            changed = update(webhook_deliveries).where(is_delivery).values(**values, retry_at=retry_at or 0.0)
            transaction.connection.execute(changed)


def append(transaction: WriteTransaction, new: Sequence[NewEvent]) -> None:
    """Append events with the current time, and delete the oldest events beyond the limit of the store."""
    if not new:
        return
    connection = transaction.connection
    last, number_kept = _state(connection)
    time = transaction.loader.moment()
    details = [None if event.detail is None else json.dumps(event.detail, ensure_ascii=False) for event in new]
    rows = ((last + k, time, *_values(event), details[k - 1]) for k, event in enumerate(new, 1))
    transaction.loader.insert(events, rows)
    last += len(new)
    connection.execute(update(event_state).values(last_event_id=last))
    connection.execute(delete(events).where(events.c.id <= last - number_kept))


def _state(connection: Connection) -> tuple[int, int]:
    """Return the id of the last event, and the maximum number of stored events."""
    row = connection.execute(select(event_state.c.last_event_id, event_state.c.max_events)).one()
    return row.last_event_id, row.max_events


def _read(connection: Connection, after: int | None, limit: int, kinds: Collection[str]) -> EventPage:
    last, _ = _state(connection)
    first = connection.scalar(select(func.min(events.c.id)))
    oldest = last + 1 if first is None else first
    query = select(events).where(events.c.id > (after or 0))
    if kinds:
        query = query.where(events.c.kind.in_(sorted(kinds)))
    rows = connection.execute(query.order_by(events.c.id).limit(limit)).all()
    events_read = [Event(**{**row._mapping, "detail": row.detail and json.loads(row.detail)}) for row in rows]
    return EventPage(events_read, oldest, last, 0 if after is None else max(oldest - 1 - after, 0))
