"""The store as the rest of the program sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from sqlalchemy import Engine

from hierogram.storage.aligner import aligner as alignments
from hierogram.storage.database import migration
from hierogram.storage.database.connection import (
    make_engine,
    parse_url,
    reading,
    reading_snapshot,
    shown_url,
    sqlite_file,
    writing_connection,
)
from hierogram.storage.database.transactions import Memory, create_state, read_state, writing
from hierogram.storage.exceptions import SettingsFixedError, StoreUrlError
from hierogram.storage.exports import exports
from hierogram.storage.exports.jobs import Jobs
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.grammar import occurrences as support
from hierogram.storage.grammar import queries
from hierogram.storage.operations import claims, requests
from hierogram.storage.operations.settings import read_settings, set_key_salt, write_settings
from hierogram.storage.pairs import pairs, treebanks, withdrawals
from hierogram.storage.pairs import staleness as visits
from hierogram.storage.records import (
    AddedPairs,
    AlignerChange,
    AlignerCounts,
    Claim,
    ExportRow,
    LabelRow,
    LagRow,
    LinkRow,
    NewPair,
    PairRecord,
    PairRow,
    PairUpdates,
    RejectedLine,
    RequestRow,
    RuleCounts,
    RuleDeltas,
    RuleRow,
    Settings,
    StoreStatus,
    SupportingPair,
    SweepRecord,
)

Receipt = tuple[RequestRow, int | None]
"""What to record of a request, and how many of its lines were recorded before (None: it is new)."""


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


def _check_settings(store: Store, given: Settings) -> None:
    stored = store.settings()
    # The salt is the store's own affair: it changes when two rules are found to have one key.
    if replace(given, key_salt=stored.key_salt) != stored:
        raise SettingsFixedError(
            f"the store at {store.url} was made with {stored}, not with {given}: "
            "settings are fixed for its life, make another store for other settings"
        )


class Store:
    """A persistent store of sentence pairs, their derivations, and the grammar that these use.

    Every method is one transaction; methods may be called from several threads. All raise
    `StoreUnavailableError` when the database fails.
    """

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

    def settings(self) -> Settings:
        """The settings that the store was made with."""
        with reading(self._engine) as connection:
            return read_settings(connection)

    def treebank(self) -> dict[str, object] | None:
        """How the trees of a tree grammar's store are transformed, and its known words; None before the first tree."""
        with reading(self._engine) as connection:
            return treebanks.read_treebank(connection)

    def settle_treebank(self, treebank: dict[str, object]) -> dict[str, object]:
        """Settles how trees are transformed, for the store's life; returns what holds, which may have been settled."""
        with writing(self._engine, self._memory) as transaction:
            return treebanks.settle_treebank(transaction.connection, treebank)

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
            return queries.status(connection, url=self.url, schema=self._schema)

    def vocabulary_sizes(self) -> tuple[int, int]:
        """Numbers of different source and target words."""
        with reading(self._engine) as connection:
            state = read_state(connection)
        return state.source_types, state.target_types

    def begin_ingest(self, corpus: str, origin: str, format: str) -> int:
        """Opens a batch of a corpus (made if new) for the lines of `origin`; returns the batch's id."""
        with writing(self._engine, self._memory) as transaction:
            return pairs.begin_ingest(transaction, corpus, origin, format)

    def add_pairs(
        self,
        batch_id: int,
        new_pairs: Sequence[NewPair],
        rejected: Sequence[RejectedLine] = (),
        receipt: Callable[[AddedPairs], Receipt] | None = None,
    ) -> AddedPairs:
        """Stores the pairs that are not stored yet, and keeps the rejected lines; all or nothing.

        A pair is turned down (and returned, as a rejected line) where its external id is stored with other
        content (`external-id-conflict`) or a token exceeds `pairs.MAX_TOKEN_BYTES` (`token-too-long`). `receipt`
        tells what to record of the request that brought them, in the same transaction. Raises `IngestError` where
        the batch is not open, and `RequestMovedError`.
        """
        with writing(self._engine, self._memory) as transaction:
            added = pairs.add_pairs(transaction, batch_id, new_pairs, rejected)
            if receipt:
                requests.save_request(transaction, *receipt(added))
            return added

    def finish_ingest(self, batch_id: int, error: str | None = None, receipt: Receipt | None = None) -> None:
        """Closes a batch: as done, or as failed with what went wrong; `receipt` as in `add_pairs`.

        Raises `IngestError` and `RequestMovedError`.
        """
        with writing(self._engine, self._memory) as transaction:
            pairs.finish_ingest(transaction, batch_id, error)
            if receipt:
                requests.save_request(transaction, *receipt)

    def find_request(self, key: str) -> RequestRow | None:
        """The request that was made under the key, None if there is none."""
        with reading(self._engine) as connection:
            return requests.find_request(connection, key)

    def forget_requests(self, before: datetime) -> int:
        """Forgets the requests that nobody has touched since `before`; returns how many they were."""
        with writing(self._engine, self._memory) as transaction:
            return requests.forget_requests(transaction, before)

    def pairs(self, after_id: int = 0, limit: int | None = None, states: Sequence[str] | None = None) -> list[PairRow]:
        """Pairs with an id above `after_id`, in id order, in any of `states` if given."""
        with reading(self._engine) as connection:
            return pairs.pairs_after(connection, after_id, limit, states)

    def pairs_by_id(self, ids: Sequence[int]) -> list[PairRow]:
        """The pairs with these ids, in id order; ids without a pair are left out."""
        with reading(self._engine) as connection:
            return pairs.pairs_by_id(connection, ids)

    def find_pair(self, pair_id: int) -> PairRecord | None:
        """The pair as people ask for it, None if the store does not hold it."""
        with reading(self._engine) as connection:
            return pairs.find_pair(connection, pair_id)

    def stalest_pairs(self, limit: int) -> list[PairRow]:
        """The settled pairs that were sampled longest ago, those first."""
        with reading(self._engine) as connection:
            return visits.stalest_pairs(connection, limit)

    def count_pairs(self, states: Sequence[str] | None = None) -> int:
        """How many pairs there are, in any of `states` if given."""
        with reading(self._engine) as connection:
            return pairs.count_pairs(connection, states)

    def lag(self) -> LagRow:
        """How far sampling is behind; takes the same time whatever the store's size."""
        with reading(self._engine) as connection:
            return pairs.lag(connection)

    def rule_counts(self) -> RuleCounts:
        """Every rule with a positive count, as arrays."""
        from hierogram.storage.grammar.counts import rule_counts

        with reading(self._engine) as connection:
            return rule_counts(connection)

    def commit(
        self,
        updates: PairUpdates | None = None,
        deltas: RuleDeltas | None = None,
        sweeps: Sequence[SweepRecord] = (),
        labels: Sequence[LabelRow] = (),
    ) -> None:
        """Writes new derivations, the count changes that they cause, the sweeps that led there, and what is learned of
        the labels of a tree grammar.

        All or nothing. Raises `PairMissingError`, `PairMovedError`, `CountError` where a count would become
        negative, `KeyCollisionError` where a key is stored with another rule, `StoreHeldError` where another
        process has the lease, and `LeaseLostError` where this store object had it.
        """
        from hierogram.storage.grammar import commits

        with writing(self._engine, self._memory, durable=False) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            commits.save_derivations(transaction, updates, deltas)
            commits.append_sweeps(transaction, sweeps)
            commits.save_labels(transaction, labels)

    def labels(self) -> list[LabelRow]:
        """What is known of the labels of a tree grammar, in the order of their names."""
        with reading(self._engine) as connection:
            return queries.read_labels(connection)

    def rekey(self, salt: int, keys: Iterable[tuple[int, int, int]]) -> None:
        """Gives every rule (by id) its new key (high, low), and records the salt that made them.

        All or nothing. Raises `RekeyError` where the keys do not cover the stored rules one to one, `StoreHeldError`
        and `LeaseLostError` as `commit` does.
        """
        from hierogram.storage.grammar.commits import rekey

        with writing(self._engine, self._memory) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            rekey(transaction, keys)
            set_key_salt(transaction.connection, salt)

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

    def request_withdrawals(self, pair_ids: Sequence[int]) -> list[int]:
        """Asks whoever writes the grammar to withdraw the pairs; returns the ids of those that are stored."""
        with writing(self._engine, self._memory) as transaction:
            return withdrawals.request(transaction, pair_ids)

    def pending_withdrawals(self, limit: int) -> list[int]:
        """Ids of pairs that were asked to leave and are still there, in their order."""
        with reading(self._engine) as connection:
            return withdrawals.pending(connection, limit)

    def choose_pairs(
        self, *, corpus: str | None = None, origin: str | None = None, external_ids: Sequence[str] = ()
    ) -> list[int]:
        """Ids of the pairs that meet all conditions given, in their order."""
        with reading(self._engine) as connection:
            return withdrawals.chosen(connection, corpus, origin, external_ids)

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

        All or nothing. Raises what `commit` does, and `PairMovedError` where another process has aligned a pair.
        """
        from hierogram.storage.grammar.commits import save_derivations

        with writing(self._engine, self._memory, durable=False) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            alignments.change_alignments(transaction, change)
            save_derivations(transaction, updates, deltas)

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

    def find_rules(
        self,
        source: str | None = None,
        target: str | None = None,
        *,
        words: Sequence[str] = (),
        source_words: Sequence[str] = (),
        target_words: Sequence[str] = (),
        limit: int = 20,
        offset: int = 0,
        after: tuple[int, str, str] | None = None,
    ) -> list[RuleRow]:
        """Rules in current use that meet all conditions, most often used first.

        `source` and `target` are whole sides in the notation of rules; `words` have to occur on either side,
        `source_words` and `target_words` on theirs. `after` is count, source and target of the rule after which to go
        on, the last of an earlier answer.
        """
        with reading(self._engine) as connection:
            return queries.find_rules(
                connection,
                source=source,
                target=target,
                words=words,
                source_words=source_words,
                target_words=target_words,
                limit=limit,
                offset=offset,
                after=after,
            )

    def unindexed_pairs(self, after_id: int = 0, limit: int = 1_000) -> tuple[int, list[PairRow]]:
        """The position, and pairs above `after_id` whose present derivation is not in the index of rules' pairs."""
        with reading(self._engine) as connection:
            return support.unindexed_pairs(connection, after_id, limit)

    def count_unindexed(self) -> int:
        """How many pairs have a derivation that is not in the index of rules' pairs."""
        with reading(self._engine) as connection:
            return support.count_unindexed(connection)

    def index_pairs(
        self, pair_ids: Sequence[int], position: int, uses: Iterable[tuple[int, int, int, int]], key_salt: int
    ) -> int:
        """Indexes pairs by the rules of their derivations at a store position; returns how many were.

        `uses` holds (pair id, key high, key low, uses), keys made with `key_salt`. Pairs that have been sampled after
        that position are left as they were, and all of them where the store's salt is another one by now.
        """
        with writing(self._engine, self._memory) as transaction:
            return support.index_pairs(transaction, pair_ids, position, uses, key_salt)

    def supporting_pairs(self, source: str, target: str, limit: int = 20) -> list[SupportingPair]:
        """Indexed pairs whose derivation uses the rule, in id order."""
        with reading(self._engine) as connection:
            return support.supporting_pairs(connection, source, target, limit)

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

    def integrity(self) -> list[str]:
        """What is wrong between the store's tables, one line each; empty when all is well."""
        with self.snapshot() as snapshot:
            return snapshot.integrity()

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
    ) -> None:
        """Records how an export ended (failed if there is an `error`); raises `ExportUnknownError`."""
        with writing(self._engine, self._memory) as transaction:
            exports.finish_export(
                transaction,
                export_id,
                rules=rules,
                bytes=bytes,
                sha256=sha256,
                position=position,
                manifest=manifest,
                error=error,
                seconds=seconds,
            )

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

    @property
    def engine(self) -> Engine:
        """The store's engine, for those who look at the database itself."""
        return self._engine
