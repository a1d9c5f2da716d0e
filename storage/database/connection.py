"""Engines, transactions and the lock that orders writers.

A commit is on the disk before it returns (SQLite: WAL mode with `synchronous=FULL`), so stored data survive a power
failure. A writer that can repeat its work may skip this wait on SQLite (`durable=False`). Its commit reaches the disk a
moment later, after all commits before it. Writers of pairs, rules and events take the store's one write lock (SQLite:
BEGIN IMMEDIATE, Postgres: the row of `store_state`), so that they queue instead of failing half-way, and see each
other's results. On Postgres, changes of jobs, and renewals and releases of the lease, lock only their own rows.

On SQLite, all writers of a process share one connection, because SQLite discards the page cache of a connection when
another connection has written. A background thread makes checkpoints, see `sqlite_files`.
"""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from hierogram.storage.database.postgres import (
    LOCK_SECONDS,
    SECRETS,
    check_parameters,
    connection_arguments,
    set_locally,
    transaction_settings,
)
from hierogram.storage.database.sqlite_files import Checkpointer, StoreFiles
from hierogram.storage.database.untrusted_sql import IMMUTABLE, sqlite_address
from hierogram.storage.exceptions import StoreRefusedError, StoreUnavailableError, StoreUrlError, install_extra
from hierogram.storage.schema.tables import set_postgres_options

SQLITE = "sqlite"
POSTGRES = "postgresql"

CACHE_MB = "cache_mb"
"""Parameter of an SQLite store's URL: page cache of the writing connection in megabytes.

A reader (of up to fifteen) has up to a quarter of it, and all readers together up to half of it, at least 4 MB.
"""

_DURABLE = "hierogram_durable"
"""Execution option of a writing connection: True if its commits wait for the disk."""
_WRITER = "hierogram_writer"
_CHECKPOINTER = "hierogram_checkpointer"
_VALUE_ERROR_STATES = ("22", "23", "54")
"""Classes of Postgres error codes for values that are invalid, violate a constraint or exceed a limit."""
_OPEN_FILES = "hierogram_open_files"
_READ_ONLY = "hierogram_read_only"
_CANNOT_WRITE = (
    "the file of the store and its folder must be writable for this user: change the permissions, or copy the file"
)
_READER_BUSY_SECONDS = 10
_BUSY_SECONDS = LOCK_SECONDS

_OLDEST_SQLITE = (3, 35)
"""First version of SQLite with materialized common table expressions and mathematical functions."""

_LOCK_PAUSE_SECONDS = 0.02
_SQLITE_PRAGMAS = (
    "synchronous=FULL",
    "foreign_keys=ON",
    # Make a checkpoint within a commit only if the log has 128 MB of pages. `Checkpointer` normally makes it earlier.
    "wal_autocheckpoint=32768",
    # Truncate the log to 64 MB when it restarts, because SQLite does not make it shorter otherwise.
    "journal_size_limit=67108864",
)
_DEFAULT_CACHE_MB = 128
_MIN_READERS_MB = 4


def parse_url(text: str) -> URL:
    """Parse `sqlite:///x.db`, `postgresql://host/x`, or a path ending in `.db`. Raises `StoreUrlError`."""
    if "://" not in text and text.endswith(".db"):
        return URL.create("sqlite+pysqlite", database=text)
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError):
        backend = ""
    if backend == SQLITE:
        if not url.database or url.database == ":memory:":
            raise StoreUrlError(f"{text!r} has no file name: expected a URL such as sqlite:///grammar.db")
        for name in url.query:
            if name != CACHE_MB:
                raise StoreUrlError(f"unknown parameter {name!r} in the URL of the store: expected {CACHE_MB}")
        if not _cache_size(url).isdecimal() or int(_cache_size(url)) < 1:
            raise StoreUrlError(f"{text!r}: {CACHE_MB} must be a whole number of megabytes >= 1, like ?{CACHE_MB}=64")
        return url.set(drivername="sqlite+pysqlite")
    if backend in (POSTGRES, "postgres"):
        if find_spec("psycopg") is None:
            raise StoreUrlError(f"Postgres requires psycopg: {install_extra('postgres')}")
        url = url.set(drivername="postgresql+psycopg")
        check_parameters(url)
        return url
    redacted = re.sub(r"(//[^/:@]*:)[^@]*@", r"\1***@", text)
    raise StoreUrlError(
        f"{redacted!r} is not the URL of a store: expected sqlite:///grammar.db, postgresql://user@host/database, or a "
        "path ending in .db"
    )


