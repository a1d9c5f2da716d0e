"""Result of one untrusted SQL query, computed in a child process for `browsing.sql_runner`.

The module imports little, so that the child starts fast. Before it runs the query, it limits its processor time and the
sizes and numbers of its files, in addition to its memory limit.
"""

import json
import os
import resource
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from hierogram.storage.exceptions import QueryError, SlowQueryError
from hierogram.storage.worker_process import KeepAlive, set_resource_limit

MAX_VALUE_LENGTH = 10_000
"""Maximum number of characters of a value; longer ones are truncated and end with an ellipsis."""
MEMORY_MB = 320
"""Memory limit of a query's process, including its interpreter."""
MAX_SQLITE_VALUE_LENGTH = 8 << 20
"""Maximum size of an SQLite value in bytes."""

FORBIDDEN_FUNCTIONS = (
    "^(pg_(try_)?advisory_.*|pg_(terminate|cancel)_backend|pg_notify|set_config|pg_export_snapshot"
    "|pg_(create|copy|drop)_.*replication_slot|pg_sync_replication_slots|pg_replication_.*|pg_logical_.*"
    "|lo_.*|loread|lowrite|pg_read_.*|pg_ls_.*|pg_stat_file)$"
)
"""Pattern of Postgres functions that do more than compute: locks, other sessions, settings, slots, large objects,
files.

The role for queries must not execute them; docs/pages.md has the SQL.
"""

Cell = str | int | float | bool | None

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_ALLOWED_PRAGMAS = frozenset({"table_info", "table_xinfo", "index_list", "index_info", "table_list"})

_SQLITE_HEAP_MB = 192
_SQLITE_CACHE_MB = 32
_FILE_MB = 256
"""Maximum size of a temporary file that SQLite sorts in."""
_FILES = 20
_NICENESS = 5
_BUSY_SECONDS = 10
_MAX_DIGITS = 4_000
"""Maximum number of digits of a number, since Python does not convert longer ones to text."""
_PIECE = 1 << 16
"""Approximate number of bytes of rows per message."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_PLAIN_TYPES = frozenset({16, 20, 21, 23, 26, 700, 701, 1082, 1114, 1184, 1700})
"""Object ids of Postgres types with short values: booleans, numbers, dates and times."""
_UNKNOWN_NAMES = ("42P01", "42703")
"""SQLSTATEs of an unknown table or view, and of an unknown column."""
_ROLE = """
SELECT rolsuper,
       (SELECT string_agg(DISTINCT proname, ', ' ORDER BY proname)
          FROM pg_proc
         WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ %s AND has_function_privilege(oid, 'EXECUTE'))
  FROM pg_roles
 WHERE rolname = current_user
