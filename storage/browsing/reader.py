"""Those who only look: one state of the store to read from, and the statements by which it was read, to be shown.

The database itself refuses to write, and ends what takes too long. SQLite opens the file read-only, and lets a
statement read tables and call functions, nothing else: no other file is attached, no pragma changes. On Postgres every
transaction is read-only, and a statement has a time limit.
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
    failures_named,
    make_engine,
    make_read_only_engine,
    parse_url,
    shown_url,
)
from hierogram.storage.database.loading import rows_of
from hierogram.storage.database.migration import check_schema
from hierogram.storage.database.postgres import set_locally
from hierogram.storage.database.questions import LONGEST_SQLITE_VALUE, allow_reading, too_slow
from hierogram.storage.database.settings import read_settings
from hierogram.storage.records import Settings

_STEPS_A_LOOK = 20_000
"""Steps of SQLite's machine between two looks at the clock: well below a millisecond."""
_CACHE_MB = 64
_MAPPED_BYTES = 1 << 30


def make_reading_engine(url: URL) -> Engine:
    """Return an engine for the store at the URL whose connections cannot write. Nothing is opened yet."""
    if url.get_backend_name() == POSTGRES:
        engine = make_engine(url)
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    engine = make_read_only_engine(url)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)
    for pragma in ("query_only=ON", f"cache_size={-1024 * _CACHE_MB}", f"mmap_size={_MAPPED_BYTES}"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_SQLITE_VALUE)
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
    """Return what a statement may do: read, and begin and end transactions."""
    if action == sqlite3.SQLITE_TRANSACTION and first in ("BEGIN", "ROLLBACK"):
        return sqlite3.SQLITE_OK
    return allow_reading(action, first, second, database, view)


@contextmanager
def looking(engine: Engine, seconds: float) -> Iterator[Connection]:
    """A connection all of whose reads see one state of the store, for so many seconds at most.

    Raises `SlowQueryError` where a statement is ended because the time is over, and `StoreUnavailableError`.
    """
    until = time.monotonic() + seconds
    with failures_named(engine.url), engine.connect() as connection:
        driver = connection.connection.driver_connection
        transaction = connection.begin()
        try:
            if isinstance(driver, sqlite3.Connection):
                driver.set_progress_handler(lambda: time.monotonic() > until, _STEPS_A_LOOK)
            else:
                # The best plan of a page's statement depends on its values.
                timeout = str(max(1, round(seconds * 1000)))
                set_locally(connection, {"statement_timeout": timeout, "plan_cache_mode": "force_custom_plan"})
            yield connection
        except Exception as error:
            cause = getattr(error, "orig", error)
            interrupted = isinstance(cause, sqlite3.OperationalError) and "interrupted" in str(cause)
            if interrupted or getattr(cause, "sqlstate", None) == "57014":
                raise too_slow(seconds) from error
            raise
        finally:
            if isinstance(driver, sqlite3.Connection):
                driver.set_progress_handler(None, 0)
            transaction.rollback()


PAGE_SECONDS = 20.0
"""How long the statements of a page may take."""

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")

Value = str | int | float


def literal(value: Value) -> str:
    """The value as it stands in SQL, on both databases."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def readable(statement: str, values: dict[str, Any]) -> str:
    """The statement with its values in their places, as a person could ask it."""
    return _PARAMETER.sub(lambda found: literal(values[found[1]]), statement).strip()


class Look:
    """One state of a store; `asked` holds the statements so far that are worth showing, as people could ask them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.asked: list[str] = []
        self.postgres = connection.dialect.name == POSTGRES

    def rows(self, statement: str, shown: bool = True, /, **values: Value) -> list[tuple[Any, ...]]:
        """Return what the statement finds; its parameters are written `:name`. Without `shown` it is not kept."""
        if shown:
            self.asked.append(readable(statement, values))
        return rows_of(self.connection, text(statement), values)

    def row(self, statement: str, shown: bool = True, /, **values: Value) -> tuple[Any, ...] | None:
        """The first row that the statement finds."""
        return next(iter(self.rows(statement, shown, **values)), None)

    def records(self, statement: str, shown: bool = True, /, **values: Value) -> list[dict[str, Any]]:
        """Return what the statement finds, as `rows`, each row by the names of its columns."""
        if shown:
            self.asked.append(readable(statement, values))
        return [dict(row) for row in self.connection.execute(text(statement), values).mappings()]

    def settings(self) -> Settings:
        """Return what the store was made with."""
        return read_settings(self.connection)


class Reader(ExitStack):
    """A way into a store on which nothing can be written; from any thread; closed when it is left.

    Raises, as `open_store` does, where there is no store of this version's schema at the URL.
    """

    def __init__(self, url: URL | str) -> None:
        super().__init__()
        parsed = parse_url(url) if isinstance(url, str) else url
        self.url = shown_url(parsed)
        self.engine = make_reading_engine(parsed)
        with ExitStack() as opened:
            opened.callback(self.engine.dispose)
            # The engine proper, as errors are to name the store and not the way to it.
            check_schema(self.engine)
            self.push(opened.pop_all())

    @contextmanager
    def look(self, seconds: float = PAGE_SECONDS) -> Iterator[Look]:
        """One state of the store; raises `SlowQueryError` where it takes longer than so many seconds."""
        with looking(self.engine, seconds) as connection:
            yield Look(connection)
