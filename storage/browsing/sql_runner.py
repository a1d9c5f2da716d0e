"""Example queries, and execution of users' SQL, read-only in child processes with resource limits."""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import IO, Any, NamedTuple

from sqlalchemy import URL

from hierogram.storage.database import untrusted_sql
from hierogram.storage.database.connection import POSTGRES, parse_url, sqlite_file
from hierogram.storage.database.postgres import connection_arguments, local_settings, transaction_settings
from hierogram.storage.exceptions import QueryError, StoreUnavailableError, StoreUrlError, WorkerProcessError
from hierogram.storage.worker_process import WorkerProcess

MAX_QUERY_LENGTH = 10_000
MAX_BYTES = 16 << 20
"""Maximum size of a result in bytes. Further rows are omitted."""
MAX_CELLS = 50_000
"""Maximum number of values of a result. Further rows are omitted, but not the first row."""
_NO_SQL_URL = (
    "SQL queries are disabled: on Postgres they require a separate role, so that they cannot block the daemon: create "
    "it as described in docs/pages.md and set sql_url in [http]"
)
_WRONG_SQL_URL = "SQL queries are disabled: sql_url in [http] must be the URL of a Postgres database, see docs/pages.md"

_START_SECONDS = 30.0
"""Time limit for starting the process and opening the database, in addition to the query's own limit."""
_CONNECT_SECONDS = "10"
_IN_MEMORY = 256 << 10
"""Size in bytes above which a result moves from memory to a temporary file."""


@dataclass(frozen=True)
class SpooledResult:
    """Result of a query. `more` is True if rows were omitted. Close it after use.

    `truncated` is the number of truncated values, or 0 if rows were omitted because the result was too large.
    """

    columns: list[str]
    more: bool
    truncated: int
    file: IO[bytes]

    def lines(self) -> Iterator[bytes]:
        """Yield each row as a line of JSON, read from the file."""
        self.file.seek(0)
        return iter(self.file)

    @cached_property
    def rows(self) -> list[list[untrusted_sql.Cell]]:
        """All rows. Use `lines` for a large result."""
        return [json.loads(line) for line in self.lines()]

    def close(self) -> None:
        """Delete the file with the rows."""
        self.file.close()


class SqlRunner:
    """Runner of SQL queries on the store at a URL. Thread-safe.

    On Postgres, queries connect with the role of `sql_url`. With `own_role`, they connect with the role of the store's
    URL, for users who know its password. If no role is usable, all queries are refused, and `refusal` is the reason.
    """

    def __init__(self, store: URL | str, sql_url: str | None = None, *, own_role: bool = False) -> None:
        url = parse_url(store) if isinstance(store, str) else store
        self._own_role = own_role
        if own_role:
            sql_url = url.render_as_string(hide_password=False)
        file = sqlite_file(url)
        self._file = None if file is None else str(file.absolute())
        self._connect: dict[str, Any] = {}
        self._settings = ""
        self.refusal: str | None = None
        if self._file is None:
            self.refusal = _NO_SQL_URL if sql_url is None else _WRONG_SQL_URL
            # Do not show errors, because their messages may contain the password.
            with suppress(StoreUrlError, ValueError):
                role = parse_url(sql_url or "")
                if role.get_backend_name() == POSTGRES:
                    self._connect = connection_arguments(
                        role, application_name="hierogram-sql", connect_timeout=_CONNECT_SECONDS
                    )
                    self._settings = local_settings(transaction_settings(role))
                    self.refusal = None
        self._lock = threading.Lock()
        self._next: WorkerProcess | None = None

    def query(
        self, sql: str, seconds: float, limit: int, cells: int = MAX_CELLS, size: int = MAX_BYTES
    ) -> SpooledResult:
        """Return the first rows of a SELECT, up to `limit` rows, `cells` values and `size` bytes.

        Raises `QueryError` if the database rejects the query or the query needs too many resources, `SlowQueryError` if
        the query takes longer than `seconds`, and `StoreUnavailableError` if no process can be started.
        """
        if self.refusal is not None:
            raise QueryError(self.refusal)
        statement = sql.strip().rstrip(";").strip()
        if not statement:
            raise QueryError("empty query: write a SELECT")
        if len(statement) > MAX_QUERY_LENGTH:
            raise QueryError(
                f"the query has {len(statement):,} characters, the limit is {MAX_QUERY_LENGTH:,}: shorten it"
            )
        if "\0" in statement:
            raise QueryError("the query contains a NUL character: remove it")
        child = self._take_next() or self._make_child()
        try:
            with closing(child):
                return self._run(child, statement, seconds, limit, cells, size)
        except WorkerProcessError as error:
            raise QueryError(
                "the query process died, probably because the query exceeded its memory limit: select fewer rows or "
                "columns"
            ) from error
        finally:
            # Start the process of the next query, because loading the Postgres driver takes a quarter of a second.
            with self._lock, suppress(StoreUnavailableError):
                if self._file is None and self._next is None:
                    child = self._make_child()
                    child.start()
                    self._next = child

    def _run(
        self, child: WorkerProcess, statement: str, seconds: float, limit: int, cells: int, size: int
    ) -> SpooledResult:
        deadline = time.monotonic() + _START_SECONDS

        def check_time() -> None:
            if time.monotonic() > deadline:
                raise untrusted_sql.time_limit_error(seconds)

        result_bytes = 0
        with ExitStack() as opened:
            output = opened.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            arguments = (self._file, self._connect, self._settings, statement, seconds, limit, cells, self._own_role)
            with closing(child.run(check_time, untrusted_sql.run_query, *arguments)) as pieces:
                # Start the time of the query after the first item, which reports that the database is open.
                next(pieces)
                deadline = time.monotonic() + seconds
                columns = next(pieces)
                assert isinstance(columns, list)
                for piece in pieces:
                    if isinstance(piece, tuple):
                        has_more, truncated = piece
                        break
                    result_bytes += len(piece)
                    if result_bytes > size:
                        has_more, truncated = True, 0
                        break
                    assert isinstance(piece, bytes)
                    try:
                        output.write(piece)
                    except OSError as error:
                        reason = error.strerror or error
                        raise StoreUnavailableError(
                            f"the result cannot be stored ({reason}): free disk space, or select fewer rows"
                        ) from error
                    check_time()
                else:
                    raise AssertionError("the query process sent no counts after the rows")
            # Leave the file open for the caller.
            opened.pop_all()
            return SpooledResult(columns, has_more, truncated, output)

    def close(self) -> None:
        """End the process that was started for the next query. A later `query` starts another process."""
        child = self._take_next()
        if child is not None:
            child.close()

    def _take_next(self) -> WorkerProcess | None:
        with self._lock:
            child, self._next = self._next, None
        return child

    def _make_child(self) -> WorkerProcess:
        driver = ("psycopg",) if self._file is None else ()
        # Do not limit the time without output, because the query has its own time limit.
        return WorkerProcess(untrusted_sql.MEMORY_MB << 20, float("inf"), (untrusted_sql.__name__, *driver))


class Recipe(NamedTuple):
    """Example query of docs/sql.md: a question, and its SQL for both databases."""

    title: str
    sql: str


@cache
def cookbook() -> tuple[Recipe, ...]:
    """Return the queries of `cookbook.sql` in order. A comment with the title precedes each query."""
    text = files("hierogram.storage.browsing").joinpath("cookbook.sql").read_text(encoding="utf-8")
    queries = []
    for part in text.split("-- ")[1:]:
        title, _, sql = part.partition("\n")
        queries.append(Recipe(title.strip(), sql.strip()))
    return tuple(queries)
