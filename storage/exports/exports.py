"""The list of exports, and the jobs of their schedule: plain values, a job is JSON, and nothing in it is executed."""

from dataclasses import asdict, dataclass

from sqlalchemy import delete, insert, select, text, update

from hierogram.storage.database.claims import has_ended, this_process
from hierogram.storage.database.connection import writing_connection
from hierogram.storage.database.transactions import Access, Writing, new_id, now
from hierogram.storage.events.feed import append
from hierogram.storage.exceptions import StoreError
from hierogram.storage.pairs.ingest import DONE, FAILED, RUNNING
from hierogram.storage.records import ExportRow
from hierogram.storage.records.operations import EXPORT_DONE, EXPORT_FAILED, NewEvent
from hierogram.storage.schema.tables import exports, scheduled_jobs

_TOLD = ("name", "path", "format", "job", "rules", "bytes", "sha256", "position", "error", "seconds")


def _tell(writing: Writing, export_id: int, version: str | None = None) -> None:
    """Appends the event of how an export ended."""
    wanted = select(exports.c.state, *(exports.c[name] for name in _TOLD)).where(exports.c.id == export_id)
    row = writing.connection.execute(wanted).one()
    detail = {name: value for name, value in zip(_TOLD, row[1:], strict=True) if value is not None}
    if version is not None:
        detail["version"] = version
    kind = EXPORT_DONE if row.state == DONE else EXPORT_FAILED
    append(writing, [NewEvent(kind, number=row.rules, detail={"export": export_id, **detail})])


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job: its id, when it runs next (seconds since 1970, None: never), and what it does, a JSON object."""

    id: str
    next_run: float | None
    job: str


class Exports(Access):
    """The list of exports, and the jobs of their schedule."""

    def record_export(self, name: str, path: str, format: str, job: str | None = None) -> int:
        """Records that an export has begun, as a run of a job, if any; returns its id."""
        with self._writing() as writing:
            added = writing.connection.execute(
                insert(exports).values(
                    name=name,
                    path=path,
                    format=format,
                    started_at=now(),
                    state=RUNNING,
                    job=job,
                    process=this_process(),
                )
            )
            return new_id(added)

    def finish_export(
        self,
        export_id: int,
        *,
        error: str | None = None,
        version: str | None = None,
        **columns: float | str,
    ) -> None:
        """Records how an export ended (failed if there is an `error`); raises `StoreError`.

        `columns` are rules, bytes, sha256, position, manifest and seconds, as far as they are known; `version` is the
        name of the folder of a version, for the event.
        """
        state = DONE if error is None else FAILED
        with self._writing() as writing:
            changed = writing.connection.execute(
                update(exports)
                .where(exports.c.id == export_id)
                .values(finished_at=now(), state=state, error=error, **columns)
            )
            if changed.rowcount != 1:
                raise StoreError(f"export {export_id} is not recorded: begin with record_export")
            _tell(writing, export_id, version)

    def close_abandoned_exports(self) -> list[int]:
        """Closes, as failed, the exports whose processes have ended without doing so; returns their ids."""
        with self._writing() as writing:
            closed = []
            running = select(exports.c.id, exports.c.process).where(exports.c.state == RUNNING).order_by(exports.c.id)
            for export_id, process in writing.connection.execute(running).all():
                # Exports of before this was recorded name no process; none of them can be running any more.
                if process is None or has_ended(process):
                    writing.connection.execute(
                        update(exports)
                        .where(exports.c.id == export_id)
                        .values(finished_at=now(), state=FAILED, error="its process ended before it was done")
                    )
                    closed.append(export_id)
                    _tell(writing, export_id)
            return closed

    def exports(self, limit: int = 20, job: str | None = None) -> list[ExportRow]:
        """The last exports (of a job), newest first."""
        with self._reading() as connection:
            statement = (
                select(*(exports.c[name] for name in ExportRow._fields)).order_by(exports.c.id.desc()).limit(limit)
            )
            if job is not None:
                statement = statement.where(exports.c.job == job)
            return [ExportRow._make(row) for row in connection.execute(statement)]

    def jobs(self) -> list[JobRow]:
        """Return all jobs of the schedule, by the time of their next runs; those that never run come last."""
        columns = scheduled_jobs.c
        wanted = select(columns.id, columns.next_run, columns.job).order_by(
            columns.next_run.is_(None), columns.next_run, columns.id
        )
        with self._reading() as connection:
            return [JobRow(*row) for row in connection.execute(wanted)]

    def put_job(self, row: JobRow) -> None:
        """Add a job, or put it in the place of the one with its id."""
        statement = text(
            "INSERT INTO scheduled_jobs (id, next_run, job) VALUES (:id, :next_run, :job)"
            " ON CONFLICT (id) DO UPDATE SET next_run = excluded.next_run, job = excluded.job"
        )
        with writing_connection(self.engine) as connection:
            connection.execute(statement, asdict(row))

    def postpone_job(self, row: JobRow) -> bool:
        """Set when a job runs next; return False where it is gone, or does something else by now."""
        columns = scheduled_jobs.c
        same = (columns.id == row.id) & (columns.job == row.job)
        with writing_connection(self.engine) as connection:
            changed = connection.execute(update(scheduled_jobs).where(same).values(next_run=row.next_run))
            return changed.rowcount == 1

    def remove_job(self, job_id: str) -> bool:
        """Remove a job; return False where there is none with the id."""
        with writing_connection(self.engine) as connection:
            return connection.execute(delete(scheduled_jobs).where(scheduled_jobs.c.id == job_id)).rowcount == 1
