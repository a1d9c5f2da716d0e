"""Engines that cannot write, whatever they are asked: the database itself refuses, and ends what takes too long.

SQLite opens the file read-only, and lets a statement read tables and call functions, nothing else: no other file is
attached, no pragma changes. On Postgres every transaction is read-only, and a statement has a time limit.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from hierogram.storage.database.connection import CACHE, POSTGRES, failures_named, make_engine, sqlite_file
from hierogram.storage.database.questions import LONGEST_SQLITE_VALUE, allow_reading, sqlite_address
from hierogram.storage.exceptions import SlowQueryError

_STEPS_A_LOOK = 20_000
"""Steps of SQLite's machine between two looks at the clock: well below a millisecond."""
_CACHE_MB = 64
_MAPPED_BYTES = 1 << 30
_BUSY_SECONDS = 10

_POSTGRES_SETTINGS = (
    "SELECT set_config('statement_timeout', '{}', true), set_config('jit', 'off', true),"
    " set_config('plan_cache_mode', 'force_custom_plan', true)"
)
"""Of a transaction: compiling a page's statement takes longer than it saves, and its plan depends on its values."""


def make_read_only_engine(url: URL) -> Engine:
    """An engine for the store at the URL whose connections cannot write; nothing is opened yet."""
    if url.get_backend_name() == POSTGRES:
        engine = make_engine(url)
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    file = sqlite_file(url)
    assert file is not None
    address = sqlite_address(str(file))

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)

    engine = create_engine(url.difference_update_query([CACHE]), creator=connect)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None
    for pragma in ("query_only=ON", f"cache_size={-1024 * _CACHE_MB}", f"mmap_size={_MAPPED_BYTES}"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_SQLITE_VALUE)
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
    """What a statement may do: read, and begin and end transactions."""
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
                connection.exec_driver_sql(_POSTGRES_SETTINGS.format(max(1, round(seconds * 1000))))
            yield connection
        except Exception as error:
            if _was_ended(error):
                raise SlowQueryError(
                    f"the answer takes more than {seconds:g} s, so it was ended: ask for less"
                ) from error
            raise
        finally:
            if isinstance(driver, sqlite3.Connection):
                driver.set_progress_handler(None, 0)
            transaction.rollback()


def _was_ended(error: Exception) -> bool:
    cause = getattr(error, "orig", error)
    if isinstance(cause, sqlite3.OperationalError):
        return "interrupted" in str(cause)
    return getattr(cause, "sqlstate", None) == "57014"
