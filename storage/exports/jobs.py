"""The jobs of the schedule, as plain values: what a job does is JSON, and nothing in it is executed."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Engine, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

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
        """All jobs, by the time of their next runs; those that never run come last."""
        return self._find()

    def due(self, until: float) -> list[JobRow]:
        """The jobs that run next at `until` (seconds since 1970) or before, in the order of these times."""
        return self._find(scheduled_jobs.c.next_run <= until)

    def find(self, job_id: str) -> JobRow | None:
        """The job with the id, None if there is none."""
        return next(iter(self._find(scheduled_jobs.c.id == job_id)), None)

    def _find(self, *conditions: ColumnElement[bool]) -> list[JobRow]:
        columns = scheduled_jobs.c
        wanted = (
            select(columns.id, columns.next_run, columns.job)
            .where(*conditions)
            .order_by(columns.next_run.is_(None), columns.next_run, columns.id)
        )
        with reading(self._engine) as connection:
            return [JobRow(*row) for row in connection.execute(wanted)]

    def next_run(self) -> float | None:
        """When a job runs next, in seconds since 1970; None where none does."""
        with reading(self._engine) as connection:
            next_run: float | None = connection.scalar(select(func.min(scheduled_jobs.c.next_run)))
            return next_run

    def add(self, row: JobRow) -> bool:
        """Adds a job; False where there is one with the id."""
        with writing_connection(self._engine) as connection:
            try:
                with connection.begin_nested():
                    connection.execute(insert(scheduled_jobs).values(id=row.id, next_run=row.next_run, job=row.job))
            except IntegrityError:
                return False
        return True

    def change(self, row: JobRow) -> bool:
        """Puts the job in the place of the one with its id; False where there is none."""
        values = {"next_run": row.next_run, "job": row.job}
        with writing_connection(self._engine) as connection:
            changed = connection.execute(update(scheduled_jobs).where(scheduled_jobs.c.id == row.id).values(values))
            return changed.rowcount == 1

    def suspend(self, ids: Sequence[str]) -> None:
        """Has the jobs never run, until they are changed."""
        with writing_connection(self._engine) as connection:
            connection.execute(update(scheduled_jobs).where(scheduled_jobs.c.id.in_(ids)).values(next_run=None))

    def remove(self, job_id: str) -> bool:
        """Removes a job; False where there is none with the id."""
        with writing_connection(self._engine) as connection:
            return connection.execute(delete(scheduled_jobs).where(scheduled_jobs.c.id == job_id)).rowcount == 1

    def clear(self) -> None:
        """Removes all jobs."""
        with writing_connection(self._engine) as connection:
            connection.execute(delete(scheduled_jobs))
