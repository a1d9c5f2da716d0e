"""Requests that a client may repeat: how far each was taken in, and what it was answered."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from hierogram.storage.database.transactions import Writing, now
from hierogram.storage.exceptions import RequestMovedError
from hierogram.storage.records import RequestRow
from hierogram.storage.schema.tables import requests

LONGEST_KEY = 255
"""Characters that the key of a request may have."""

_COLUMNS: Sequence[str] = ("key", "corpus", "lines", "digest", "done", "answer")


def find_request(connection: Connection, key: str) -> RequestRow | None:
    """The request with the key, None if it is not known."""
    row = connection.execute(
        select(*(requests.c[name] for name in _COLUMNS)).where(requests.c.key == key)
    ).one_or_none()
    return None if row is None else RequestRow(*row)


def save_request(writing: Writing, request: RequestRow, since: int | None) -> None:
    """Records how far a request has come; `since` is how many lines were recorded before, None: it is new.

    Raises `RequestMovedError` where someone else has recorded it meanwhile.
    """
    values = {name: getattr(request, name) for name in _COLUMNS} | {"touched_at": now()}
    if since is None:
        known = writing.connection.scalar(select(requests.c.key).where(requests.c.key == request.key))
        if known is not None:
            raise RequestMovedError(f"the request {request.key!r} is being taken in by someone else: try again later")
        writing.connection.execute(insert(requests).values(**values, started_at=now()))
        return
    changed = writing.connection.execute(
        update(requests)
        .where(requests.c.key == request.key, requests.c.lines == since, requests.c.done.is_(False))
        .values(values)
    )
    if changed.rowcount != 1:
        raise RequestMovedError(f"the request {request.key!r} is being taken in by someone else: try again later")


def forget_requests(writing: Writing, before: datetime) -> int:
    """Forgets the requests that nobody has touched since `before`; returns how many they were."""
    return writing.connection.execute(delete(requests).where(requests.c.touched_at < before)).rowcount
