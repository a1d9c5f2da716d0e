"""Read-only access to one state of a store, with a list of executed statements.

SQLite files are opened read-only, and an authorizer refuses everything except reads. Postgres transactions are
read-only. Slow statements are canceled.
"""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import URL, Connection, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from hierogram.storage.database.connection import (
    POSTGRES,
    hide_password,
    make_engine,
    make_read_only_engine,
    parse_url,
    reading,
)
from hierogram.storage.database.migration import check_schema
from hierogram.storage.database.postgres import set_locally
from hierogram.storage.database.transactions import read_rows, read_settings, read_state
from hierogram.storage.database.untrusted_sql import allow_reading, restrict, time_limit_error
from hierogram.storage.records.operations import StoreState
from hierogram.storage.records.settings import Settings

_STEPS_PER_CHECK = 20_000
"""SQLite virtual machine steps (less than 1 ms) between two checks of the time limit."""
_CACHE_MB = 16


def _prepare_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)
    # Do not map the file: if it were truncated during a read, the system would kill the process with SIGBUS.
    restrict(connection, _authorize, f"cache_size={-1024 * _CACHE_MB}", "mmap_size=0")


def _authorize(action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
    if action == sqlite3.SQLITE_TRANSACTION and first in ("BEGIN", "ROLLBACK"):
        return sqlite3.SQLITE_OK
    return allow_reading(action, first, second, database, view)


PAGE_SECONDS = 20.0
"""Default time limit of a read transaction."""

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")

Value = str | int | float


def literal(value: Value) -> str:
    """Return the value as an SQL literal for both databases."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def inline_parameters(statement: str, values: dict[str, Any]) -> str:
    """Return the statement with its parameters `:name` replaced by literals, to be shown to users."""
    return _PARAMETER.sub(lambda match: literal(values[match[1]]), statement).strip()


class ReadTransaction:
    """One state of a store. `statements` collects the executed statements that pages show to users."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.statements: list[str] = []
        self.postgres = connection.dialect.name == POSTGRES

    def rows(self, statement: str, is_shown: bool = True, /, **values: Value) -> list[tuple[Any, ...]]:
        """Return the rows of a statement with parameters `:name`. Records the statement if `is_shown`."""
        if is_shown:
            self.statements.append(inline_parameters(statement, values))
        return read_rows(self.connection, statement, values)

    def row(self, statement: str, is_shown: bool = True, /, **values: Value) -> tuple[Any, ...] | None:
        """Return the first row of a statement, or None if the result is empty. For the arguments, see `rows`."""
        return next(iter(self.rows(statement, is_shown, **values)), None)

    def records(self, statement: str, is_shown: bool = True, /, **values: Value) -> list[dict[str, Any]]:
        """Return the rows of a statement as dictionaries by column name. For the arguments, see `rows`."""
        if is_shown:
            self.statements.append(inline_parameters(statement, values))
        return [dict(row) for row in self.connection.execute(text(statement), values).mappings()]

    def state(self) -> StoreState:
        """Return the positions, last ids and totals of the store."""
        return read_state(self.connection)

    def settings(self) -> Settings:
        """Return the store's settings. Raises `StoreError` if one is missing or invalid."""
        return read_settings(self.connection)


class Reader(ExitStack):
    """Context manager for read-only access to a store. Thread-safe. Raises the errors of `open_store`."""

    def __init__(self, url: URL | str) -> None:
        super().__init__()
        parsed = parse_url(url) if isinstance(url, str) else url
        self.url = hide_password(parsed)
        if parsed.get_backend_name() == POSTGRES:
            self.engine = make_engine(parsed)
        else:
            self.engine = make_read_only_engine(parsed)
            event.listen(self.engine, "connect", _prepare_sqlite)
        with ExitStack() as opened:
            opened.callback(self.engine.dispose)
            check_schema(self.engine)
            self.push(opened.pop_all())

    @contextmanager
    def read(self, seconds: float = PAGE_SECONDS) -> Iterator[ReadTransaction]:
        """Open a read transaction. Raises `StoreUnavailableError`, and `SlowQueryError` after `seconds`.

        The time limit applies to the transaction on SQLite, and to each statement on Postgres.
        """
        deadline = time.monotonic() + seconds
        with reading(self.engine) as connection:
            driver = connection.connection.driver_connection
            try:
                if isinstance(driver, sqlite3.Connection):
                    driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_CHECK)
                else:
                    # Plan each statement for its values, because the best plan depends on them.
                    timeout = str(max(1, round(seconds * 1000)))
                    set_locally(connection, {"statement_timeout": timeout, "plan_cache_mode": "force_custom_plan"})
                yield ReadTransaction(connection)
            except Exception as error:
                cause = getattr(error, "orig", error)
                interrupted = isinstance(cause, sqlite3.OperationalError) and "interrupted" in str(cause)
                if interrupted or getattr(cause, "sqlstate", None) == "57014":
                    raise time_limit_error(seconds) from error
                raise
            finally:
                if isinstance(driver, sqlite3.Connection):
                    driver.set_progress_handler(None, 0)
