"""What has changed, for those who follow it; what was told of rules, and what was sent on."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("rule_id", sa.BigInteger),
        sa.Column("source", TEXT),
        sa.Column("target", TEXT),
        sa.Column("mean_before", sa.Double),
        sa.Column("mean_now", sa.Double),
        sa.Column("error", sa.Double),
        sa.Column("number", sa.BigInteger),
        sa.Column("detail", TEXT),
    )
    op.create_index("events_by_kind", "events", ["kind", "id"])
    op.create_table(
        "event_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.Column("kept", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="event_state_has_one_row"),
    )
    op.execute("INSERT INTO event_state (id, last_id, kept) VALUES (1, 0, 100000)")
    op.create_table(
        "told_rules",
        sa.Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("sampled_count", sa.BigInteger, nullable=False),
        sa.Column("sampled_variance", sa.BigInteger, nullable=False),
    )
    # Rules that are often used already are no news.
    op.execute(
        "INSERT INTO told_rules (rule_id, sampled_count, sampled_variance)"
        " SELECT id, sampled_count, sampled_variance FROM rules WHERE sampled_count >= 32768"
    )
    op.create_table(
        "webhooks",
        sa.Column("url", TEXT, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("url", TEXT, primary_key=True),
        sa.Column("event_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("body", TEXT, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("error", TEXT),
        sa.CheckConstraint("state IN ('waiting', 'done', 'failed')", name="webhook_deliveries_state"),
        sqlite_with_rowid=False,
    )
    op.create_index("webhook_deliveries_by_state", "webhook_deliveries", ["state", "next_at"])


def downgrade() -> None:
    for table in ("webhook_deliveries", "webhooks", "told_rules", "event_state", "events"):
        op.drop_table(table)
