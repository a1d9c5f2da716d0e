"""Claims: which process writes the grammar, and which is still reading an input.

A claim lapses when its time is over by the database's clock, and at once when the process that held it is known to have
ended. There is one claim on the grammar, the *lease*: who commits derivations has to hold it, and every commit looks.
"""

import os
from datetime import datetime, timedelta
from secrets import token_hex

from sqlalchemy import Connection, delete, func, insert, select, update

from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.transactions import Writing, now
from hierogram.storage.exceptions import LeaseLostError, StoreHeldError
from hierogram.storage.operations.processes import has_ended, host_name, this_process
from hierogram.storage.records import Claim
from hierogram.storage.schema.tables import claims, ingest_batches

GRAMMAR = "grammar"
_BATCH = "batch "
_READING_SECONDS = 3600.0
"""A reader of an input that has added nothing for so long, and is on another machine, is taken for dead."""


def database_time(connection: Connection) -> datetime:
    """The time by the database's clock, in UTC; that of SQLite is this machine's."""
    if connection.dialect.name == POSTGRES:
        found: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return found.replace(microsecond=0)
    return now()


def _claim(connection: Connection, name: str) -> Claim | None:
    row = connection.execute(select(claims).where(claims.c.name == name)).one_or_none()
    return None if row is None else Claim(*row)


def _is_live(connection: Connection, claim: Claim) -> bool:
    return claim.expires_at > database_time(connection) and not has_ended(claim.process)


def _enter(connection: Connection, name: str, command: str, seconds: float) -> str:
    token = token_hex(8)
    since = database_time(connection)
    connection.execute(delete(claims).where(claims.c.name == name))
    connection.execute(
        insert(claims).values(
            name=name,
            token=token,
            host=host_name(),
            pid=os.getpid(),
            process=this_process(),
            command=command,
            since=since,
            expires_at=since + timedelta(seconds=seconds),
        )
    )
    return token


def _held(claim: Claim, url: str) -> StoreHeldError:
    return StoreHeldError(
        f"{url}: `{claim.command}` (process {claim.pid} on {claim.host}, since {claim.since:%Y-%m-%d %H:%M:%S} UTC) "
        "writes this store's grammar, and only one may: end it first"
    )


def lease(connection: Connection) -> Claim | None:
    """Who writes the grammar; None where nobody does."""
    claim = _claim(connection, GRAMMAR)
    return claim if claim is not None and _is_live(connection, claim) else None


def take_lease(writing: Writing, command: str, seconds: float, url: str) -> str:
    """Claims the grammar; returns the claim's token. Raises `StoreHeldError` where someone else holds it."""
    held = lease(writing.connection)
    if held is not None:
        raise _held(held, url)
    return _enter(writing.connection, GRAMMAR, command, seconds)


def renew_lease(connection: Connection, token: str, seconds: float) -> None:
    """Gives the claim so many seconds more; raises `LeaseLostError` where it is no longer there."""
    until = database_time(connection) + timedelta(seconds=seconds)
    renewed = connection.execute(
        update(claims).where(claims.c.name == GRAMMAR, claims.c.token == token).values(expires_at=until)
    )
    if not renewed.rowcount:
        raise _lost(_claim(connection, GRAMMAR))


def release_lease(connection: Connection, token: str) -> None:
    """Gives the claim up; one that is lost already is left alone."""
    connection.execute(delete(claims).where(claims.c.name == GRAMMAR, claims.c.token == token))


def check_lease(writing: Writing, token: str | None, url: str) -> None:
    """Raises `LeaseLostError` where the token's claim is gone, `StoreHeldError` where someone else's holds."""
    claim = _claim(writing.connection, GRAMMAR)
    if token is not None:
        if claim is None or claim.token != token:
            raise _lost(claim)
    elif claim is not None and _is_live(writing.connection, claim):
        raise _held(claim, url)


def _lost(claim: Claim | None) -> LeaseLostError:
    by = "" if claim is None else f" to `{claim.command}` (process {claim.pid} on {claim.host})"
    return LeaseLostError(
        f"the claim on the store's grammar is lost{by}, because it was not renewed in time: nothing was written, "
        "start anew"
    )


def claim_batch(connection: Connection, batch_id: int) -> None:
    """Notes that this process reads the batch's input."""
    _enter(connection, f"{_BATCH}{batch_id}", "ingest", _READING_SECONDS)


def renew_batch(connection: Connection, batch_id: int) -> None:
    """Notes that the batch's reader is alive."""
    until = database_time(connection) + timedelta(seconds=_READING_SECONDS)
    connection.execute(update(claims).where(claims.c.name == f"{_BATCH}{batch_id}").values(expires_at=until))


def release_batch(connection: Connection, batch_id: int) -> None:
    """Notes that nobody reads the batch's input any more."""
    connection.execute(delete(claims).where(claims.c.name == f"{_BATCH}{batch_id}"))


def close_abandoned_batches(writing: Writing) -> list[int]:
    """Closes, as failed, the batches whose readers have ended without closing them; returns their ids."""
    connection = writing.connection
    closed = []
    for row in connection.execute(select(claims).where(claims.c.name.startswith(_BATCH))).all():
        claim = Claim(*row)
        if _is_live(connection, claim):
            continue
        batch_id = int(claim.name.removeprefix(_BATCH))
        connection.execute(
            update(ingest_batches)
            .where(ingest_batches.c.id == batch_id, ingest_batches.c.state == "running")
            .values(
                state="failed",
                finished_at=now(),
                error=f"process {claim.pid} on {claim.host} ended before it was done: offer the input again",
            )
        )
        release_batch(connection, batch_id)
        closed.append(batch_id)
    return closed
