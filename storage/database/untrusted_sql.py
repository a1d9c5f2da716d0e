"""Execution of one untrusted SQL query in a child process, for `browsing.sql_runner`.

The module imports little, so that the child starts fast.
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
"""Maximum number of characters of a value. Longer values are truncated and end with an ellipsis."""
MEMORY_MB = 320
"""Memory limit of a query's process, including the interpreter and SQLite (`_SQLITE_HEAP_MB`)."""
_MAX_SQLITE_VALUE_BYTES = 8 << 20

FORBIDDEN_FUNCTIONS = (
    "^(pg_(try_)?advisory_.*|pg_(terminate|cancel)_backend|pg_notify|set_config|pg_export_snapshot"
    "|pg_(create|copy|drop)_.*replication_slot|pg_sync_replication_slots|pg_replication_.*|pg_logical_.*"
    "|lo_.*|loread|lowrite|pg_read_.*|pg_ls_.*|pg_stat_file)$"
)
"""Pattern of Postgres functions that the role for queries must not execute.

They change locks, other sessions, settings or replication, or access large objects or files.
"""

Cell = str | int | float | bool | None

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_ALLOWED_PRAGMAS = frozenset({"table_info", "table_xinfo", "index_list", "index_info", "table_list"})

_SQLITE_HEAP_MB = 192
_SQLITE_CACHE_MB = 32
_MAX_FILE_MB = 256
"""Maximum size of a temporary file, which SQLite uses for sorting."""
_MAX_FILES = 20
_NICENESS = 5
_BUSY_SECONDS = 10
_MAX_DIGITS = 4_000
"""Decimals with more digits are returned as text, because Python does not convert longer integers."""
_MESSAGE_BYTES = 1 << 16

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_PLAIN_TYPES = frozenset({16, 20, 21, 23, 26, 700, 701, 1082, 1114, 1184, 1700})
"""Object ids of Postgres types with short values: booleans, numbers, dates and times."""
_UNKNOWN_NAMES = ("42P01", "42703")
"""SQLSTATEs of an unknown table or view, and of an unknown column."""
_SELECT_ROLE = """
SELECT rolsuper,
       (SELECT string_agg(DISTINCT proname, ', ' ORDER BY proname)
          FROM pg_proc
         WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ %s AND has_function_privilege(oid, 'EXECUTE'))
  FROM pg_roles
 WHERE rolname = current_user
"""


def time_limit_error(seconds: float) -> SlowQueryError:
    """Return the error of a query that exceeds its time limit."""
    return SlowQueryError(f"the query was canceled after {seconds:g} s: simplify it or select fewer rows")


def allow_reading(action: int, first: str | None, _second: str | None, _database: str | None, _view: str | None) -> int:
    """Allow SELECT, function calls, and pragmas that describe tables. Authorizer for `sqlite3`."""
    allowed = action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first in _ALLOWED_PRAGMAS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def restrict(connection: sqlite3.Connection, authorize: Callable[..., int], *pragmas: str) -> None:
    """Make a connection read-only, limit the size of its values, and set pragmas (`name=value`)."""
    for pragma in ("query_only=ON", *pragmas):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_SQLITE_VALUE_BYTES)
    connection.set_authorizer(authorize)


IMMUTABLE = "immutable=1"
"""URI parameter to read without locks and a log, which SQLite cannot create in a read-only folder."""


def sqlite_address(file: str) -> str:
    """Return the read-only URI of a file, `IMMUTABLE` if its folder is read-only and it has no writer."""
    address = f"file:{quote(os.path.abspath(file))}?mode=ro"
    folder = os.path.dirname(os.path.abspath(file))
    # Look for the log and its index, because they exist while a process that may write has the store open.
    has_writer = any(os.path.exists(f"{file}{suffix}") for suffix in ("-wal", "-shm"))
    return address if has_writer or os.access(folder, os.W_OK) else f"{address}&{IMMUTABLE}"


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

    Yields an empty list when the database is open, then the column names, then blocks of rows as lines of JSON, and
    last a tuple (True if rows were omitted, number of truncated values). `file` is an SQLite file, or None for
    Postgres. `connect` contains the arguments of `psycopg.connect`, and `settings` the statements that change settings
    (both only for Postgres). If `own_role` is True, the role may be a superuser or may execute `FORBIDDEN_FUNCTIONS`.
    Raises `QueryError` and `SlowQueryError`.
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
            if len(lines) >= _MESSAGE_BYTES:
                yield bytes(lines)
                lines.clear()
        yield bytes(lines)
        yield has_more, truncated
    except QueryError:
        raise
    except MemoryError as error:
        raise QueryError("the query exceeds its memory limit: select fewer rows or columns") from error
    except Exception as error:
        # Convert errors of the driver, because they concern the user who wrote the query.
        raise (
            time_limit_error(seconds) if getattr(error, "sqlstate", None) == "57014" else _convert_error(error)
        ) from error


def _limit_process(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    set_resource_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 2)
    set_resource_limit(resource.RLIMIT_FSIZE, _MAX_FILE_MB << 20)
    set_resource_limit(resource.RLIMIT_NOFILE, _MAX_FILES)
    # Lower the priority, so that queries do not slow down sampling.
    with suppress(OSError):
        os.nice(_NICENESS)


def _query_sqlite(file: str, statement: str) -> Iterator[Iterable[object]]:
    """Yield an empty row when the file is open, then the column names, then the rows."""
    connection = sqlite3.connect(sqlite_address(file), uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    limits = f"cache_size={-1024 * _SQLITE_CACHE_MB}", f"hard_heap_limit={_SQLITE_HEAP_MB << 20}"
    restrict(connection, allow_reading, *limits)
    yield ()
    cursor = connection.execute(statement)
    if cursor.description is None:
        raise QueryError("not a query: write a SELECT")
    yield [column[0] for column in cursor.description]
    yield from cursor


def _query_postgres(
    connect: dict[str, Any], settings: str, statement: str, seconds: float, max_rows: int, own_role: bool
) -> Iterator[Iterable[object]]:
    """Yield the items of `_query_sqlite`, with long values truncated. A cursor accepts only one SELECT."""
    import psycopg

    milliseconds = max(1, round(seconds * 1000))
    connection = psycopg.connect(**connect)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    statement = statement.replace("%", "%%")
    with connection.cursor() as cursor:
        # The second setting ends the statement if this process ends first.
        timeouts = f"SET LOCAL statement_timeout TO {milliseconds}; SET LOCAL client_connection_check_interval TO 500"
        cursor.execute(f"{settings}; {timeouts}".encode(), prepare=False)
        superuser, functions = cursor.execute(_SELECT_ROLE, (FORBIDDEN_FUNCTIONS,)).fetchone() or (True, None)
        if not own_role and (superuser or functions):
            problem = "is a superuser" if superuser else f"may execute {functions}"
            raise QueryError(
                f"SQL queries are disabled: the role of sql_url {problem}: create a role as described in docs/pages.md"
            )
        yield ()
        # Request binary results, because psycopg then uses the extended protocol, which accepts only one statement.
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
    """Convert a value for JSON. Texts longer than `MAX_VALUE_LENGTH` are truncated."""
    if isinstance(value, Decimal):
        if value.adjusted() >= _MAX_DIGITS:
            value = f"{value:f}"
        else:
            value = int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        # Convert infinity and NaN to text, because JSON cannot represent them.
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
