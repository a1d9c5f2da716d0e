"""Tables of what has changed, for those who follow it."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Index, Integer, Table

from hierogram.storage.schema.types import MOMENT, SERIAL, TEXT, metadata

# What changed, in the order in which it was committed; the oldest go when there are more than `event_state` says.
events = Table(
    "events",
    metadata,
    Column("id", SERIAL, primary_key=True, autoincrement=False),
    Column("at", MOMENT, nullable=False),
    Column("kind", TEXT, nullable=False),
    Column("rule_id", BigInteger),
    Column("source", TEXT),
    Column("target", TEXT),
    Column("mean_before", Double),
    Column("mean_now", Double),
    Column("error", Double),
    Column("number", BigInteger),
    Column("detail", TEXT),
    Index("events_by_kind", "kind", "id"),
)

# One row: the id of the last event, and how many events are kept.
event_state = Table(
    "event_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("last_id", BigInteger, nullable=False),
    Column("kept", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="event_state_has_one_row"),
)

# What was told last of the rules that are often used: expected uses and the variance of their error, as in `rules`.
told_rules = Table(
    "told_rules",
    metadata,
    Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
    Column("sampled_count", BigInteger, nullable=False),
    Column("sampled_variance", BigInteger, nullable=False),
)

# To whom the daemon sends events, up to which it has looked at them, and each event that was to be sent.
webhooks = Table(
    "webhooks",
    metadata,
    Column("url", TEXT, primary_key=True),
    Column("position", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("url", TEXT, primary_key=True),
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("state", TEXT, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("body", TEXT, nullable=False),
    Column("status", Integer),
    Column("error", TEXT),
    CheckConstraint("state IN ('waiting', 'done', 'failed')", name="webhook_deliveries_state"),
    Index("webhook_deliveries_by_state", "state", "next_at"),
    sqlite_with_rowid=False,
)
