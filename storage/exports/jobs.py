"""The jobs of the schedule, as plain values: what a job does is JSON, and nothing in it is executed."""

from dataclasses import asdict, dataclass

from sqlalchemy import Engine, delete, select, text, update

from hierogram.storage.database.connection import reading, writing_connection
from hierogram.storage.schema.tables import scheduled_jobs


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job: its id, when it runs next (seconds since 1970, None: never), and what it does, a JSON object."""

    id: str
    next_run: float | None
    job: str


class Jobs:
    """The table of jobs; every method is a transaction of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[JobRow]:
        """Returns all jobs, by the time of their next runs; those that never run come last."""
        columns = scheduled_jobs.c
        wanted = select(columns.id, columns.next_run, columns.job).order_by(
            columns.next_run.is_(None), columns.next_run, columns.id
        )
        with reading(self._engine) as connection:
            return [JobRow(*row) for row in connection.execute(wanted)]

    def put(self, row: JobRow) -> None:
        """Adds a job, or puts it in the place of the one with its id."""
        statement = text(
            "INSERT INTO scheduled_jobs (id, next_run, job) VALUES (:id, :next_run, :job)"
            " ON CONFLICT (id) DO UPDATE SET next_run = excluded.next_run, job = excluded.job"
        )
        with writing_connection(self._engine) as connection:
            connection.execute(statement, asdict(row))

    def postpone(self, row: JobRow) -> bool:
        """Sets when a job runs next; returns False where it is gone, or does something else by now."""
        columns = scheduled_jobs.c
        same = (columns.id == row.id) & (columns.job == row.job)
        with writing_connection(self._engine) as connection:
            changed = connection.execute(update(scheduled_jobs).where(same).values(next_run=row.next_run))
            return changed.rowcount == 1

    def remove(self, job_id: str) -> bool:
        """Removes a job; returns False where there is none with the id."""
        with writing_connection(self._engine) as connection:
            return connection.execute(delete(scheduled_jobs).where(scheduled_jobs.c.id == job_id)).rowcount == 1
