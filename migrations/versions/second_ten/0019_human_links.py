"""Links that people fix or forbid, and which pairs have such."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "human_links",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("source", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("target", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("fixed", sa.Boolean, nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("added_at", MOMENT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "corrections",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("given", TEXT),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    pending = sa.text("done < asked")
    op.create_index("corrections_pending", "corrections", ["pair_id"], sqlite_where=pending, postgresql_where=pending)
    op.create_index("corrections_by_text", "corrections", ["digest"])


def downgrade() -> None:
    op.drop_table("corrections")
    op.drop_table("human_links")
