"""Tables of exports: those that were made, and what is to be made when."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Index, Table

from hierogram.storage.schema.postgres_options import on_postgres
from hierogram.storage.schema.types import MOMENT, SERIAL, TEXT, metadata

exports = Table(
    "exports",
    metadata,
    Column("id", SERIAL, primary_key=True),
    Column("name", TEXT, nullable=False),
    Column("path", TEXT, nullable=False),
    Column("format", TEXT, nullable=False),
    Column("started_at", MOMENT, nullable=False),
    Column("finished_at", MOMENT),
    Column("state", TEXT, nullable=False),
    Column("rules", BigInteger),
    Column("bytes", BigInteger),
    Column("sha256", TEXT),
    Column("position", BigInteger),
    Column("error", TEXT),
    Column("manifest", TEXT),
    Column("job", TEXT),
    Column("process", TEXT),
    Column("seconds", Double),
    CheckConstraint("state IN ('running', 'done', 'failed')", name="exports_state"),
)
on_postgres(
    Index(
        "exports_running",
        exports.c.id,
        sqlite_where=exports.c.state == "running",
    ),
    "where",
    exports.c.state == "running",
)

# What is exported when: `job` is a JSON object, `next_run` in seconds since 1970.
scheduled_jobs = Table(
    "scheduled_jobs",
    metadata,
    Column("id", TEXT, primary_key=True),
    Column("next_run", Double),
    Column("job", TEXT, nullable=False),
)
