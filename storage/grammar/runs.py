"""Runs of learning: how far each has come, so that one that was interrupted is continued and not begun again; and which
pairs have begun their schedule again.
"""

from sqlalchemy import func, insert, select, text, update

from hierogram.storage.database.claims import Leases
from hierogram.storage.database.transactions import Writing, new_id, now
from hierogram.storage.records import LearningRun
from hierogram.storage.schema.tables import learning_runs

_COLUMNS = [learning_runs.c[name] for name in LearningRun._fields]


class LearningRuns(Leases):
    """Runs of learning, of which the last may have been interrupted."""

    def unfinished_run(self) -> LearningRun | None:
        """The last run of learning, where `finish_run` has not come after it."""
        with self._reading() as connection:
            row = connection.execute(
                select(*_COLUMNS, learning_runs.c.finished_at).order_by(learning_runs.c.id.desc()).limit(1)
            ).one_or_none()
            return None if row is None or row.finished_at is not None else LearningRun._make(row[:-1])

    def begin_run(self, sweeps: int) -> LearningRun:
        """Enters a new run of learning; raises `StoreHeldError` and `LeaseLostError` as `commit` does."""
        with self._committing() as writing:
            added = writing.connection.execute(
                insert(learning_runs).values(sweeps=sweeps, done=0, after_id=0, within=0, started_at=now())
            )
            return LearningRun(new_id(added), sweeps)

    def save_run(self, run: LearningRun) -> None:
        """Write how far a run has come; raises as `commit` does."""
        with self._committing(durable=False) as transaction:
            save_run(transaction, run)

    def finish_run(self) -> None:
        """Write that whoever asked for the last run of learning knows that it has come to its end."""
        with self._writing() as writing:
            last = select(func.max(learning_runs.c.id)).scalar_subquery()
            writing.connection.execute(
                update(learning_runs)
                .where(learning_runs.c.id == last, learning_runs.c.finished_at.is_(None))
                .values(finished_at=now())
            )


def save_run(writing: Writing, run: LearningRun) -> None:
    """Write how far a run has come."""
    values = run._asdict()
    writing.connection.execute(update(learning_runs).where(learning_runs.c.id == values.pop("id")).values(values))


def count_restarts(writing: Writing) -> None:
    """Count that the pairs of `staged_ids` have begun their schedule again."""
    writing.connection.execute(
        text(
            "INSERT INTO restarts (pair_id, number) SELECT id, 1 FROM staged_ids WHERE true"
            " ON CONFLICT (pair_id) DO UPDATE SET number = restarts.number + 1"
        )
    )
