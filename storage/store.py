"""The store as the rest of the program sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from hierogram.storage.aligner import aligner as alignments
from hierogram.storage.aligner.facade import HumanLinks
from hierogram.storage.database import migration
from hierogram.storage.database.backup import back_up
from hierogram.storage.database.checkpoints import log_bytes
from hierogram.storage.database.connection import (
    copy_log,
    make_engine,
    parse_url,
    reading,
    reading_snapshot,
    shown_url,
    sqlite_file,
    writing_connection,
)
from hierogram.storage.database.transactions import create_state, read_state, writing
from hierogram.storage.events.facade import Events
from hierogram.storage.exceptions import SettingsFixedError, StoreUrlError
from hierogram.storage.exports import exports
from hierogram.storage.exports.jobs import Jobs
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.grammar import queries, runs
from hierogram.storage.grammar.facade import Grammar
from hierogram.storage.operations import claims
from hierogram.storage.operations.settings import read_settings, write_settings
from hierogram.storage.pairs import withdrawals
from hierogram.storage.pairs.facade import Pairs, Receipt
from hierogram.storage.records import (
    AlignerChange,
    AlignerCounts,
    Claim,
    ExportRow,
    LinkRow,
    PairRow,
    PairUpdates,
    RuleDeltas,
    RuleRow,
    Settings,
    StoreStatus,
)

if TYPE_CHECKING:
    from hierogram.storage.checks.repair import Repair


def open_store(url: str, *, create: bool = False, settings: Settings | None = None) -> Store:
    """Opens the store at the URL; with `create`, makes it first if need be, with `settings` or the defaults.

    `url` is `sqlite:///grammar.db`, `postgresql://user@host/database`, or a path ending in `.db`. Raises
    `StoreUrlError`, `StoreMissingError`, `StoreUnavailableError`, `SchemaOutdatedError`, `SchemaTooNewError`,
    and `SettingsFixedError` where the store exists with other settings than those given.
    """
    engine = make_engine(parse_url(url))
    try:
        if create:
            _create(engine, settings)
        schema = migration.check_schema(engine)
        store = Store(engine, schema)
        if settings is not None:
            _check_settings(store, settings)
    except BaseException:
        engine.dispose()
        raise
    return store


def upgrade(url: str) -> tuple[str, str]:
    """Takes the store at the URL to this code's schema; returns the revisions before and after.

    Raises `StoreUrlError`, `StoreMissingError`, `StoreUnavailableError` or `SchemaTooNewError`.
    """
    return migration.upgrade(parse_url(url))


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


def _check_settings(store: Store, given: Settings) -> None:
    stored = store.settings()
    # The salt is the store's own affair: it changes when two rules are found to have one key.
    if replace(given, key_salt=stored.key_salt) != stored:
        raise SettingsFixedError(
            f"the store at {store.url} was made with {stored}, not with {given}: "
            "settings are fixed for its life, make another store for other settings"
        )


class Store(Pairs, Grammar, HumanLinks, Events):
    """A persistent store of sentence pairs, their derivations, and the grammar that these use.

    Every method is one transaction; methods may be called from several threads. All raise
    `StoreUnavailableError` when the database fails.
    """

    def settings(self) -> Settings:
        """The settings that the store was made with."""
        with reading(self._engine) as connection:
            return read_settings(connection)

    def position(self) -> int:
        """How many writing transactions the store has seen."""
        with reading(self._engine) as connection:
            return read_state(connection).position

    def check(self) -> None:
        """Asks the database; raises as `open_store` does where it does not answer or has another schema by now."""
        migration.check_schema(self._engine)

    def status(self) -> StoreStatus:
        """How much the store holds; takes the same time whatever its size."""
        with reading(self._engine) as connection:
            found = queries.status(connection, url=self.url, schema=self._schema)
        file = sqlite_file(self._engine.url)
        return found if file is None else replace(found, log_bytes=log_bytes(str(file)))

    def withdraw(
        self, rows: Sequence[PairRow], deltas: RuleDeltas | None = None, aligner: AlignerChange | None = None
    ) -> None:
        """Takes the pairs out, with their derivations and words, and changes the counts as that causes.

        All or nothing. Raises `PairMovedError` where a pair is gone or was sampled meanwhile, and all that `commit`
        raises.
        """
        from hierogram.storage.grammar.commits import save_derivations

        with writing(self._engine, self._memory) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            alignments.change_alignments(transaction, aligner or AlignerChange())
            withdrawals.withdraw(transaction, rows)
            save_derivations(transaction, None, deltas)

    def take_lease(self, command: str, seconds: float) -> None:
        """Claims the grammar for this store object, for so long: no one else may commit derivations meanwhile.

        `command` tells others who holds it. Raises `StoreHeldError` where someone else does.
        """
        with writing(self._engine, self._memory) as transaction:
            token = claims.take_lease(transaction, command, seconds, self.url)
        self._lease = token

    def renew_lease(self, seconds: float) -> None:
        """Holds the claim for so many seconds from now; raises `LeaseLostError` where it is gone."""
        if self._lease is not None:
            with writing_connection(self._engine) as connection:
                claims.renew_lease(connection, self._lease, seconds)

    def release_lease(self) -> None:
        """Gives the claim up."""
        token, self._lease = self._lease, None
        if token is not None:
            with writing_connection(self._engine) as connection:
                claims.release_lease(connection, token)

    def lease(self) -> Claim | None:
        """Who writes the grammar; None where nobody does."""
        with reading(self._engine) as connection:
            return claims.lease(connection)

    def close_abandoned_batches(self) -> list[int]:
        """Closes, as failed, the batches whose readers have ended without closing them; returns their ids."""
        with writing(self._engine, self._memory) as transaction:
            return claims.close_abandoned_batches(transaction)

    def align(
        self, change: AlignerChange, updates: PairUpdates | None = None, deltas: RuleDeltas | None = None
    ) -> None:
        """Writes what the aligner has done: alignments, links, its counts, and new derivations with their changes.

        Pairs with new derivations begin their schedule anew, with other random streams than before. All or nothing.
        Raises what `commit` does, and `PairMovedError` where another process has aligned a pair.
        """
        from hierogram.storage.grammar.commits import save_derivations

        with writing(self._engine, self._memory, durable=False) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            alignments.change_alignments(transaction, change)
            save_derivations(transaction, updates, deltas)
            if updates is not None:
                runs.count_restarts(transaction, updates)

    def aligner_counts(self, sources: Collection[str], targets: Collection[str]) -> AlignerCounts:
        """The aligner's counts of these words, among each other and with no word, and of all jumps."""
        with reading(self._engine) as connection:
            return alignments.aligner_counts(connection, sources, targets)

    def stalest_links(self, limit: int, below: int | None = None) -> list[LinkRow]:
        """Pairs that the aligner has aligned and has been over least often, without those on their way to settling.

        With `below`, only those that it has been over less often than that.
        """
        with reading(self._engine) as connection:
            return alignments.stalest_links(connection, limit, below)

    def links_by_id(self, ids: Collection[int]) -> list[LinkRow]:
        """Those of the pairs that the aligner has seen, in id order."""
        with reading(self._engine) as connection:
            return alignments.links_by_id(connection, ids)

    def untrained_pairs(self, after_id: int, limit: int) -> list[LinkRow]:
        """Pairs with a given alignment that the aligner has not seen, with an id above `after_id`, in id order."""
        with reading(self._engine) as connection:
            return alignments.untrained_pairs(connection, after_id, limit)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One state of the store to read from, however long that takes and whoever writes meanwhile."""
        with reading_snapshot(self._engine) as connection:
            yield Snapshot(connection, url=self.url, schema=self._schema)

    @contextmanager
    def iterate_rules(
        self,
        *,
        max_scope: int | None = None,
        hiero: bool = False,
        min_count: int = 1,
        sampled: bool = False,
    ) -> Iterator[Iterator[RuleRow]]:
        """`Snapshot.iterate_rules` in a snapshot of its own: `with store.iterate_rules() as rules:`."""
        with self.snapshot() as snapshot:
            yield snapshot.iterate_rules(max_scope=max_scope, hiero=hiero, min_count=min_count, sampled=sampled)

    @contextmanager
    def repairing(self, *, keep: bool = True) -> Iterator[tuple[Repair, Snapshot]]:
        """One transaction in which the store is mended, and what it shows meanwhile; nobody else writes.

        All or nothing, and nothing without `keep`. Raises `StoreHeldError` and `LeaseLostError` as `commit` does.
        """
        from hierogram.storage.checks.repair import Repair

        with suppress(_NotKeptError), writing(self._engine, self._memory) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            yield Repair(transaction), Snapshot(transaction.connection, url=self.url, schema=self._schema)
            if not keep:
                raise _NotKeptError

    def back_up(self, target: Path, report: Callable[[int, int], None] | None = None) -> int:
        """Writes a copy of an SQLite store, one state of it, to a file, whole or not at all; returns its bytes.

        Others may write meanwhile. A file that is there is replaced. `report` hears bytes done and bytes in all.
        Raises `BackupError`, also for a store on Postgres: `pg_dump` is for those.
        """
        with reading_snapshot(self._engine) as connection:
            return back_up(connection, target, report)

    def integrity(self) -> list[str]:
        """What is wrong between the store's tables, one line each; empty when all is well."""
        with self.snapshot() as snapshot:
            return snapshot.integrity()

    def file_damage(self) -> list[str]:
        """What makes the database itself unreadable, one line each; nothing on Postgres."""
        with self.snapshot() as snapshot:
            return snapshot.file_damage()

    def record_export(self, name: str, path: str, format: str, job: str | None = None) -> int:
        """Records that an export has begun, as a run of a job, if any; returns its id."""
        with writing(self._engine, self._memory) as transaction:
            return exports.record_export(transaction, name, path, format, job)

    def finish_export(
        self,
        export_id: int,
        *,
        rules: int | None = None,
        bytes: int | None = None,
        sha256: str | None = None,
        position: int | None = None,
        manifest: str | None = None,
        error: str | None = None,
        seconds: float | None = None,
        version: str | None = None,
    ) -> None:
        """Records how an export ended (failed if there is an `error`); raises `ExportUnknownError`.

        `version` is the name of the folder of a version, for the event.
        """
        with writing(self._engine, self._memory) as transaction:
            outcome = exports.Outcome(rules, bytes, sha256, position, manifest, error, seconds, version)
            exports.finish_export(transaction, export_id, outcome)

    def close_abandoned_exports(self) -> list[int]:
        """Closes, as failed, the exports whose processes have ended without doing so; returns their ids."""
        with writing(self._engine, self._memory) as transaction:
            return exports.close_abandoned_exports(transaction)

    def exports(self, limit: int = 20, job: str | None = None) -> list[ExportRow]:
        """The last exports (of a job), newest first."""
        with reading(self._engine) as connection:
            return exports.list_exports(connection, limit, job)

    @property
    def jobs(self) -> Jobs:
        """The jobs of the schedule."""
        return Jobs(self._engine)


class _NotKeptError(Exception):
    """Rolls a transaction back whose work was only to be seen."""


__all__ = ["Receipt", "Store", "open_store", "upgrade"]