def _cache_size(url: URL) -> str:
    value = url.query.get(CACHE_MB, str(_DEFAULT_CACHE_MB))
    return value if isinstance(value, str) else ""


def hide_password(url: URL) -> str:
    """Return the URL as text for messages, without secrets."""
    redacted = url.set(drivername=url.get_backend_name()).difference_update_query(SECRETS)
    return redacted.render_as_string(hide_password=True)


def sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite store, or None for Postgres."""
    return Path(url.database) if url.get_backend_name() == SQLITE and url.database else None


def make_engine(url: URL) -> Engine:
    """Return an engine for the transactions of this module. Opens no connection."""
    if url.get_backend_name() == SQLITE:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreUnavailableError(
                f"{hide_password(url)}: SQLite >= 3.35 is required, but this Python has {sqlite3.sqlite_version}: use "
                "another Python"
            )
        return _make_sqlite_engine(url)
    set_postgres_options()
    arguments, settings = connection_arguments(url), transaction_settings(url)
    engine = create_engine(url, pool_pre_ping=True, connect_args=arguments)
    event.listen(engine, "begin", lambda connection: set_locally(connection, settings))
    return engine


def _file_stat(file: str) -> tuple[int, int, int]:
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns


def make_read_only_engine(url: URL) -> Engine:
    """Return an engine for an SQLite store whose connections cannot write. Opens no connection."""
    file = str(sqlite_file(url))

    def connect(_dialect: object, entry: ConnectionPoolEntry, *_: object) -> sqlite3.Connection:
        address = sqlite_address(file)
        connection = sqlite3.connect(
            address, uri=True, timeout=_READER_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        if address.endswith(IMMUTABLE):
            entry.info["seen"] = _file_stat(file)
        return connection

    def check(_connection: DBAPIConnection, entry: ConnectionPoolEntry, *_: object) -> None:
        # Replace a connection that assumes an immutable file if the file has changed or may change.
        seen = entry.info.get("seen")
        if seen is not None and not (sqlite_address(file).endswith(IMMUTABLE) and _file_stat(file) == seen):
            raise DisconnectionError(f"{file} is being written")

    engine = create_engine(url.difference_update_query([CACHE_MB]), execution_options={_READ_ONLY: True})
    event.listen(engine, "do_connect", connect)
    event.listen(engine, "checkout", check)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def is_read_only(engine: Engine) -> bool:
    """Check if an engine cannot write."""
    return bool(engine.get_execution_options().get(_READ_ONLY, False))


def _make_sqlite_engine(url: URL) -> Engine:
    file = sqlite_file(url)
    assert file is not None
    if os.access(file, os.R_OK) and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        engine = make_read_only_engine(url)
        cache = f"PRAGMA cache_size={-256 * int(_cache_size(url))}"
        event.listen(engine, "connect", lambda connection, _: connection.execute(cache).close())
        return engine
    plain = url.difference_update_query([CACHE_MB])
    files = StoreFiles(str(file), hide_password(url))
    # Begin transactions explicitly: the implicit BEGIN is too late for readers, and not IMMEDIATE for writers.
    arguments = {"timeout": _BUSY_SECONDS, "isolation_level": None}
    reader = create_engine(plain, connect_args=arguments)
    writer = create_engine(
        plain,
        connect_args=arguments,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_timeout=_BUSY_SECONDS,
    )
    cache_mb = int(_cache_size(url))
    for engine, cache_kb in ((reader, 256 * cache_mb), (writer, 1024 * cache_mb)):
        # Check first, because connecting to the path of a deleted file would create another file.
        event.listen(engine, "do_connect", lambda *_: files.check())
        event.listen(engine, "connect", partial(_prepare, cache_kb, cache_mb))
        event.listen(engine, "connect", files.opened)
        event.listen(engine, "close", files.closed)
        event.listen(engine, "begin", files.check)
        event.listen(engine, "begin", _begin_sqlite)
    checkpointer = Checkpointer(str(file), files.check)

    def dispose(_: Engine) -> None:
        checkpointer.close()
        writer.dispose()

    event.listen(reader, "engine_disposed", dispose)
    reader.update_execution_options(**{_WRITER: writer, _CHECKPOINTER: checkpointer, _OPEN_FILES: files})
    return reader


def _prepare(cache_kb: int, writer_mb: int, connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)
    # Retry, because SQLite does not wait for the lock of this pragma if several processes create a store at once.
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            break
        except sqlite3.OperationalError as error:
            if "database is locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_PAUSE_SECONDS)
    # Limit the memory of all connections together. Above the limit, SQLite evicts the oldest pages.
    heap_limit = (writer_mb + max(writer_mb // 2, _MIN_READERS_MB)) << 20
    for pragma in (*_SQLITE_PRAGMAS, f"cache_size={-cache_kb}", f"soft_heap_limit={heap_limit}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    durable = connection.get_execution_options().get(_DURABLE)
    if durable is None:
        # Bypass SQLAlchemy for speed, because every read transaction begins with this statement. It cannot fail.
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.execute("BEGIN").close()
        return
    # Set the pragma before BEGIN, because it takes effect only between transactions.
    connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def checkpoint(engine: Engine) -> None:
    """Copy an SQLite store's log into its file. Does nothing for Postgres and read-only stores."""
    checkpointer = engine.get_execution_options().get(_CHECKPOINTER)
    if checkpointer is not None:
        with convert_errors(engine.url):
            checkpointer.checkpoint()


