"""How far runs of `hierogram learn` have come, and which pairs have begun their schedule anew."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "learning_runs",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("sweeps", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("after_id", SERIAL, nullable=False),
        sa.Column("within", sa.BigInteger, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
    )
    op.create_table(
        "restarts",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("restarts")
    op.drop_table("learning_runs")
