"""Records of exports, and jobs of the export schedule. Jobs are stored as JSON and contain no code."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import Connection, delete, insert, select, text, update

from hierogram.storage.database.connection import reading_snapshot, writing_connection
from hierogram.storage.database.leases import has_ended, process_identity
from hierogram.storage.database.transactions import StoreAccess, WriteTransaction, new_id, now, read_state, upsert
from hierogram.storage.events.feed import append
from hierogram.storage.exceptions import StoreError
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.pairs.ingest import DONE, FAILED, RUNNING
from hierogram.storage.records.operations import EXPORT_DONE, EXPORT_FAILED, NewEvent
from hierogram.storage.schema.tables import MOMENT, exports, scheduled_jobs

_IN_EVENT = (
    "name", "path", "format", "job", "rules", "bytes", "sha256", "position", "last_event_id", "error", "seconds",
)  # fmt: skip


def _finish(
    transaction: WriteTransaction, export_id: int, error: str | None, version: str | None = None, **columns: float | str
) -> None:
    state, kind = (DONE, EXPORT_DONE) if error is None else (FAILED, EXPORT_FAILED)
    is_export = exports.c.id == export_id
    changed = transaction.connection.execute(
        update(exports).where(is_export).values(finished_at=now(), state=state, error=error, **columns)
    )
    if changed.rowcount != 1:
        raise StoreError(f"export {export_id} not found: call record_export first")
    row = transaction.connection.execute(select(*(exports.c[name] for name in _IN_EVENT)).where(is_export)).one()
    values = {"export": export_id, **row._mapping, "version": version}
    detail = {name: value for name, value in values.items() if value is not None}
    append(transaction, [NewEvent(kind, count=row.rules, detail=detail)])


class JobRow(NamedTuple):
    """Scheduled export job. `configured` is True if the configuration declares the job.

    `job` contains the options as JSON. `next_run` is None if no run is planned. `unchanged_at` is the last time that
    the job found nothing new. Both are in seconds since 1970. `state`, `started_at` and `error` describe the last run.
    `succeeded_at`, `seconds`, `rules`, `bytes` and `path` describe the last run that wrote a version. They are None
    before the first such run. `failures` is the number of failed runs.
    """

    name: str
    job: str
    next_run: float | None = None
    configured: bool = False
    unchanged_at: float | None = None
    state: Literal["running", "done", "failed"] | None = None
    started_at: datetime | None = None
    error: str | None = None
    succeeded_at: datetime | None = None
    seconds: float | None = None
    rules: int | None = None
    bytes: int | None = None
    path: str | None = None
    failures: int = 0


JOBS = """SELECT j.name, j.job, j.next_run, j.configured, j.unchanged_at,
       last.state, last.started_at, last.error,
       done.finished_at AS succeeded_at, done.seconds, done.rules, done.bytes, done.path,
       (SELECT count(*) FROM exports AS x WHERE x.job = j.name AND x.state = 'failed') AS failures
  FROM scheduled_jobs AS j
  LEFT JOIN exports AS last ON last.id = (SELECT max(x.id) FROM exports AS x WHERE x.job = j.name)
  LEFT JOIN exports AS done
    ON done.id = (SELECT max(x.id) FROM exports AS x WHERE x.job = j.name AND x.state = 'done')
 ORDER BY j.next_run IS NULL, j.next_run, j.name"""
"""Query of all scheduled jobs, with the fields of `JobRow` in order."""


def read_jobs(connection: Connection) -> list[JobRow]:
    """Return all scheduled jobs, ordered by next run, then name. Jobs without a next run are last."""
    columns = {"started_at": MOMENT, "succeeded_at": MOMENT, "configured": scheduled_jobs.c.configured.type}
    return [JobRow._make(row) for row in connection.execute(text(JOBS).columns(**columns))]


class Exports(StoreAccess):
    """Exports, the snapshots that they read, and scheduled export jobs."""

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Open a consistent snapshot for reading. Other processes may write while it is open."""
        with reading_snapshot(self.engine) as connection:
            yield Snapshot(connection)

    def record_export(self, name: str, path: str, format: str, job: str | None = None) -> int:
        """Record the start of an export, optionally as a run of a job. Returns the export's id."""
        with self._writing() as transaction:
            values = {"name": name, "path": path, "format": format, "state": RUNNING, "job": job}
            statement = insert(exports).values(**values, started_at=now(), process=process_identity())
            return new_id(transaction.connection.execute(statement))

    def finish_export(
        self, export_id: int, *, error: str | None = None, version: str | None = None, **columns: float | str
    ) -> None:
        """Record the end of an export, failed if `error` is given. Raises `StoreError` if it is unknown.

        `columns` are any of path, rules, bytes, sha256, position, last_event_id, manifest and seconds. `version` is the
        name of the version's folder, for the event.
        """
        with self._writing() as transaction:
            _finish(transaction, export_id, error, version, **columns)

    def close_abandoned_exports(self) -> list[int]:
        """Mark running exports as failed if their process has ended. Returns the ids of these exports."""
        with self._writing() as transaction:
            closed = []
            running = select(exports.c.id, exports.c.process).where(exports.c.state == RUNNING).order_by(exports.c.id)
            for export_id, process in transaction.connection.execute(running).all():
                if process is None or has_ended(process):
                    _finish(transaction, export_id, "the process died before the export was finished")
                    closed.append(export_id)
            return closed

    def last_version(self, job: str) -> tuple[str, str | None] | None:
        """Return the path and the manifest (JSON) of the last successful export of a job, or None."""
        query = select(exports.c.path, exports.c.manifest).where(exports.c.job == job, exports.c.state == DONE)
        with self._reading() as connection:
            row = connection.execute(query.order_by(exports.c.id.desc()).limit(1)).one_or_none()
            return None if row is None else (row.path, row.manifest)

    def grammar_position(self) -> int:
        """Return the store position of the last transaction that changed pairs or the grammar."""
        with self._reading() as connection:
            return read_state(connection).grammar_position

    def jobs(self) -> list[JobRow]:
        """Return all scheduled jobs, see `read_jobs`."""
        with self._reading() as connection:
            return read_jobs(connection)

    def put_job(self, row: JobRow) -> None:
        """Add a job, or replace the job with the same name. The fields about runs are ignored."""
        values = "VALUES (:name, :configured, :next_run, :unchanged_at, :job)"
        with writing_connection(self.engine) as connection:
            connection.execute(text(upsert(scheduled_jobs, values)), row._asdict())

    def set_next_run(self, row: JobRow, next_run: float | None) -> bool:
        """Set the next run of a job. Returns False if the job was removed, or `job` or `next_run` has changed."""
        columns = scheduled_jobs.c
        is_unchanged = (columns.name == row.name) & (columns.job == row.job) & (columns.next_run == row.next_run)
        with writing_connection(self.engine) as connection:
            changed = connection.execute(update(scheduled_jobs).where(is_unchanged).values(next_run=next_run))
            return changed.rowcount == 1

    def record_unchanged(self, name: str, time: float) -> None:
        """Record that a job found nothing new to export at a time, in seconds since 1970."""
        with writing_connection(self.engine) as connection:
            connection.execute(update(scheduled_jobs).where(scheduled_jobs.c.name == name).values(unchanged_at=time))

    def remove_job(self, name: str) -> bool:
        """Remove a job. Returns False if it does not exist."""
        with writing_connection(self.engine) as connection:
            return connection.execute(delete(scheduled_jobs).where(scheduled_jobs.c.name == name)).rowcount == 1
