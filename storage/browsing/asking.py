"""Whatever SQL people ask, answered by a database that only reads, within a time, up to a size."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from threading import Timer
from typing import Any, NamedTuple

from sqlalchemy.exc import DBAPIError

from hierogram.storage.browsing.reader import Reader
from hierogram.storage.exceptions import QuestionError, SlowQueryError, StoreUnavailableError

LONGEST_QUESTION = 10_000
"""Characters of a question."""
LONGEST_VALUE = 10_000
"""Characters of a value that are shown; what is cut ends with an ellipsis."""
MOST_CHARACTERS = 50_000_000
"""Of a whole answer."""

_CANCELLED = "57014"
_PLAIN_TYPES = frozenset({16, 20, 21, 23, 26, 700, 701, 1082, 1114, 1184, 1700})
"""Object ids of Postgres' types whose values are short: truth values, numbers, dates and times."""

Cell = str | int | float | bool | None


class Answered(NamedTuple):
    """An answer: names of columns, rows, and whether there are more than these."""

    columns: list[str]
    rows: list[list[Cell]]
    more: bool


def ask(reader: Reader, question: str, seconds: float, limit: int) -> Answered:
    """The first `limit` rows of what one SELECT finds.

    Raises `QuestionError` where the database refuses it, and `SlowQueryError` where it takes longer.
    """
    statement = question.strip().rstrip(";").strip()
    if not statement:
        raise QuestionError("there is no question: write a SELECT")
    if len(statement) > LONGEST_QUESTION or "\0" in statement:
        raise QuestionError(f"a question is a text of {LONGEST_QUESTION:,} characters at most")
    try:
        with reader.look(seconds) as look:
            driver = look.connection.connection.driver_connection
            if isinstance(driver, sqlite3.Connection):
                return _ask_sqlite(driver, statement, limit)
            return _ask_postgres(driver, statement, seconds, limit)
    except SlowQueryError:
        raise
    except (StoreUnavailableError, DBAPIError, sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise QuestionError(_reason(error)) from error


def _reason(error: BaseException) -> str:
    cause = error.__cause__ if isinstance(error, StoreUnavailableError) and error.__cause__ else error
    first = getattr(getattr(cause, "diag", None), "message_primary", None)
    text = str(first or getattr(cause, "orig", None) or cause).strip()
    if "not authorized" in text:
        return f"the database refuses this: only SELECT is allowed here, and it changes nothing ({text})"
    return f"the database says: {text}"


def _ask_sqlite(driver: sqlite3.Connection, statement: str, limit: int) -> Answered:
    cursor = driver.execute(statement)
    try:
        if cursor.description is None:
            raise QuestionError("this asks for nothing: write a SELECT")
        columns = [str(column[0]) for column in cursor.description]
        rows: list[list[Cell]] = []
        size = 0
        for row in cursor:
            if len(rows) == limit or size > MOST_CHARACTERS:
                return Answered(columns, rows, True)
            rows.append([_cell(value) for value in row])
            size += sum(len(cell) for cell in rows[-1] if isinstance(cell, str))
        return Answered(columns, rows, False)
    finally:
        cursor.close()


def _ask_postgres(driver: Any, statement: str, seconds: float, limit: int) -> Answered:
    """As a cursor's query, which cannot be but one SELECT; long values are cut where they are."""
    # The server ends a statement that takes too long, unless the statement itself has told it not to.
    watch = Timer(seconds + 1.0, _cancel, (driver,))
    watch.start()
    try:
        with driver.cursor() as cursor:
            # With parameters, if only none, the protocol takes one statement and no more.
            cursor.execute(f"DECLARE asked NO SCROLL CURSOR FOR {_plain(statement)}", (), prepare=True)
            cursor.execute("FETCH 0 FROM asked")
            columns = [(str(column.name), int(column.type_code)) for column in cursor.description]
            cursor.execute("CLOSE asked")
            if not columns:
                return Answered([], [], False)
            names = ", ".join(f"c{n}" for n in range(len(columns)))
            chosen = ", ".join(
                f"c{n}" if kind in _PLAIN_TYPES else f"left(CAST(c{n} AS text), {LONGEST_VALUE + 1})"
                for n, (_, kind) in enumerate(columns)
            )
            cursor.execute(
                f"DECLARE asked NO SCROLL CURSOR FOR SELECT {chosen} FROM (\n{_plain(statement)}\n) AS asked({names})",
                (), prepare=True,
            )  # fmt: skip
            cursor.execute(f"FETCH {limit + 1} FROM asked")
            rows = cursor.fetchall()
    finally:
        watch.cancel()
    return _cut([name for name, _ in columns], rows, limit)


def _plain(statement: str) -> str:
    """The statement for a driver that takes % for the beginning of a parameter."""
    return statement.replace("%", "%%")


def _cut(columns: list[str], rows: Sequence[Sequence[object]], limit: int) -> Answered:
    found: list[list[Cell]] = []
    size = 0
    for row in rows[:limit]:
        if size > MOST_CHARACTERS:
            return Answered(columns, found, True)
        found.append([_cell(value) for value in row])
        size += sum(len(cell) for cell in found[-1] if isinstance(cell, str))
    return Answered(columns, found, len(rows) > limit)


def _cancel(driver: Any) -> None:
    with suppress(Exception):
        driver.cancel_safe(timeout=5.0)


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, bool | int | float):
        # JSON has no numbers without end.
        return str(value) if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.is_finite() else float(value)
    if isinstance(value, bytes | memoryview):
        return _short(f"\\x{bytes(value)[:LONGEST_VALUE].hex()}")
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"
