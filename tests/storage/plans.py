"""Query plans of executed statements."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event
from tests.storage.building import query

Plan = dict[str, str]


@contextmanager
def plans(*, own: bool = False) -> Iterator[list[Plan]]:
    """Collect the SELECT, UPDATE, DELETE and WITH statements executed inside the context, each with its plan.

    On Postgres the plans avoid sequential scans if possible, like plans for large tables. With `own` they are the plans
    that Postgres executes.
    """
    seen: list[Plan] = []

    def explain(
        connection: Connection, _cursor: object, statement: str, parameters: object, _context: object, _many: bool
    ) -> None:
        if not statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            return
        cursor = connection.connection.cursor()
        if isinstance(connection.connection.driver_connection, sqlite3.Connection):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            rows = cursor.fetchall()
        else:
            # Postgres scans small tables. Without sequential scans, the plan shows if an index can be used instead.
            cursor.execute(f"SET LOCAL enable_seqscan = {'on' if own else 'off'}")
            cursor.execute(f"EXPLAIN {statement}", parameters)
            rows = cursor.fetchall()
            cursor.execute("SET LOCAL enable_seqscan = on")
        seen.append({"statement": statement, "plan": "\n".join(str(row[-1]) for row in rows)})
        cursor.close()

    event.listen(Engine, "before_cursor_execute", explain)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", explain)


def find_plan(seen: list[Plan], *parts: str) -> str:
    """Return the plan of the only statement that contains all the parts."""
    (plan,) = [entry["plan"] for entry in seen if all(part in entry["statement"] for part in parts)]
    return plan


def assert_no_scan(plan: str, table: str) -> None:
    assert f"SCAN {table}" not in plan
    assert f"Seq Scan on {table}" not in plan


def disable_analysis(url: str) -> None:
    """Disable automatic analysis of the tables of an empty Postgres store, so that Postgres estimates their sizes.

    Postgres estimates the size of an unanalyzed table from the length of its file, so the tables get ten times their
    pages, as in a store with ten times the rows.
    """
    if not url.startswith("sqlite"):
        query(
            url,
            "DO $$ DECLARE t text; BEGIN"
            " FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            " LOOP EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off, fillfactor = 10)', t);"
            " END LOOP; END $$",
        )
