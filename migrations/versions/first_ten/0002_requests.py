"""Requests that clients may repeat under the same key."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "requests",
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("corpus", TEXT, nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
        sa.Column("answer", TEXT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("touched_at", MOMENT, nullable=False),
    )
    op.create_index("requests_by_touch", "requests", ["touched_at"])


def downgrade() -> None:
    op.drop_table("requests")
