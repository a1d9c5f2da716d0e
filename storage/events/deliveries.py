"""What was sent on to webhooks: up to which event each has been looked after, and every event that was to be sent."""

import json
from collections.abc import Collection

from sqlalchemy import Connection, delete, func, insert, select, update

from hierogram.storage.database.transactions import Writing
from hierogram.storage.events.feed import read
from hierogram.storage.records.events import Delivery
from hierogram.storage.schema.event_tables import webhook_deliveries, webhooks

WAITING, DONE, FAILED = "waiting", "done", "failed"
_KEPT = 1_000
"""Deliveries that are over and still kept, for each webhook, by the number of events that they lie behind."""
_AT_ONCE = 100


def queue(writing: Writing, url: str, kinds: Collection[str]) -> int:
    """Notes the events of these kinds that are to be sent to a webhook; a new webhook begins after the last event.

    Returns how many were noted.
    """
    connection = writing.connection
    position = connection.scalar(select(webhooks.c.position).where(webhooks.c.url == url))
    page = read(connection, position, _AT_ONCE, kinds)
    if position is None:
        connection.execute(insert(webhooks).values(url=url, position=page.last))
        return 0
    if page.events:
        rows = [
            {"url": url, "event_id": event.id, "state": WAITING, "attempts": 0, "next_at": 0.0,
             "body": json.dumps(event.plain(), ensure_ascii=False)}
            for event in page.events
        ]  # fmt: skip
        connection.execute(insert(webhook_deliveries), rows)
    reached = page.events[-1].id if len(page.events) == _AT_ONCE else page.last
    if reached != position:
        connection.execute(update(webhooks).where(webhooks.c.url == url).values(position=reached))
        over = (webhook_deliveries.c.url == url) & (webhook_deliveries.c.state != WAITING)
        newest = connection.scalar(
            select(webhook_deliveries.c.event_id).where(over).order_by(webhook_deliveries.c.event_id.desc())
            .offset(_KEPT).limit(1)
        )  # fmt: skip
        if newest is not None:
            connection.execute(delete(webhook_deliveries).where(over, webhook_deliveries.c.event_id <= newest))
    return len(page.events)


def has_news(connection: Connection, url: str) -> bool:
    """Whether `queue` has anything to do."""
    position = connection.scalar(select(webhooks.c.position).where(webhooks.c.url == url))
    return position is None or position != read(connection, None, 0).last


def due(connection: Connection, url: str, moment: float, limit: int) -> list[Delivery]:
    """Deliveries that wait and whose time has come, those that have waited longest first."""
    table = webhook_deliveries.c
    statement = (
        select(table.url, table.event_id, table.attempts, table.body)
        .where(table.state == WAITING, table.next_at <= moment, table.url == url)
        .order_by(table.next_at, table.event_id)
        .limit(limit)
    )
    return [Delivery._make(row) for row in connection.execute(statement)]


def note_attempt(
    writing: Writing, delivery: Delivery, status: int | None, error: str | None, again: float | None
) -> None:
    """Notes how an attempt ended: done without an `error`; else it waits until `again` (None: it has failed)."""
    table = webhook_deliveries
    state = DONE if error is None else FAILED if again is None else WAITING
    writing.connection.execute(
        update(table)
        .where(table.c.url == delivery.url, table.c.event_id == delivery.event_id)
        .values(state=state, attempts=delivery.attempts + 1, status=status, error=error, next_at=again or 0.0)
    )


def counted(connection: Connection) -> dict[str, int]:
    """Numbers of deliveries by state."""
    table = webhook_deliveries.c
    found = connection.execute(select(table.state, func.count()).group_by(table.state))
    return {WAITING: 0, DONE: 0, FAILED: 0} | {row[0]: row[1] for row in found}
