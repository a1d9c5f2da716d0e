"""Exports on a schedule: whose run an export is, which process writes it, how long it took; and APScheduler's jobs."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

_COLUMNS = "id, name, path, format, started_at, finished_at, state, rules, bytes, sha256, position, error, manifest"


def _more() -> list[sa.Column[Any]]:
    return [sa.Column("job", TEXT), sa.Column("process", TEXT), sa.Column("seconds", sa.Double)]


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _rebuild(_more())
    else:
        for column in _more():
            op.add_column("exports", column)
    running = sa.text("state = 'running'")
    op.create_index("exports_running", "exports", ["id"], sqlite_where=running, postgresql_where=running)
    op.create_table(
        "apscheduler_jobs",
        sa.Column("id", sa.Unicode(191), primary_key=True),
        sa.Column("next_run_time", sa.Float(25)),
        sa.Column("job_state", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_apscheduler_jobs_next_run_time", "apscheduler_jobs", ["next_run_time"])


def downgrade() -> None:
    op.drop_table("apscheduler_jobs")
    op.drop_index("exports_running", "exports")
    if op.get_bind().dialect.name == "sqlite":
        _rebuild([])
    else:
        for column in reversed(_more()):
            op.drop_column("exports", column.name)


def _rebuild(more: list[sa.Column[Any]]) -> None:
    """SQLite writes a column that is added behind the table's checks; so the table is made anew."""
    op.rename_table("exports", "exports_before")
    op.create_table(
        "exports",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("format", TEXT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("rules", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("sha256", TEXT),
        sa.Column("position", sa.BigInteger),
        sa.Column("error", TEXT),
        sa.Column("manifest", TEXT),
        *more,
        sa.CheckConstraint("state IN ('running', 'done', 'failed')", name="exports_state"),
    )
    op.execute(f"INSERT INTO exports ({_COLUMNS}) SELECT {_COLUMNS} FROM exports_before ORDER BY id")
    op.drop_table("exports_before")
