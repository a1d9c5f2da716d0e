"""The first schema: tables, indexes and views as the code declares them, and the rows that every store has.

Until the first release a change of `storage/schema/` is a change of this migration.
"""

import sqlalchemy as sa
from alembic import op

from hierogram.storage.schema.tables import BLOCK_BITS, metadata
from hierogram.storage.schema.views import DAY, VIEWS, comments

revision = "0001"
down_revision = None

_RULES = 1 << 20


def upgrade() -> None:
    connection = op.get_bind()
    dialect = connection.dialect.name
    metadata.create_all(connection, checkfirst=False)
    op.execute("INSERT INTO event_state (id, last_event_id, max_events) VALUES (1, 0, 100000)")
    if dialect == "sqlite":
        _estimate_rules(connection)
    else:
        # Random bytes, which Postgres would try to compress.
        op.execute("ALTER TABLE rule_key_runs ALTER COLUMN content SET STORAGE EXTERNAL")
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query.strip().replace('{day}', DAY[dialect])}")
    if dialect != "sqlite":
        for statement in comments():
            op.execute(statement)


def _estimate_rules(connection: sa.Connection) -> None:
    """Write the statistics that ANALYZE would find in a large store, without which SQLite scans all rules for a side.

    Per index: rules, rules of a block, rules of a block with the same side.
    """
    connection.exec_driver_sql("ANALYZE sqlite_master")
    connection.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE tbl = 'rules'")
    for side in ("source", "target"):
        connection.exec_driver_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('rules', ?, ?)",
            (f"rules_by_{side}", f"{_RULES} {1 << BLOCK_BITS} 4"),
        )
    # Make the connection read them.
    connection.exec_driver_sql("ANALYZE sqlite_master")
