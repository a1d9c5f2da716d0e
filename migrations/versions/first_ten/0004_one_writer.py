"""One writer at a time, pairs that can be withdrawn, and who was sampled longest ago."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "visits",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    # What was sampled before nobody noted when counts as longest ago.
    op.execute("INSERT INTO visits (pair_id, position) SELECT pair_id, 0 FROM derivations ORDER BY pair_id")
    op.create_index("visits_by_position", "visits", ["position", "pair_id"])
    op.drop_index("sentence_pairs_by_sweep", "sentence_pairs")
    op.create_table(
        "withdrawals",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("corpus_id", SERIAL, nullable=False),
        sa.Column("batch_id", SERIAL, nullable=False),
        sa.Column("requested_at", MOMENT, nullable=False),
        sa.Column("done_at", MOMENT),
    )
    pending = sa.text("done_at IS NULL")
    op.create_index("withdrawals_pending", "withdrawals", ["pair_id"], sqlite_where=pending, postgresql_where=pending)
    op.create_table(
        "claims",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("process", TEXT, nullable=False),
        sa.Column("command", TEXT, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
    )
    # A word is one of the vocabulary as long as a pair has it.
    for side in ("source", "target"):
        op.execute(
            f"UPDATE store_state SET {side}_types ="
            f" (SELECT count(*) FROM vocabulary WHERE side = '{side}' AND count > 0)"
        )


def downgrade() -> None:
    """What was withdrawn stays so; its batches' numbers of accepted pairs follow."""
    op.execute(
        "UPDATE ingest_batches SET accepted = accepted - (SELECT count(*) FROM withdrawals AS w"
        " WHERE w.batch_id = ingest_batches.id AND w.done_at IS NOT NULL)"
    )
    op.drop_table("claims")
    op.drop_table("withdrawals")
    op.drop_table("visits")
    op.create_index("sentence_pairs_by_sweep", "sentence_pairs", ["sweep", "id"])
    for side in ("source", "target"):
        op.execute(f"UPDATE store_state SET {side}_types = (SELECT count(*) FROM vocabulary WHERE side = '{side}')")
