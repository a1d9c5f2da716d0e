"""Public interface of the store: `Store`, `open_store` and `upgrade`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, insert

from hierogram.storage.aligner.aligner import Alignments, change_alignments
from hierogram.storage.database import migration
from hierogram.storage.database.backup import back_up
from hierogram.storage.database.connection import (
    checkpoint,
    hide_password,
    make_engine,
    parse_url,
    reading_snapshot,
    sqlite_file,
)
from hierogram.storage.database.migration import upgrade
from hierogram.storage.database.sqlite_files import wal_bytes
from hierogram.storage.database.transactions import write_settings
from hierogram.storage.events.feed import Events
from hierogram.storage.exceptions import StoreUrlError
from hierogram.storage.exports.exports import Exports
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.grammar.rules import StoredGrammar, read_status
from hierogram.storage.pairs.ingest import Ingest
from hierogram.storage.pairs.pairs import StoredPairs, withdraw
from hierogram.storage.records.aligner import AlignerChange
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.records.operations import StoreState, StoreStatus
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.schema.tables import store_state

if TYPE_CHECKING:
    from hierogram.storage.checks.repair import Repair


def open_store(url: str, *, create: bool = False, settings: Settings | None = None) -> Store:
    """Open the store at a URL.

    `url` is `sqlite:///grammar.db`, `postgresql://user@host/database`, or a path ending in `.db`. With `create`, a
    store that does not exist is created with `settings` or the defaults. Raises `StoreUrlError`, `StoreMissingError`,
    `StoreUnavailableError`, `SchemaOutdatedError`, and `StoreError` if a newer version created the store.
    """
    engine = make_engine(parse_url(url))
    try:
        if create:
            _create(engine, settings)
        migration.check_schema(engine)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine)


def _create(engine: Engine, settings: Settings | None) -> None:
    file = sqlite_file(engine.url)
    if file is not None and not file.parent.is_dir():
        raise StoreUrlError(f"{hide_password(engine.url)}: the folder {file.parent} does not exist: create it first")
    with migration.migrating(engine) as connection:
        if migration.stored_revision(connection) is None:
            migration.migrate(connection)
            write_settings(connection, settings or Settings())
            connection.execute(insert(store_state).values(id=1, **asdict(StoreState())))
    # Leave no commits in the log, because the log is easily lost when files are moved.
    checkpoint(engine)


class Store(StoredPairs, Ingest, StoredGrammar, Alignments, Events, Exports):
    """Persistent store of sentence pairs, their derivations, and the grammar of these derivations.

    Each change is one transaction. All methods raise `StoreUnavailableError` if the database fails. Thread-safe.
    """

    def status(self) -> StoreStatus:
        """Return the size and progress of the store, from stored totals. Fast in a store of any size."""
        with self._reading() as connection:
            status = read_status(connection, self.url)
        file = sqlite_file(self.engine.url)
        return status if file is None else replace(status, wal_bytes=wal_bytes(str(file)))

    def withdraw(
        self, rows: Sequence[PairRow], deltas: RuleDeltas | None = None, aligner: AlignerChange | None = None
    ) -> None:
        """Delete pairs, and apply rule and aligner count changes, atomically. Raises the errors of `commit`."""
        from hierogram.storage.grammar.changes import save_derivations

        with self._committing() as transaction:
            change_alignments(transaction, aligner or AlignerChange())
            withdraw(transaction, rows)
            save_derivations(transaction, None, deltas)

    @contextmanager
    def repairing(self, *, commit: bool = True) -> Iterator[tuple[Repair, Snapshot]]:
        """Open a transaction for repairs, and a snapshot that shows them. Rolls back unless `commit`."""
        from hierogram.storage.checks.repair import Repair

        with suppress(_RollbackError), self._committing() as transaction:
            yield Repair(transaction), Snapshot(transaction.connection)
            if not commit:
                raise _RollbackError

    def back_up(self, target: Path, report: Callable[[int, int], None] | None = None) -> int:
        """Copy a consistent snapshot of an SQLite store to a file, atomically. Returns the size in bytes.

        Other processes may write during the backup. An existing file is replaced. `report` is called with (bytes done,
        total bytes). Raises `StoreError` if the copy fails or is damaged, or on Postgres (use `pg_dump`).
        """
        with reading_snapshot(self.engine) as connection:
            return back_up(connection, target, report)

    def file_damage(self) -> list[str]:
        """Check the database file for damage. Returns one line for each problem. Always empty for Postgres."""
        with self.snapshot() as snapshot:
            return snapshot.file_damage()


class _RollbackError(Exception):
    """Exception that rolls back the transaction of `repairing`."""


__all__ = ["Store", "open_store", "upgrade"]
