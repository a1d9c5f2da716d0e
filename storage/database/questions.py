"""Answers one question of a stranger, in a process of its own that can be killed: `python -m` of this module.

Imports little, so that it starts fast. The process takes limits upon itself before it reads what was asked: memory,
processor time, sizes and numbers of files. It reads one line of JSON from its standard input, a `Question`, and writes
lines of JSON: `{}` when the database is open, the names of the columns, a row each, and an object in the end: `more`
and `cut`, or `error` with a sentence. It ends as soon as its standard input does, so no question outlives the process
that asked it.
"""

import json
import os
import resource
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from queue import SimpleQueue
from typing import IO, Any, NoReturn, TypedDict
from urllib.parse import quote

LONGEST_VALUE = 10_000
"""Characters of a value that are shown; what is cut ends with an ellipsis."""
MEMORY_MB = 320
"""Address space of a question's process, its interpreter included."""
LONGEST_SQLITE_VALUE = 8 << 20
"""Bytes of the longest value that SQLite makes for those who look."""

NOT_FOR_STRANGERS = (
    "^(pg_(try_)?advisory_.*|pg_(terminate|cancel)_backend|pg_notify|set_config|pg_export_snapshot"
    "|pg_(create|copy|drop)_.*replication_slot|pg_sync_replication_slots|pg_replication_.*|pg_logical_.*"
    "|lo_.*|loread|lowrite|pg_read_.*|pg_ls_.*|pg_stat_file)$"
)
"""Functions of Postgres (a pattern of their names) that do more than compute: locks, other sessions, settings, slots,
large objects, files. The role that asks may not execute them; docs/pages.md has the SQL that sees to it."""

Cell = str | int | float | bool | None

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_ALLOWED_PRAGMAS = frozenset({"table_info", "table_xinfo", "index_list", "index_info", "table_list"})

_SQLITE_HEAP_MB = 192
_SQLITE_CACHE_MB = 32
_FILE_MB = 256
"""Size of a temporary file, in which SQLite sorts what does not fit into its cache."""
_FILES = 20
_STACK_BYTES = 256 << 10
_NICENESS = 5
_BUSY_SECONDS = 10
_CONNECT_SECONDS = 10
_MOST_DIGITS = 4_000
"""Of a number that goes out as a number; Python makes no texts of longer ones."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_PLAIN_TYPES = frozenset({16, 20, 21, 23, 26, 700, 701, 1082, 1114, 1184, 1700})
"""Object ids of Postgres' types whose values are short: truth values, numbers, dates and times."""
_ROLE = """
SELECT rolsuper,
       (SELECT string_agg(DISTINCT proname, ', ' ORDER BY proname)
          FROM pg_proc
         WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ %s AND has_function_privilege(oid, 'EXECUTE'))
  FROM pg_roles
 WHERE rolname = current_user
"""


class Question(TypedDict):
    """A question to the process: one statement, of an SQLite file or of Postgres, and how many rows at most."""

    file: str | None
    connect: dict[str, Any]
    statement: str
    seconds: float
    rows: int
    cells: int


class RefusedError(Exception):
    """The question is not answered; the message is a sentence for who asked."""


def allow_reading(action: int, first: str | None, _second: str | None, _database: str | None, _view: str | None) -> int:
    """Authorizes what a statement on SQLite may do: read tables, and call functions."""
    # A pragma that is only read names its table as the second argument; it changes nothing.
    allowed = action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first in _ALLOWED_PRAGMAS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def sqlite_address(file: str) -> str:
    """Returns the URI by which SQLite opens a file read-only."""
    return f"file:{quote(os.path.abspath(file))}?mode=ro"


def main() -> NoReturn:
    """Answers the question on standard input, and ends."""
    threading.stack_size(_STACK_BYTES)
    asked: IO[bytes] = os.fdopen(0, "rb", buffering=0)
    answer = os.fdopen(1, "wb", buffering=1 << 16)
    # Before the driver is loaded, which may take seconds on a busy machine.
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked, lines), daemon=True).start()
    postgres: Any = None
    if sys.argv[1:] == ["postgresql"]:
        import psycopg as postgres
    _limit_memory()
    question: Question = json.loads(lines.get())
    _limit_time(question["seconds"])
    try:
        rows = _rows_of_sqlite(question) if postgres is None else _rows_of_postgres(postgres, question)
        end: dict[str, object] = _write(rows, question, answer)
    except RefusedError as error:
        end = {"error": str(error)}
    except MemoryError:
        end = {"error": f"this needs more memory than a question may take ({MEMORY_MB} MB): ask for less at a time"}
    except Exception as error:
        # Whatever a driver says of a question is for who asked it.
        end = {"error": _reason(error), "ended": getattr(error, "sqlstate", None) == "57014"}
    with suppress(OSError):
        answer.write(_line(end))
        answer.flush()
    # Nothing is left to be put in order, and a database that closes may take its time.
    os._exit(0)


def _read_line(asked: IO[bytes]) -> bytes:
    found = bytearray()
    while not found.endswith(b"\n"):
        piece = asked.read(1 << 16)
        if not piece:
            return b""
        found += piece
    return bytes(found)


def _listen(asked: IO[bytes], lines: "SimpleQueue[bytes]") -> None:
    """Hands the question on, and ends this process when whoever started it is gone."""
    with suppress(OSError):
        if line := _read_line(asked):
            lines.put(line)
        while asked.read(1 << 10):
            pass
    os.kill(os.getpid(), signal.SIGKILL)


