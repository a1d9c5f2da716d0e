"""Leases of the process that writes the grammar, and of the processes that read inputs.

A lease expires by the database's clock, or at once if its process is known to have ended.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from hierogram.storage.database.connection import POSTGRES, writing_connection
from hierogram.storage.database.transactions import StoreAccess, WriteTransaction, now
from hierogram.storage.exceptions import LeaseLostError, StoreHeldError
from hierogram.storage.records.operations import Lease
from hierogram.storage.schema.tables import ingest_batches, leases

GRAMMAR = "grammar"
_BATCH = "batch "
"""Prefix of the name of a batch's lease. The id of the batch follows."""
_READING_SECONDS = 3600.0
"""Seconds without stored pairs after which the process that reads an input is considered dead."""
_UNKNOWN = "?"


class Leases(StoreAccess):
    """Lease on the grammar: while a store object holds it, only this object may write the grammar."""

    def take_lease(self, command: str, seconds: float) -> None:
        """Take the lease for this store object for `seconds`. Raises `StoreHeldError` if the lease is held."""
        with self._writing() as transaction:
            holder = _live_lease(transaction.connection)
            if holder is not None:
                raise _held_error(holder, self.url)
            token = _insert_lease(transaction.connection, GRAMMAR, command, seconds)
        self._lease = token

    def renew_lease(self, seconds: float) -> None:
        """Extend the lease, if taken, to `seconds` from now. Raises `LeaseLostError` if the lease was lost."""
        if self._lease is None:
            return
        with writing_connection(self.engine) as connection:
            if not _renew(connection, (leases.c.name == GRAMMAR) & (leases.c.token == self._lease), seconds):
                raise _lost_error(_stored_lease(connection))

    def release_lease(self) -> None:
        """Release the lease. Does nothing if this object has not taken the lease, or has lost it."""
        token, self._lease = self._lease, None
        if token is not None:
            with writing_connection(self.engine) as connection:
                connection.execute(delete(leases).where(leases.c.name == GRAMMAR, leases.c.token == token))

    def lease(self) -> Lease | None:
        """Return the current lease on the grammar, or None if no process holds the lease."""
        with self._reading() as connection:
            return _live_lease(connection)

    def check_lease(self) -> None:
        """Raise `StoreHeldError` if a process, including this process, holds the lease."""
        holder = self.lease()
        if holder is not None:
            raise _held_error(holder, self.url)

    def close_abandoned_batches(self) -> list[int]:
        """Mark running batches as failed if their process ended or was idle for an hour. Returns their ids."""
        closed = []
        with self._writing() as transaction:
            connection = transaction.connection
            for row in connection.execute(select(leases).where(leases.c.name.startswith(_BATCH))).all():
                lease = Lease(*row)
                if _is_live(connection, lease):
                    continue
                batch_id = int(lease.name.removeprefix(_BATCH))
                holder = f"process {lease.pid} on {lease.host}"
                close_batch(connection, batch_id, f"{holder} died before the end of the input: ingest the input again")
                closed.append(batch_id)
        return closed

    @contextmanager
    def _committing(self, *, durable: bool = True) -> Iterator[WriteTransaction]:
        """Open a transaction that writes the grammar. Raises `StoreHeldError` and `LeaseLostError`."""
        with self._writing(durable=durable) as transaction:
            lease = _stored_lease(transaction.connection)
            if self._lease is not None:
                if lease is None or lease.token != self._lease:
                    raise _lost_error(lease)
            elif lease is not None and _is_live(transaction.connection, lease):
                raise _held_error(lease, self.url)
            transaction.changes_grammar = True
            yield transaction


def _machine() -> str:
    """Return an identifier of this machine, boot and container, within which process ids are unique."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pid_namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return _UNKNOWN
    return f"{boot}/{pid_namespace}"


def _start_ticks(pid: int) -> str | None:
    """Return the start time of a process in kernel ticks, or None if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # Split after the last parenthesis, because the process name in parentheses may contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def process_identity() -> str:
    """Return this process's identifier for `has_ended`, with its start time, because ids are reused."""
    return f"{_machine()} {os.getpid()} {_start_ticks(os.getpid())}"


def has_ended(process: str) -> bool:
    """Check if the process is known to have ended. Always False for a process of another machine."""
    machine, _, pid_and_ticks = process.partition(" ")
    pid, _, started = pid_and_ticks.partition(" ")
    if machine == _UNKNOWN or machine != _machine() or not pid.isdigit():
        return False
    return _start_ticks(int(pid)) != started


def database_time(connection: Connection) -> datetime:
    """Return the database's time in UTC. For SQLite, this is the time of this machine."""
    if connection.dialect.name == POSTGRES:
        time: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return time.replace(microsecond=0)
    return now()


def _stored_lease(connection: Connection) -> Lease | None:
    row = connection.execute(select(leases).where(leases.c.name == GRAMMAR)).one_or_none()
    return None if row is None else Lease(*row)


def _is_live(connection: Connection, lease: Lease) -> bool:
    return lease.expires_at > database_time(connection) and not has_ended(lease.process)


def _insert_lease(connection: Connection, name: str, command: str, seconds: float) -> str:
    acquired_at = database_time(connection)
    expires_at = acquired_at + timedelta(seconds=seconds)
    holder = (token_hex(8), socket.gethostname(), os.getpid(), process_identity(), command)
    lease = Lease(name, *holder, acquired_at, expires_at)
    connection.execute(delete(leases).where(leases.c.name == name))
    connection.execute(insert(leases).values(lease._asdict()))
    return lease.token


def _renew(connection: Connection, is_lease: ColumnElement[bool], seconds: float) -> bool:
    expires_at = database_time(connection) + timedelta(seconds=seconds)
    return connection.execute(update(leases).where(is_lease).values(expires_at=expires_at)).rowcount == 1


def _held_error(lease: Lease, url: str) -> StoreHeldError:
    return StoreHeldError(
        f"{url}: the grammar is being written by `{lease.command}` (process {lease.pid} on {lease.host}, since "
        f"{lease.acquired_at:%Y-%m-%d %H:%M:%S} UTC): stop that process first"
    )


def _live_lease(connection: Connection) -> Lease | None:
    lease = _stored_lease(connection)
    return lease if lease is not None and _is_live(connection, lease) else None


def _lost_error(lease: Lease | None) -> LeaseLostError:
    by = "" if lease is None else f" to `{lease.command}` (process {lease.pid} on {lease.host})"
    return LeaseLostError(
        f"lost the lease on the grammar{by}, because it was not renewed in time: run the command again, earlier "
        "commits are stored"
    )


def lease_batch(connection: Connection, batch_id: int) -> None:
    """Record that this process reads the input of the batch, by a lease on the batch."""
    _insert_lease(connection, f"{_BATCH}{batch_id}", "ingest", _READING_SECONDS)


def renew_batch(connection: Connection, batch_id: int) -> None:
    """Extend the lease on the batch, because its reader made progress."""
    _renew(connection, leases.c.name == f"{_BATCH}{batch_id}", _READING_SECONDS)


def close_batch(connection: Connection, batch_id: int, error: str | None, notes: str | None = None) -> None:
    """Mark a running batch as done, or as failed if `error` is given, and release its lease."""
    values = {"state": "done" if error is None else "failed", "finished_at": now(), "error": error, "notes": notes}
    is_running = (ingest_batches.c.id == batch_id) & (ingest_batches.c.state == "running")
    connection.execute(update(ingest_batches).where(is_running).values(values))
    connection.execute(delete(leases).where(leases.c.name == f"{_BATCH}{batch_id}"))