@contextmanager
def convert_errors(url: URL) -> Iterator[None]:
    """Convert driver errors to `StoreUnavailableError` (`StoreRefusedError` if a value was rejected)."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        raise _convert_error(url, getattr(error, "orig", None) or error) from error
    except PoolTimeoutError as error:
        raise StoreUnavailableError(_explain_wait(url, "another thread")) from error
    except OverflowError as error:
        if "SQLite INTEGER" not in str(error):
            raise
        raise StoreRefusedError(
            f"{hide_password(url)}: a number exceeds the range of 64-bit integers: use a smaller number"
        ) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] == "psycopg":
            raise _convert_error(url, error) from error
        raise


def _convert_error(url: URL, error: BaseException) -> StoreUnavailableError:
    state = getattr(error, "sqlstate", None) or ""
    refused = isinstance(error, sqlite3.DataError | sqlite3.IntegrityError) or state.startswith(_VALUE_ERROR_STATES)
    return (StoreRefusedError if refused else StoreUnavailableError)(_explain(url, error))


def _explain(url: URL, error: BaseException) -> str:
    text = " ".join(str(error).split())
    if "database is locked" in text or "lock timeout" in text:
        return _explain_wait(url, "another process")
    if "file is not a database" in text:
        return f"{hide_password(url)}: not an SQLite database: use another file"
    if "disk is full" in text or "No space left" in text or "could not extend file" in text:
        return f"{hide_password(url)}: the disk is full ({text}): free some space; committed work is not lost"
    if "disk I/O error" in text:
        return f"{hide_password(url)}: the file cannot be read or written ({text}): check disk space and quotas"
    if "readonly database" in text or "unable to open database file" in text:
        return f"{hide_password(url)}: {text}: {_CANNOT_WRITE}"
    if "malformed" in text:
        return f"{hide_password(url)}: the file is damaged ({text}): restore a backup"
    return f"{hide_password(url)}: {text}"


def _explain_wait(url: URL, who: str) -> str:
    return f"{hide_password(url)}: locked by {who} for too long: try again later"


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open a connection in a read transaction, which sees the state of the store at its first read."""
    with convert_errors(engine.url), engine.connect() as connection:
        if engine.dialect.name == POSTGRES:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        # Roll back and never commit, because a commit would fail on a damaged file that can be read in part.
        transaction = connection.begin()
        try:
            yield connection
        finally:
            transaction.rollback()


@contextmanager
def reading_snapshot(engine: Engine) -> Iterator[Connection]:
    """Open a connection in a read transaction, in which all reads see the state of the store at the start."""
    with reading(engine) as connection:
        connection.exec_driver_sql("SELECT count(*) FROM store_state").close()
        yield connection


@contextmanager
def writing_connection(engine: Engine, *, durable: bool = True) -> Iterator[Connection]:
    """Open a connection in a write transaction. Commits at the end, and rolls back after an exception.

    Without `durable`, the commit does not wait for the disk on SQLite. A commit on Postgres always waits, because the
    server can fail while this process runs on, and would lose data that this process considers stored.
    """
    if is_read_only(engine):
        raise StoreUnavailableError(f"{hide_password(engine.url)}: {_CANNOT_WRITE}")
    options = engine.get_execution_options()
    files = options.get(_OPEN_FILES)
    with convert_errors(engine.url), options.get(_WRITER, engine).connect() as connection:
        connection = connection.execution_options(**{_DURABLE: durable})
        with connection.begin():
            yield connection
            if files is not None:
                files.check()
        if files is not None:
            files.check(connection)
            options[_CHECKPOINTER].record_commit(connection.connection.driver_connection, synced=durable)
