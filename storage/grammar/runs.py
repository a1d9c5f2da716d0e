"""Progress of learning runs, for resuming an interrupted run; and restarts of pairs' schedules."""

from sqlalchemy import func, insert, select, text, update

from hierogram.storage.database.leases import Leases
from hierogram.storage.database.transactions import WriteTransaction, new_id, now
from hierogram.storage.records import LearningRun
from hierogram.storage.schema.tables import learning_runs

_COLUMNS = [learning_runs.c[name] for name in LearningRun._fields]


class LearningRuns(Leases):
    """Learning runs and their progress."""

    def unfinished_run(self) -> LearningRun | None:
        """Return the last learning run, or None if it was finished with `finish_run`."""
        with self._reading() as connection:
            row = connection.execute(
                select(*_COLUMNS, learning_runs.c.finished_at).order_by(learning_runs.c.id.desc()).limit(1)
            ).one_or_none()
            return None if row is None or row.finished_at is not None else LearningRun._make(row[:-1])

    def begin_run(self, sweeps: int) -> LearningRun:
        """Start a learning run. Raises `StoreHeldError` and `LeaseLostError` like `commit`."""
        with self._committing() as transaction:
            added = transaction.connection.execute(
                insert(learning_runs).values(
                    sweeps=sweeps, sweeps_done=0, after_pair_id=0, sweeps_in_round=0, started_at=now()
                )
            )
            return LearningRun(new_id(added), sweeps)

    def save_run(self, run: LearningRun) -> None:
        """Save the progress of a run. Raises `StoreHeldError` and `LeaseLostError` like `commit`."""
        with self._committing(durable=False) as transaction:
            save_run(transaction, run)

    def finish_run(self) -> None:
        """Mark the last learning run as finished, after its end was reported to the caller."""
        with self._writing() as transaction:
            last = select(func.max(learning_runs.c.id)).scalar_subquery()
            transaction.connection.execute(
                update(learning_runs)
                .where(learning_runs.c.id == last, learning_runs.c.finished_at.is_(None))
                .values(finished_at=now())
            )


def save_run(transaction: WriteTransaction, run: LearningRun) -> None:
    """Save the progress of a run."""
    values = run._asdict()
    transaction.connection.execute(update(learning_runs).where(learning_runs.c.id == values.pop("id")).values(values))


def count_restarts(transaction: WriteTransaction) -> None:
    """Count a schedule restart for each pair of `staged_ids`."""
    transaction.connection.execute(
        text(
            "INSERT INTO schedule_restarts (pair_id, restarts) SELECT id, 1 FROM staged_ids WHERE true"
            " ON CONFLICT (pair_id) DO UPDATE SET restarts = schedule_restarts.restarts + 1"
        )
    )
