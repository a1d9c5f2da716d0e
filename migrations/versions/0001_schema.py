"""First schema: the tables, indexes and views of `storage/schema/`, and the initial rows.

Until the first release, this is the only migration. It creates the current state of `storage/schema/`.
"""

import sqlalchemy as sa
from alembic import op

from hierogram.storage.schema.tables import BLOCK_BITS, metadata
from hierogram.storage.schema.views import DAY, VIEWS, comments

revision = "0001"
down_revision = None

_ASSUMED_RULES = 1 << 20


def upgrade() -> None:
    connection = op.get_bind()
    dialect = connection.dialect.name
    metadata.create_all(connection, checkfirst=False)
    op.execute("INSERT INTO event_state (id, last_event_id, max_events) VALUES (1, 0, 100000)")
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query.strip().replace('{day}', DAY[dialect])}")
    if dialect == "sqlite":
        _estimate_rules(connection)
    else:
        # Do not compress the content, because its bytes are random.
        op.execute("ALTER TABLE rule_key_runs ALTER COLUMN content SET STORAGE EXTERNAL")
        for statement in comments():
            op.execute(statement)


def _estimate_rules(connection: sa.Connection) -> None:
    """Write the index statistics of a large store. Without them, SQLite scans all rules to find a side."""
    connection.exec_driver_sql("ANALYZE sqlite_master")
    connection.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE tbl = 'rules'")
    for side in ("source", "target"):
        connection.exec_driver_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('rules', ?, ?)",
            (f"rules_by_{side}", f"{_ASSUMED_RULES} {1 << BLOCK_BITS} 4"),
        )
    # Make this connection load the new statistics.
    connection.exec_driver_sql("ANALYZE sqlite_master")
