"""Read-only access to one state of a store, with the statements that were used.

The database itself refuses writes and ends slow statements. SQLite opens the file read-only and may only read tables
and call functions: no other file is attached, no pragma changes. On Postgres every transaction is read-only, and
statements have a time limit.
"""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from hierogram.storage.database.connection import (
    POSTGRES,
    convert_errors,
    hide_password,
    make_engine,
    make_read_only_engine,
    parse_url,
)
from hierogram.storage.database.migration import check_schema
from hierogram.storage.database.postgres import set_locally
from hierogram.storage.database.settings import read_settings
from hierogram.storage.database.transactions import read_rows
from hierogram.storage.database.untrusted_sql import MAX_SQLITE_VALUE_LENGTH, allow_reading, time_limit_error
from hierogram.storage.records.settings import Settings

_STEPS_PER_CHECK = 20_000
"""Steps of SQLite's virtual machine between two checks of the time limit: less than a millisecond."""
_CACHE_MB = 16


def make_reading_engine(url: URL) -> Engine:
    """Return an engine for the store at the URL whose connections cannot write. Opens no connection."""
    if url.get_backend_name() == POSTGRES:
        engine = make_engine(url)
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    engine = make_read_only_engine(url)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)
    # The file is not mapped: if it is truncated during a read, the system would kill the process with SIGBUS.
    for pragma in ("query_only=ON", f"cache_size={-1024 * _CACHE_MB}", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_SQLITE_VALUE_LENGTH)
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
    """Check if a statement may perform an action: read, or begin and end transactions."""
    if action == sqlite3.SQLITE_TRANSACTION and first in ("BEGIN", "ROLLBACK"):
        return sqlite3.SQLITE_OK
    return allow_reading(action, first, second, database, view)


@contextmanager
def timed_reading(engine: Engine, seconds: float) -> Iterator[Connection]:
    """Yield a connection whose reads all see one state of the store, for up to `seconds`.

    Raises `SlowQueryError` if a statement runs longer, and `StoreUnavailableError`.
    """
    deadline = time.monotonic() + seconds
    with convert_errors(engine.url), engine.connect() as connection:
        driver = connection.connection.driver_connection
        transaction = connection.begin()
        try:
            if isinstance(driver, sqlite3.Connection):
                driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_CHECK)
            else:
                # The best plan of a page's statement depends on its values.
                timeout = str(max(1, round(seconds * 1000)))
                set_locally(connection, {"statement_timeout": timeout, "plan_cache_mode": "force_custom_plan"})
            yield connection
        except Exception as error:
            cause = getattr(error, "orig", error)
            interrupted = isinstance(cause, sqlite3.OperationalError) and "interrupted" in str(cause)
            if interrupted or getattr(cause, "sqlstate", None) == "57014":
                raise time_limit_error(seconds) from error
            raise
        finally:
            if isinstance(driver, sqlite3.Connection):
                driver.set_progress_handler(None, 0)
            transaction.rollback()


PAGE_SECONDS = 20.0
"""Time limit of a page's statements."""

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")

Value = str | int | float


def literal(value: Value) -> str:
    """Return the value as an SQL literal for both databases."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def inline_parameters(statement: str, values: dict[str, Any]) -> str:
    """Return the statement with its parameters filled in, as a user would write it."""
    return _PARAMETER.sub(lambda match: literal(values[match[1]]), statement).strip()


class ReadTransaction:
    """One state of a store; `statements` collects the statements worth showing, as users could write them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.statements: list[str] = []
        self.postgres = connection.dialect.name == POSTGRES

    def rows(self, statement: str, is_shown: bool = True, /, **values: Value) -> list[tuple[Any, ...]]:
        """Return the rows of a statement with parameters `:name`. Unless `is_shown`, the statement is not recorded."""
        if is_shown:
            self.statements.append(inline_parameters(statement, values))
        return read_rows(self.connection, text(statement), values)

    def row(self, statement: str, is_shown: bool = True, /, **values: Value) -> tuple[Any, ...] | None:
        """Return the first row of a statement."""
        return next(iter(self.rows(statement, is_shown, **values)), None)

    def records(self, statement: str, is_shown: bool = True, /, **values: Value) -> list[dict[str, Any]]:
        """Return the rows of a statement as dictionaries by column name."""
        if is_shown:
            self.statements.append(inline_parameters(statement, values))
        return [dict(row) for row in self.connection.execute(text(statement), values).mappings()]

    def settings(self) -> Settings:
        """Return the store's settings."""
        return read_settings(self.connection)


class Reader(ExitStack):
    """Read-only access to a store; thread-safe; a context manager that closes it.

    Raises the errors of `open_store` if there is no store of this version's schema at the URL.
    """

    def __init__(self, url: URL | str) -> None:
        super().__init__()
        parsed = parse_url(url) if isinstance(url, str) else url
        self.url = hide_password(parsed)
        self.engine = make_reading_engine(parsed)
        with ExitStack() as opened:
            opened.callback(self.engine.dispose)
            # Use the engine itself, so that errors name the store.
            check_schema(self.engine)
            self.push(opened.pop_all())

    @contextmanager
    def read(self, seconds: float = PAGE_SECONDS) -> Iterator[ReadTransaction]:
        """Open one state of the store; raises `SlowQueryError` after `seconds`."""
        with timed_reading(self.engine, seconds) as connection:
            yield ReadTransaction(connection)