"""


def time_limit_error(seconds: float) -> SlowQueryError:
    """Return the error of a query that exceeds its time limit."""
    return SlowQueryError(f"the query was canceled after {seconds:g} s: select less")


def allow_reading(action: int, first: str | None, _second: str | None, _database: str | None, _view: str | None) -> int:
    """Authorize an SQLite action: reading tables and calling functions."""
    # A pragma that only reads names its table in the second argument.
    allowed = action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first in _ALLOWED_PRAGMAS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def restrict(connection: sqlite3.Connection, authorize: Callable[..., int], *pragmas: str) -> None:
    """Let a connection only read, with values of limited size."""
    for pragma in ("query_only=ON", *pragmas):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_SQLITE_VALUE_LENGTH)
    connection.set_authorizer(authorize)


IMMUTABLE = "immutable=1"
"""URI parameter: SQLite reads the file without locks and log, which it could not create in a read-only folder."""


def sqlite_address(file: str) -> str:
    """Return the URI by which SQLite opens a file read-only: as immutable in a read-only folder without a writer."""
    address = f"file:{quote(os.path.abspath(file))}?mode=ro"
    folder = os.path.dirname(os.path.abspath(file))
    # The log and its index exist while a process that may write has the store open.
    used = any(os.path.exists(f"{file}{suffix}") for suffix in ("-wal", "-shm"))
    return address if used or os.access(folder, os.W_OK) else f"{address}&{IMMUTABLE}"


def run_query(
    _alive: KeepAlive,
    file: str | None,
    connect: dict[str, Any],
    settings: str,
    statement: str,
    seconds: float,
    max_rows: int,
    max_cells: int,
    own_role: bool,
) -> Iterator[list[str] | bytes | tuple[bool, int]]:
    """Yield the result of one statement.

    First an empty list when the database is open, then the column names, blocks of rows as lines of JSON, and last
    whether there are more rows and the number of truncated values. `file` is an SQLite file, or None for Postgres:
    then `connect` are the arguments of `psycopg.connect`, and `settings` are statements that change settings. With
    `own_role` the role may do more than compute. Raises `QueryError` and `SlowQueryError`.
    """
    _limit_process(seconds)
    try:
        rows = (
            _query_sqlite(file, statement)
            if file is not None
            else _query_postgres(connect, settings, statement, seconds, max_rows, own_role)
        )
        yield list(map(str, next(rows)))
        columns = list(map(str, next(rows)))
        yield columns
        limit = min(max_rows, max(1, max_cells // max(1, len(columns))))
        lines, has_more, truncated = bytearray(), False, 0
        for number, row in enumerate(rows):
            has_more = number == limit
            if has_more:
                break
            cells = [_cell(value) for value in row]
            truncated += sum(isinstance(cell, str) and len(cell) > MAX_VALUE_LENGTH for cell in cells)
            lines += _ENCODER.encode(cells).encode("utf-8", "replace") + b"\n"
            if len(lines) >= _PIECE:
                yield bytes(lines)
                lines.clear()
        yield bytes(lines)
        yield has_more, truncated
    except QueryError:
        raise
    except MemoryError as error:
        raise QueryError(f"the query exceeds {MEMORY_MB} MB of memory: select less") from error
    except Exception as error:
        # Driver errors about a query are for the user who wrote it.
        raise (
            time_limit_error(seconds) if getattr(error, "sqlstate", None) == "57014" else _convert_error(error)
        ) from error


def _limit_process(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    set_resource_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 2)
    set_resource_limit(resource.RLIMIT_FSIZE, _FILE_MB << 20)
    set_resource_limit(resource.RLIMIT_NOFILE, _FILES)
    # Queries have a lower priority than sampling.
    with suppress(OSError):
        os.nice(_NICENESS)


def _query_sqlite(file: str, statement: str) -> Iterator[Iterable[object]]:
    """Yield an empty row when the file is open, then the column names, then the rows."""
    connection = sqlite3.connect(sqlite_address(file), uri=True, timeout=_BUSY_SECONDS)
    connection.isolation_level = None
    limits = f"cache_size={-1024 * _SQLITE_CACHE_MB}", f"hard_heap_limit={_SQLITE_HEAP_MB << 20}"
    restrict(connection, allow_reading, *limits)
    yield ()
    cursor = connection.execute(statement)
    if cursor.description is None:
        raise QueryError("not a query: write a SELECT")
    yield [str(column[0]) for column in cursor.description or ()]
    yield from cursor


def _query_postgres(
    connect: dict[str, Any], settings: str, statement: str, seconds: float, max_rows: int, own_role: bool
) -> Iterator[Iterable[object]]:
    """Yield like `_query_sqlite`, through a cursor, which takes only one SELECT. The server truncates long values."""
    import psycopg

    milliseconds = max(1, round(seconds * 1000))
    connection = psycopg.connect(**connect)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    statement = statement.replace("%", "%%")
    with connection.cursor() as cursor:
        # The second setting ends the statement if this process has ended.
        timeouts = f"SET LOCAL statement_timeout TO {milliseconds}; SET LOCAL client_connection_check_interval TO 500"
        cursor.execute(f"{settings}; {timeouts}".encode(), prepare=False)
        superuser, functions = cursor.execute(_ROLE, (FORBIDDEN_FUNCTIONS,)).fetchone() or (True, None)
        if not own_role and (superuser or functions):
            may = "is a superuser" if superuser else f"may execute {functions}"
            raise QueryError(
                f"SQL queries are disabled: the role of sql_url {may}: create it as described in docs/pages.md"
            )
        yield ()
        # Binary results make psycopg use the extended protocol, which takes only one statement.
        cursor.execute(f"DECLARE result NO SCROLL CURSOR FOR {statement}", (), binary=True)
        cursor.execute("FETCH 0 FROM result")
        columns = [(str(column.name), int(column.type_code)) for column in cursor.description or ()]
        cursor.execute("CLOSE result")
        yield [name for name, _ in columns]
        if not columns:
            return
        names = ", ".join(f"c{n}" for n in range(len(columns)))
        chosen = ", ".join(
            f"c{n}" if kind in _PLAIN_TYPES else f"left(CAST(c{n} AS text), {MAX_VALUE_LENGTH + 1})"
            for n, (_, kind) in enumerate(columns)
        )
        cursor.execute(
            f"DECLARE result NO SCROLL CURSOR FOR SELECT {chosen} FROM (\n{statement}\n) AS result({names})",
            (), binary=True,
        )  # fmt: skip
        yield from cursor.stream(f"FETCH {max_rows + 1} FROM result")


def _cell(value: object) -> Cell:
    """Convert a value to JSON; texts longer than `MAX_VALUE_LENGTH` are truncated."""
    if isinstance(value, Decimal):
        if value.adjusted() >= _MAX_DIGITS:
            value = f"{value:f}"
        else:
            value = int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        # JSON has no infinite numbers.
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, bytes | memoryview):
        text = f"\\x{bytes(value[: MAX_VALUE_LENGTH + 1]).hex()}"
    else:
        text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + "…"


def _convert_error(error: Exception) -> QueryError:
    first = getattr(getattr(error, "diag", None), "message_primary", None)
    text = str(first or error).strip()
    if "not authorized" in text:
        return QueryError(f"only SELECT without side effects is allowed ({text})")
    if getattr(error, "sqlstate", None) in _UNKNOWN_NAMES or text.startswith(("no such table", "no such column")):
        return QueryError(f"{text} (SELECT * FROM catalog lists all tables, views and columns; see docs/relations.md)")
    return QueryError(f"database error: {text}")
