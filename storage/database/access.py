"""A store's way to its database, which the rooms of the facade share."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from sqlalchemy import Engine

from hierogram.storage.database.connection import shown_url
from hierogram.storage.database.transactions import Memory


class Access:
    """The engine, what earlier transactions met, and the claim on the grammar, if this store object has it."""

    def __init__(self, engine: Engine, schema: str) -> None:
        self._engine = engine
        self._schema = schema
        self._memory = Memory()
        self._lease: str | None = None
        self.url = shown_url(engine.url)

    def close(self) -> None:
        """Closes the store's connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        """The store's engine, for those who look at the database itself."""
        return self._engine
