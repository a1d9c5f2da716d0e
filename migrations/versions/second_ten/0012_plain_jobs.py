"""Jobs of the schedule are JSON. APScheduler's own job store pickled them, and reading a pickle runs what is in it."""

import json
import logging
import pickle
from io import BytesIO
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

_log = logging.getLogger(__name__)

_KNOWN = ("apscheduler.triggers.", "datetime.", "zoneinfo.", "pytz.")
"""What a job's trigger and its next run are made of; of these, nothing is needed."""
_MOST_BYTES = 1 << 20
_PLAIN = (str, int, float, bool, type(None))


class _Nothing:
    """Stands for whatever a pickle names: made of anything, it does nothing and knows nothing."""

    def __new__(cls, *_: object, **__: object) -> "_Nothing":
        return super().__new__(cls)

    def __setstate__(self, _state: object) -> None:
        pass


class _Reader(pickle._Unpickler):
    """Reads the plain values of a pickle; it imports and calls nothing that the pickle names.

    It is the one in Python, since that in C takes as much memory as the pickle says.
    """

    def find_class(self, module: str, name: str) -> type[_Nothing]:
        if not f"{module}.{name}".startswith(_KNOWN):
            raise ValueError(f"it names {module}.{name}")
        return _Nothing

    def persistent_load(self, _id: object) -> object:
        raise ValueError("it refers to something outside")


def described(pickled: bytes) -> dict[str, Any]:
    """What a job does, of APScheduler's pickle of it; raises `ValueError` where it is no job of ours."""
    if len(pickled) > _MOST_BYTES:
        raise ValueError("it is too large")
    try:
        state = _Reader(BytesIO(pickled)).load()
        job = state["kwargs"]["described"]
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error
    if not isinstance(job, dict) or not all(type(name) is str and _is_plain(value) for name, value in job.items()):
        raise ValueError("what it does is not written in plain values")
    if sum(len(name) + _size(value) for name, value in job.items()) > _MOST_BYTES:
        raise ValueError("it is too large")
    return job


def _is_plain(value: object) -> bool:
    if type(value) is list:
        return all(type(part) in _PLAIN for part in value)
    return type(value) in _PLAIN


def _size(value: Any) -> int:
    """Characters, about; a pickle may hold one text as often as it likes."""
    if type(value) is list:
        return sum(map(_size, value))
    return len(value) if type(value) is str else 8


def upgrade() -> None:
    jobs = op.create_table(
        "scheduled_jobs",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("next_run", sa.Double),
        sa.Column("job", TEXT, nullable=False),
    )
    op.create_index("scheduled_jobs_by_next_run", "scheduled_jobs", ["next_run"])
    bind = op.get_bind()
    before = bind.execute(sa.text("SELECT id, next_run_time, job_state FROM apscheduler_jobs ORDER BY id")).all()
    for name, next_run, pickled in before:
        try:
            job = described(bytes(pickled))
        except ValueError as error:
            _log.warning(
                "the job %r of the schedule cannot be read and is left out (%s): add it again with "
                "`hierogram schedule add`",
                name,
                error,
            )
            continue
        bind.execute(jobs.insert().values(id=name, next_run=next_run, job=json.dumps(job)))
    op.drop_table("apscheduler_jobs")


def downgrade() -> None:
    # The jobs themselves are left out: nothing here makes pickles.
    op.drop_table("scheduled_jobs")
    op.create_table(
        "apscheduler_jobs",
        sa.Column("id", sa.Unicode(191), primary_key=True),
        sa.Column("next_run_time", sa.Float(25)),
        sa.Column("job_state", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_apscheduler_jobs_next_run_time", "apscheduler_jobs", ["next_run_time"])