def _limit_memory() -> None:
    for what, most in (
        (resource.RLIMIT_AS, MEMORY_MB << 20),
        (resource.RLIMIT_FSIZE, _FILE_MB << 20),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _limit(what, most)
    # What is asked gives way to sampling; and where memory is short, this process is ended before others.
    with suppress(OSError):
        os.nice(_NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _limit_time(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 2)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # Some systems do not have each of these.
    with suppress(OSError, ValueError):
        resource.setrlimit(what, (limit, limit))


def _rows_of_sqlite(question: Question) -> Iterator[Iterable[object]]:
    """Yields an empty row when the file is open, then the names of the columns, then the rows."""
    connection = sqlite3.connect(sqlite_address(question["file"] or ""), uri=True, timeout=_BUSY_SECONDS)
    connection.isolation_level = None
    settings = ("query_only=ON", f"cache_size={-1024 * _SQLITE_CACHE_MB}", f"hard_heap_limit={_SQLITE_HEAP_MB << 20}")
    for setting in settings:
        connection.execute(f"PRAGMA {setting}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_SQLITE_VALUE)
    connection.set_authorizer(allow_reading)
    yield ()
    cursor = connection.execute(question["statement"])
    if cursor.description is None:
        raise RefusedError("this asks for nothing: write a SELECT")
    yield [str(column[0]) for column in cursor.description]
    yield from cursor


def _rows_of_postgres(psycopg: Any, question: Question) -> Iterator[Iterable[object]]:
    """Yields as `_rows_of_sqlite`; the question is a cursor's, which cannot be but one SELECT, and rows are streamed.

    Long values are cut where they are.
    """
    milliseconds = max(1, round(question["seconds"] * 1000))
    given = dict(question["connect"])
    # The last one ends what is asked where this process is gone.
    settings = f"-c timezone=UTC -c jit=off -c statement_timeout={milliseconds} -c client_connection_check_interval=500"
    given["options"] = f"{given.get('options', '')} {settings}".strip()
    given |= {"client_encoding": "utf8", "application_name": "hierogram-ask"}
    given.setdefault("connect_timeout", _CONNECT_SECONDS)
    connection = psycopg.connect(**given)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    statement = question["statement"].replace("%", "%%")
    with connection.cursor() as cursor:
        _check_role(cursor.execute(_ROLE, (NOT_FOR_STRANGERS,)).fetchone())
        yield ()
        # With parameters, if only none, the protocol takes one statement and no more.
        cursor.execute(f"DECLARE asked NO SCROLL CURSOR FOR {statement}", (), prepare=True)
        cursor.execute("FETCH 0 FROM asked")
        columns = [(str(column.name), int(column.type_code)) for column in cursor.description]
        cursor.execute("CLOSE asked")
        yield [name for name, _ in columns]
        if not columns:
            return
        names = ", ".join(f"c{n}" for n in range(len(columns)))
        chosen = ", ".join(
            f"c{n}" if kind in _PLAIN_TYPES else f"left(CAST(c{n} AS text), {LONGEST_VALUE + 1})"
            for n, (_, kind) in enumerate(columns)
        )
        cursor.execute(
            f"DECLARE asked NO SCROLL CURSOR FOR SELECT {chosen} FROM (\n{statement}\n) AS asked({names})",
            (), prepare=True,
        )  # fmt: skip
        yield from cursor.stream(f"FETCH {question['rows'] + 1} FROM asked")


def _check_role(found: tuple[bool, str | None] | None) -> None:
    superuser, functions = found or (True, None)
    if superuser or functions:
        may = "is a superuser" if superuser else f"may execute {functions}"
        raise RefusedError(f"asking is off: the role of ask_url {may}: make it as docs/pages.md says")


def _write(rows: Iterator[Iterable[object]], question: Question, answer: IO[bytes]) -> dict[str, object]:
    """Writes columns and rows, and returns the last line: whether there are more rows, and how many values were cut."""
    next(rows)
    answer.write(b"{}\n")
    answer.flush()
    columns = list(next(rows))
    answer.write(_line(columns))
    most = min(question["rows"], max(1, question["cells"] // max(1, len(columns))))
    cut = 0

    def count(text: str) -> str:
        nonlocal cut
        cut += 1
        return text

    for number, row in enumerate(rows):
        if number == most:
            return {"more": True, "cut": cut}
        answer.write(_line([_cell(value, count) for value in row]))
    return {"more": False, "cut": cut}


def _line(value: object) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace") + b"\n"


def _cell(value: object, cut: Callable[[str], str]) -> Cell:
    """Returns the value as JSON has it; what is too long is shortened and goes through `cut`."""
    if isinstance(value, str):
        return _short(value, cut)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        # JSON has no numbers without end.
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, Decimal):
        return _number(value, cut)
    if isinstance(value, bytes | memoryview):
        return _short(f"\\x{bytes(value[: LONGEST_VALUE + 1]).hex()}", cut)
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return _short(str(value), cut)


def _number(value: Decimal, cut: Callable[[str], str]) -> Cell:
    if not value.is_finite():
        return str(float(value))
    if value.adjusted() >= _MOST_DIGITS:
        return _short(f"{value:f}", cut)
    return int(value) if value == value.to_integral_value() else _cell(float(value), cut)


def _short(text: str, cut: Callable[[str], str]) -> str:
    return text if len(text) <= LONGEST_VALUE else cut(text[:LONGEST_VALUE] + "…")


def _reason(error: BaseException) -> str:
    first = getattr(getattr(error, "diag", None), "message_primary", None)
    text = str(first or error).strip()
    if "not authorized" in text:
        return f"the database refuses this: only SELECT is allowed here, and it changes nothing ({text})"
    return f"the database says: {text}"


if __name__ == "__main__":
    main()
