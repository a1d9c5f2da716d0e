"""What the store can do with events."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from hierogram.storage.database.access import Access
from hierogram.storage.database.connection import reading
from hierogram.storage.database.transactions import writing
from hierogram.storage.events import deliveries, feed

if TYPE_CHECKING:
    from hierogram.storage.records.events import Delivery, EventPage


class Events(Access):
    """What has changed, and whom that was sent to."""

    def events(self, after: int | None = None, limit: int = 100, kinds: Collection[str] = ()) -> EventPage:
        """Events after a position, in order (None: from the oldest that is kept); of all kinds, or of some."""
        with reading(self._engine) as connection:
            return feed.read(connection, after, limit, kinds)

    def keep_events(self, number: int) -> None:
        """Keeps so many events, from now on; older ones go."""
        with writing(self._engine, self._memory) as transaction:
            feed.keep(transaction, number)

    def queue_deliveries(self, url: str, kinds: Collection[str]) -> int:
        """Notes the events of these kinds that are to be sent to a webhook; returns how many were new.

        A webhook that is new begins after the last event.
        """
        with reading(self._engine) as connection:
            if not deliveries.has_news(connection, url):
                return 0
        with writing(self._engine, self._memory) as transaction:
            return deliveries.queue(transaction, url, kinds)

    def due_deliveries(self, url: str, moment: float, limit: int = 20) -> list[Delivery]:
        """What is to be sent to a webhook at this time (seconds since 1970)."""
        with reading(self._engine) as connection:
            return deliveries.due(connection, url, moment, limit)

    def note_delivery(self, delivery: Delivery, status: int | None, error: str | None, again: float | None) -> None:
        """Notes how an attempt ended: well without an `error`; else it is tried `again` then, or never (None)."""
        with writing(self._engine, self._memory) as transaction:
            deliveries.note_attempt(transaction, delivery, status, error, again)

    def count_deliveries(self) -> dict[str, int]:
        """Numbers of deliveries by state: waiting, done, failed."""
        with reading(self._engine) as connection:
            return deliveries.counted(connection)
