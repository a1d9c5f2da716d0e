"""The store as the rest of the program sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from hierogram.storage.aligner.aligner import Alignments, change_alignments
from hierogram.storage.aligner.human_links import HumanLinks
from hierogram.storage.database import migration
from hierogram.storage.database.backup import back_up
from hierogram.storage.database.checkpoints import log_bytes
from hierogram.storage.database.connection import (
    copy_log,
    make_engine,
    parse_url,
    reading_snapshot,
    shown_url,
    sqlite_file,
)
from hierogram.storage.database.migration import upgrade
from hierogram.storage.database.settings import read_settings, write_settings
from hierogram.storage.database.transactions import create_state, read_state
from hierogram.storage.events.feed import Events
from hierogram.storage.exceptions import StoreError, StoreUrlError
from hierogram.storage.exports.exports import Exports
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.grammar.occurrences import Occurrences
from hierogram.storage.grammar.rules import Grammar, status
from hierogram.storage.grammar.runs import LearningRuns
from hierogram.storage.pairs.ingest import Ingest
from hierogram.storage.pairs.pairs import Pairs
from hierogram.storage.pairs.withdrawals import Withdrawals, withdraw
from hierogram.storage.records import (
    AlignerChange,
    PairRow,
    RuleDeltas,
    Settings,
    StoreStatus,
)

if TYPE_CHECKING:
    from hierogram.storage.checks.repair import Repair


def open_store(url: str, *, create: bool = False, settings: Settings | None = None) -> Store:
    """Opens the store at the URL; with `create`, makes it first if need be, with `settings` or the defaults.

    `url` is `sqlite:///grammar.db`, `postgresql://user@host/database`, or a path ending in `.db`. Raises
    `StoreUrlError`, `StoreMissingError`, `StoreUnavailableError`, `SchemaOutdatedError`,
    and `StoreError` where a newer version made the store, or it exists with other settings than those given.
    """
    engine = make_engine(parse_url(url))
    try:
        if create:
            _create(engine, settings)
        schema = migration.check_schema(engine)
        store = Store(engine, schema)
        if settings is not None:
            stored = store.settings()
            # The salt is the store's own affair: it changes when two rules are found to have one key.
            if replace(settings, key_salt=stored.key_salt) != stored:
                raise StoreError(
                    f"the store at {store.url} was made with {stored}, not with {settings}: "
                    "settings are fixed for its life, make another store for other settings"
                )
    except BaseException:
        engine.dispose()
        raise
    return store


def _create(engine: Engine, settings: Settings | None) -> None:
    file = sqlite_file(engine.url)
    if file is not None and not file.parent.is_dir():
        raise StoreUrlError(f"{shown_url(engine.url)}: the folder {file.parent} does not exist: make it first")
    with migration.migrating(engine) as connection:
        if migration.stored_revision(connection) is None:
            migration.migrate(connection)
            write_settings(connection, settings or Settings())
            create_state(connection)
    # A new store is not in its log alone, which is easily lost when files are moved.
    copy_log(engine)


class Store(Pairs, Ingest, Withdrawals, Grammar, LearningRuns, Occurrences, Alignments, HumanLinks, Events, Exports):
    """A persistent store of sentence pairs, their derivations, and the grammar that these use.

    Every method is one transaction; methods may be called from several threads. All raise
    `StoreUnavailableError` when the database fails.
    """

    def settings(self) -> Settings:
        """The settings that the store was made with."""
        with self._reading() as connection:
            return read_settings(connection)

    def position(self) -> int:
        """Return how many writing transactions the store has seen."""
        with self._reading() as connection:
            return read_state(connection).position

    def status(self) -> StoreStatus:
        """Return how much the store holds; takes the same time whatever its size."""
        with self._reading() as connection:
            found = status(connection, url=self.url, schema=self._schema)
        file = sqlite_file(self.engine.url)
        return found if file is None else replace(found, log_bytes=log_bytes(str(file)))

    def withdraw(
        self, rows: Sequence[PairRow], deltas: RuleDeltas | None = None, aligner: AlignerChange | None = None
    ) -> None:
        """Takes the pairs out, with their derivations and words, and changes the counts as that causes.

        All or nothing. Raises `PairMovedError` where a pair is gone or was sampled meanwhile, and all that `commit`
        raises.
        """
        # Whoever only looks needs no numpy.
        from hierogram.storage.grammar.commits import save_derivations

        with self._committing() as transaction:
            change_alignments(transaction, aligner or AlignerChange())
            withdraw(transaction, rows)
            save_derivations(transaction, None, deltas)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One state of the store to read from, however long that takes and whoever writes meanwhile."""
        with reading_snapshot(self.engine) as connection:
            yield Snapshot(connection, url=self.url, schema=self._schema)

    @contextmanager
    def repairing(self, *, keep: bool = True) -> Iterator[tuple[Repair, Snapshot]]:
        """One transaction in which the store is repaired, and what it shows meanwhile; nobody else writes.

        All or nothing, and nothing without `keep`. Raises `StoreHeldError` and `LeaseLostError` as `commit` does.
        """
        from hierogram.storage.checks.repair import Repair

        with suppress(_NotKeptError), self._committing() as transaction:
            yield Repair(transaction), Snapshot(transaction.connection, url=self.url, schema=self._schema)
            if not keep:
                raise _NotKeptError

    def back_up(self, target: Path, report: Callable[[int, int], None] | None = None) -> int:
        """Writes a copy of an SQLite store, one state of it, to a file, whole or not at all; returns its bytes.

        Others may write meanwhile. A file that is there is replaced. `report` hears bytes done and bytes in all.
        Raises `StoreError`, also for a store on Postgres: `pg_dump` is for those.
        """
        with reading_snapshot(self.engine) as connection:
            return back_up(connection, target, report)

    def integrity(self) -> list[str]:
        """Return what is wrong between the store's tables, one line each; empty when all is well."""
        with self.snapshot() as snapshot:
            return snapshot.integrity()

    def file_damage(self) -> list[str]:
        """Return what makes the database itself unreadable, one line each; nothing on Postgres."""
        with self.snapshot() as snapshot:
            return snapshot.file_damage()


class _NotKeptError(Exception):
    """Rolls a transaction back whose work was only to be seen."""


__all__ = ["Store", "open_store", "upgrade"]
