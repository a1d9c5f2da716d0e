"""Those who only look: one state of the store to read from, and the statements by which it was read, to be shown."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Connection, text

from hierogram.storage.database.connection import POSTGRES, parse_url, shown_url
from hierogram.storage.database.loading import rows_of
from hierogram.storage.database.migration import check_schema
from hierogram.storage.database.read_only import looking, make_read_only_engine
from hierogram.storage.operations.settings import read_settings
from hierogram.storage.records import Settings

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
        """What the statement finds; its parameters are written `:name`. Without `shown` it is not kept."""
        if shown:
            self.asked.append(readable(statement, values))
        return rows_of(self.connection, text(statement), values)

    def row(self, statement: str, shown: bool = True, /, **values: Value) -> tuple[Any, ...] | None:
        """The first row that the statement finds."""
        return next(iter(self.rows(statement, shown, **values)), None)

    def settings(self) -> Settings:
        """What the store was made with."""
        return read_settings(self.connection)


class Reader:
    """A way into a store on which nothing can be written; from any thread.

    Raises, as `open_store` does, where there is no store of this version's schema at the URL.
    """

    def __init__(self, url: URL | str) -> None:
        parsed = parse_url(url) if isinstance(url, str) else url
        self.url = shown_url(parsed)
        self.engine = make_read_only_engine(parsed)
        try:
            # The engine proper, as errors are to name the store and not the way to it.
            check_schema(self.engine)
        except BaseException:
            self.engine.dispose()
            raise

    @contextmanager
    def look(self, seconds: float = PAGE_SECONDS) -> Iterator[Look]:
        """One state of the store; raises `SlowQueryError` where it takes longer than so many seconds."""
        with looking(self.engine, seconds) as connection:
            yield Look(connection)

    def close(self) -> None:
        """Closes the connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
