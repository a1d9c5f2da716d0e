"""Runs of rejected lines are one row; a store may know its languages, and whether text is tokenised and lowercased."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_SETTINGS = {"languages": "[]", "tokenize": "false", "case": '"kept"'}

_VIEW = """CREATE VIEW rejections AS SELECT reason, origin, {number} AS number
  FROM rejected_lines
 GROUP BY reason, origin"""
_LINES = "CAST(sum(last_line - line + 1) AS BIGINT)"
_COLUMNS = "id, batch_id, origin, line, reason, message, content, digest"


def upgrade() -> None:
    op.execute("DROP VIEW rejections")
    if op.get_bind().dialect.name == "sqlite":
        _rebuild([sa.Column("last_line", sa.BigInteger, nullable=False)], ", last_line", ", line")
    else:
        op.add_column("rejected_lines", sa.Column("last_line", sa.BigInteger))
        op.execute("UPDATE rejected_lines SET last_line = line")
        op.alter_column("rejected_lines", "last_line", nullable=False)
    op.execute(_VIEW.format(number=_LINES))
    connection = op.get_bind()
    # A store that is being made has no settings yet, and gets all of its own.
    if connection.scalar(sa.text("SELECT count(*) FROM settings")):
        connection.execute(
            sa.text("INSERT INTO settings (name, value) VALUES (:name, :value)"),
            [{"name": name, "value": value} for name, value in _SETTINGS.items()],
        )


def downgrade() -> None:
    """Of lines that are one row, the first stays."""
    op.execute("DROP VIEW rejections")
    op.execute("UPDATE store_state SET rejected = (SELECT count(*) FROM rejected_lines)")
    if op.get_bind().dialect.name == "sqlite":
        _rebuild([], "", "")
    else:
        op.drop_column("rejected_lines", "last_line")
    op.execute(_VIEW.format(number="count(*)"))
    op.get_bind().execute(
        sa.text("DELETE FROM settings WHERE name IN :names").bindparams(sa.bindparam("names", expanding=True)),
        {"names": list(_SETTINGS)},
    )


def _rebuild(columns: list[sa.Column[int]], names: str, values: str) -> None:
    """SQLite cannot add a column before others, or one that has to have a value: the table is made anew."""
    op.execute("CREATE TABLE kept_rejected_lines AS SELECT * FROM rejected_lines")
    op.drop_index("rejected_lines_by_digest", "rejected_lines")
    op.drop_table("rejected_lines")
    op.create_table(
        "rejected_lines",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("batch_id", SERIAL, sa.ForeignKey("ingest_batches.id"), nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("line", sa.BigInteger, nullable=False),
        *columns,
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    op.create_index("rejected_lines_by_digest", "rejected_lines", ["digest"], unique=True)
    op.execute(
        f"INSERT INTO rejected_lines ({_COLUMNS}{names}) SELECT {_COLUMNS}{values} FROM kept_rejected_lines ORDER BY id"
    )
    op.drop_table("kept_rejected_lines")
