"""Learner: pairs and counts in memory, sweeps, commits, withdrawal, and the lease.

Sampling does not update the index of pairs by their rules, because each commit would then write a row for every rule of
every pair. `learn` indexes all pairs at its end. The daemon indexes some pairs whenever it resamples settled pairs.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import (
    Averages,
    Chain,
    ChainConfig,
    LoadedBatch,
    State,
    StoredSamples,
    Sweep,
    SweepRequest,
    find_kind,
    load_stored,
)
from hierogram.daemon.learning.stored_links import make_withdrawal
from hierogram.daemon.prefetch import prefetch
from hierogram.samplers.counts.occurrences import Occurrences
from hierogram.samplers.counts.texts import select_texts, text_order
from hierogram.samplers.grammar.columns import Blobs, empty_blobs, slice_blobs
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.exceptions import LeaseLostError, StoreError, StoreUnavailableError
from hierogram.storage.options import Option
from hierogram.storage.records.columns import PairUpdates, RuleDeltas, join_deltas
from hierogram.storage.records.grammar import LabelRow, LearningRun, SweepRecord
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

LEASE_SECONDS = 60.0
_RENEWAL_SECONDS, _RETRY_SECONDS, _RELEASE_SECONDS = 15.0, 5.0, 5.0


@contextmanager
def holding_lease(
    store: Store, command: str, report: Callable[[str | None], None] = lambda _problem: None
) -> Iterator[None]:
    """Hold and renew the lease. `report` gets each renewal's error or None. Raises `StoreHeldError`."""
    store.take_lease(command, LEASE_SECONDS)
    stopped = threading.Event()

    def renew() -> None:
        pause = _RENEWAL_SECONDS
        while not stopped.wait(pause):
            try:
                store.renew_lease(LEASE_SECONDS)
            except StoreUnavailableError as error:
                report(str(error))
                pause = _RETRY_SECONDS
            except LeaseLostError as error:
                report(str(error))
                break
            else:
                report(None)
                pause = _RENEWAL_SECONDS
        # Ignore an unavailable database, because an unreleased lease expires by itself.
        with suppress(StoreError):
            store.release_lease()

    renewer = threading.Thread(target=renew, name="lease", daemon=True)
    renewer.start()
    try:
        yield
    finally:
        stopped.set()
        # Limit the wait, because another writer may block the release. An unreleased lease expires by itself.
        renewer.join(_RELEASE_SECONDS)


_WORDS_PER_BATCH = 4_000_000
_PAIRS_PER_READ = 5_000
_PAIRS_PER_COMMIT = 4_096


@dataclass(slots=True)
class ResidentBatch:
    """Pairs in memory with their current and last committed derivations, averages and sweeps.

    `sweeps` int64[P] counts the sweeps of each pair. `committed` bool[P] is True for pairs with a committed derivation.
    """

    rows: list[PairRow]
    loaded: LoadedBatch
    state: State
    averages: Averages
    sweeps: NDArray[np.int64]
    committed_state: State
    committed: NDArray[np.bool_]
    committed_averages: Blobs
    committed_sweeps: NDArray[np.int64]
    settings: Settings

    @classmethod
    def from_rows(cls, rows: list[PairRow], settings: Settings) -> "ResidentBatch":
        """Load pairs. Pairs without a derivation get an initial state. Raises `DamagedPairsError`."""
        loaded, state, records, is_committed, averages = load_stored(rows, settings, averages=True)
        sweeps = np.array([row.sweep for row in rows], np.int64)
        return cls(rows, loaded, state, averages, sweeps, state.copy(), is_committed, records, sweeps.copy(), settings)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Ids of the pairs, ascending."""
        return np.array([row.id for row in self.rows], np.int64)

    def commit(
        self, store: Store, records: list[SweepRecord], labels: Sequence[LabelRow] = (), run: LearningRun | None = None
    ) -> None:
        """Write derivations, averages, rule counts, records, labels and run progress in one transaction."""
        averages = self.loaded.write_averages(self.averages)
        # Prepare each part while the part before it is stored.
        with closing(prefetch(self._parts(averages))) as parts:
            store.commit(parts, records, labels, run)
        self.committed_state = self.state.copy()
        self.committed = np.ones(len(self.rows), np.bool_)
        self.committed_averages = averages
        self.committed_sweeps = self.sweeps.copy()

    def _parts(self, averages: Blobs) -> Iterator[tuple[PairUpdates, RuleDeltas]]:
        schedule = find_kind(self.settings).schedule(self.settings)
        stages = schedule.reached(self.sweeps)
        states = self.loaded.encode(self.state)
        ids = self.ids
        for first in range(0, len(ids), _PAIRS_PER_COMMIT):
            last = first + _PAIRS_PER_COMMIT
            part = slice(first, last)
            sweeps, expected = self.sweeps[part], self.committed_sweeps[part]
            blobs = slice_blobs(states, first, last), slice_blobs(averages, first, last)
            updates = PairUpdates(ids[part], *blobs, sweeps >= schedule.burn_in, stages[part], sweeps, expected)
            rules = self.loaded.rule_deltas(self._committed(first, last), StoredSamples(self.state, blobs[1]), first)
            # Sort by text, so that rules queried together are stored together, and the index of sources is filled in
            # order.
            order = text_order(rules.source, rules.keys)
            yield updates, rules.at(order, select_texts(rules.source, order), select_texts(rules.target, order))

    def rules(self) -> RuleDeltas:
        """Return the rules of the current derivations and averages, with their counts."""
        return self.loaded.rule_deltas(None, StoredSamples(self.state, self.loaded.write_averages(self.averages)))

    def removal_deltas(self) -> RuleDeltas:
        """Return the changes of rule counts that remove the committed samples of all pairs."""
        return self.loaded.rule_deltas(self._committed(0, len(self.rows)), None)

    def _committed(self, first: int, last: int) -> StoredSamples:
        records = slice_blobs(self.committed_averages, first, last)
        return StoredSamples(self.committed_state, records, self.committed[first:last])


def read_batches(
    store: Store, states: list[str] | None = None, after_id: int = 0, undamaged: bool = False
) -> Iterator[list[PairRow]]:
    """Yield batches of stored pairs in the `states` (default: all) with ids above `after_id`, in id order.

    The number of words per batch is limited. If the kind of grammar needs all pairs together, `states` and `after_id`
    are ignored, and the only batch contains all pairs. With `undamaged`, pairs recorded as damaged are excluded.
    """
    most_words: float = _WORDS_PER_BATCH
    if find_kind(store.settings()).needs_all_pairs:
        states, after_id, most_words = None, 0, float("inf")
    batch: list[PairRow] = []
    words = 0
    while rows := store.pairs(after_id=after_id, limit=_PAIRS_PER_READ, states=states, undamaged=undamaged):
        for row in rows:
            size = row.source.count(" ") + row.target.count(" ") + 2
            if batch and words + size > most_words:
                yield batch
                batch, words = [], 0
            batch.append(row)
            words += size
        after_id = rows[-1].id
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class RealignedPairs:
    """Pairs with new alignments, and therefore new forests, with their old and new derivations."""

    before: ResidentBatch
    after: ResidentBatch

    @classmethod
    def from_rows(cls, rows: Sequence[PairRow], alignments: Mapping[int, str], settings: Settings) -> "RealignedPairs":
        """Load pairs that have derivations, with their old and with their new `alignments` (by pair id)."""
        restarted: dict[str, Any] = {"state": WAITING, "stage": 0, "sweep": 0, "current": None, "averages": None}
        new_rows = [row._replace(alignment=alignments[row.id], restarts=row.restarts + 1, **restarted) for row in rows]
        return cls(ResidentBatch.from_rows(list(rows), settings), ResidentBatch.from_rows(new_rows, settings))

    def updates(self) -> PairUpdates:
        """Return the updates with the new derivations. The pairs restart their schedule."""
        size = len(self.before.rows)
        return PairUpdates(
            ids=self.before.ids,
            states=self.after.loaded.encode(self.after.state),
            averages=empty_blobs(size),
            burned_in=np.zeros(size, np.bool_),
            stages=np.ones(size, np.int64),
            sweeps=np.zeros(size, np.int64),
            expected_sweeps=self.before.committed_sweeps,
        )

    def deltas(self) -> RuleDeltas:
        """Return the changes of rule counts from the old derivations and averages to the new derivations."""
        loaded = self.after.loaded
        initial_samples = StoredSamples(self.after.state, empty_blobs(loaded.batch.size))
        return join_deltas([self.before.removal_deltas(), loaded.rule_deltas(None, initial_samples)])

    def apply_to(self, chain: Chain) -> None:
        """Apply the changes to the counts of a chain."""
        chain.change_counts(self.before.loaded, self.before.state, -1)
        chain.change_counts(self.after.loaded, self.after.state, 1)


PAIRS_PER_TRANSACTION = 2_000


def withdraw(store: Store, rows: list[PairRow], settings: Settings) -> ResidentBatch | None:
    """Remove pairs in one transaction. Returns the pairs with derivations, or None if there are none."""
    derived = [row for row in rows if row.current is not None]
    batch = ResidentBatch.from_rows(derived, settings) if derived else None
    store.withdraw(rows, batch.removal_deltas() if batch else None, make_withdrawal(store, [row.id for row in rows]))
    return batch


def split_transactions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split the ids of pairs into one group per transaction."""
    for first in range(0, len(ids), PAIRS_PER_TRANSACTION):
        yield ids[first : first + PAIRS_PER_TRANSACTION]


def withdraw_all(store: Store, ids: Sequence[int], report: Callable[[int], None]) -> int:
    """Remove pairs and return their number. `report` gets the number done. No other writer may exist."""
    settings = store.settings()
    withdrawn = 0
    for number, chunk in enumerate(split_transactions(ids)):
        rows = store.pairs_by_id(chunk)
        withdraw(store, rows, settings)
        withdrawn += len(rows)
        report(number * PAIRS_PER_TRANSACTION + len(chunk))
    return withdrawn


def withdraw_requested(store: Store) -> None:
    """Remove the undamaged pairs with a pending withdrawal request."""
    settings = store.settings()
    while ids := store.pending_withdrawals(PAIRS_PER_TRANSACTION):
        withdraw(store, store.pairs_by_id(ids), settings)


SECONDS_PER_COMMIT = 180.0
"""Time in seconds after which finished sweeps are committed. It increases if commits are slow."""
_MIN_INTERVAL_PER_COMMIT = 8
"""Minimum of the time between two commits, as a multiple of the duration of a commit."""


@dataclass(frozen=True, slots=True)
class LearnProgress:
    """Progress of learning, with the latest values. `done` and `total` count sweeps of single pairs.

    `phase` is "pairs" during a sweep, "sweep" after a sweep, or "commit". `stage` is the highest stage of the schedule
    that a pair in the sweep has reached, or 0 during a commit.
    """

    phase: str
    sweep: int
    stage: int
    done: int
    total: int
    log_likelihood: float | None
    rules_in_use: int


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """Options of learning."""

    threads: int | None = None
    """Number of threads, or None for one per core."""
    report: Callable[[LearnProgress], None] | None = None
    likelihood_every: Annotated[int, Option("Sweeps between computations of the log-likelihood.", min=1)] = 10
    """Number of sweeps between computations of the log-likelihood. A computation reads all rules."""
    likelihood_seconds: float = 0.0
    """Minimum time in seconds between two computations of the log-likelihood."""
    stop: Callable[[], bool] = field(default=lambda: False)
    """Called at least after each sweep. If it returns True, learning commits and ends."""
    blocks: Blocks | None = None
    """Sizes of blocks, or None to select them by the number of pairs."""
    make_chain: Callable[[Store, ChainConfig], Chain] | None = None
    """Factory of the chain, or None for `Kind.chain`."""


class Learner(AbstractContextManager["Learner"]):
    """Sampler of stored pairs with counts in memory. Only one learner may write to a store."""

    def __init__(self, store: Store, options: LearnOptions | None = None) -> None:
        self.store = store
        self.options = options or LearnOptions()
        self.settings = store.settings()
        self.kind = find_kind(self.settings)
        self.schedule = self.kind.schedule(self.settings)
        config = ChainConfig(self.options.threads or os.cpu_count() or 1, self.options.blocks)
        self.chain = (self.options.make_chain or self.kind.chain)(store, config)
        self._measured_at = float("-inf")
        self._open_records: list[SweepRecord] = []
        self._last_commit = time.monotonic()
        self.log_likelihoods: list[tuple[int, float]] = []
        self.log_likelihood: float | None = None
        self.rules_in_use = 0
        self.sampling_seconds = 0.0
        self.sweeps = 0
        self.pair_sweeps = 0
        self.total_pair_sweeps = 0

    def __exit__(self, *exception: object) -> None:
        self.chain.close()

    def _report(self, phase: str, stage: int, done: int) -> None:
        if self.options.report:
            work = self.sweeps, stage, done, self.total_pair_sweeps
            self.options.report(LearnProgress(phase, *work, self.log_likelihood, self.rules_in_use))

    def measure(self) -> float:
        """Compute the natural log-likelihood of all rule tokens, and append it to `log_likelihoods`."""
        self.log_likelihood = self.chain.log_likelihood()
        self.rules_in_use = self.chain.rule_types
        self.log_likelihoods.append((self.sweeps, self.log_likelihood))
        self._measured_at = time.monotonic()
        return self.log_likelihood

    def _may_measure(self) -> bool:
        return time.monotonic() - self._measured_at >= self.options.likelihood_seconds

    def open(self, rows: list[PairRow]) -> ResidentBatch:
        """Load pairs and count derivations that are not stored. Some kinds need all pairs in one batch."""
        batch = ResidentBatch.from_rows(rows, self.settings)
        self.chain.add_pairs(batch.loaded, batch.state, batch.committed)
        return batch

    def withdraw(self, rows: list[PairRow]) -> None:
        """Remove pairs from the store and the counts. The pairs must not be in an open batch."""
        removed = withdraw(self.store, rows, self.settings)
        if removed is not None:
            self.chain.change_counts(removed.loaded, removed.state, -1)

    def index(self, batch: ResidentBatch) -> None:
        """Index the pairs of a batch by their rules, until `LearnOptions.stop` returns True."""
        position, salt, all_ids = self.store.position(), self.settings.key_salt, batch.ids
        uses = _list_uses(all_ids, batch.loaded.occurrences(batch.state))
        for first in range(0, len(all_ids), _PAIRS_PER_INDEXING):
            ids = all_ids[first : first + _PAIRS_PER_INDEXING].tolist()
            bounds = slice(*np.searchsorted(uses[:, 0], (ids[0], ids[-1] + 1)))
            self.store.index_pairs(ids, position, uses[bounds], salt)
            if self.options.stop():
                break

    def sweep(
        self,
        batch: ResidentBatch,
        target_sweeps: NDArray[np.int64],
        should_stop: Callable[[], bool] | None = None,
        run_progress: Callable[[int], LearningRun] | None = None,
        leave_open: bool = False,
    ) -> None:
        """Sweep over a batch until each pair has `target_sweeps` sweeps. Commits at intervals and at the end.

        If `should_stop` (default `LearnOptions.stop`) returns True after a sweep, the method commits and returns.
        `run_progress` returns the progress to commit with the sweeps, given the number of sweeps of this call. With
        `leave_open`, the next call for the batch or `commit_open` commits the last sweeps, unless a commit is due or
        the method was stopped.
        """
        first_sweep = self.sweeps
        should_stop = should_stop or self.options.stop
        run_sweep = self.chain.sweep(batch.loaded)
        records, self._open_records = self._open_records, []
        last_commit = self._last_commit if records else time.monotonic()
        commit_interval = SECONDS_PER_COMMIT
        ended = False

        def commit() -> None:
            progress = run_progress and run_progress(self.sweeps - first_sweep)
            batch.commit(self.store, records, self.chain.labels(), progress)

        while not ended and (active := batch.sweeps < target_sweeps).any():
            records.append(self._sweep_once(run_sweep, batch, active))
            ended = should_stop()
            is_due = time.monotonic() - last_commit > commit_interval
            if is_due and not ended and (batch.sweeps < target_sweeps).any():
                started = time.monotonic()
                batch.state, batch.averages = self.chain.gather(batch.state, batch.averages)
                commit()
                records = []
                last_commit = time.monotonic()
                # Commit less often if commits are slow, so that most of the time is spent on sampling.
                commit_interval = max(commit_interval, _MIN_INTERVAL_PER_COMMIT * (last_commit - started))
        if records:
            batch.state, batch.averages = self.chain.gather(batch.state, batch.averages)
            if records[-1].log_likelihood is None and self._may_measure():
                records[-1] = records[-1]._replace(log_likelihood=self.measure())
            if leave_open and not ended and time.monotonic() - last_commit <= commit_interval:
                self._open_records, self._last_commit = records, last_commit
                return
            self._report("commit", 0, self.pair_sweeps)
            commit()

    def commit_open(self, batch: ResidentBatch) -> None:
        """Commit the sweeps that `sweep` left open."""
        records, self._open_records = self._open_records, []
        if records:
            batch.commit(self.store, records, self.chain.labels())

    def _sweep_once(self, run_sweep: Sweep, batch: ResidentBatch, active: NDArray[np.bool_]) -> SweepRecord:
        initial_likelihood = self.log_likelihood if self.sweeps == 0 else None
        batch.sweeps[active] += 1
        stage = int(self.schedule.reached(batch.sweeps[active]).max())
        active_pairs = int(active.sum())
        previous_pair_sweeps = self.pair_sweeps

        def report(pairs: int) -> None:
            self._report("pairs", stage, previous_pair_sweeps + pairs * active_pairs // len(batch.sweeps))

        started = time.perf_counter()
        request = SweepRequest(batch.sweeps, active, active & (batch.sweeps > self.schedule.burn_in))
        batch.state, info = run_sweep(batch.state, batch.averages, request, report)
        seconds = time.perf_counter() - started
        self.sampling_seconds += seconds
        self.sweeps += 1
        self.pair_sweeps += active_pairs
        due = self.sweeps % self.options.likelihood_every == 0 and self._may_measure()
        likelihood = self.measure() if due else None
        record = SweepRecord(stage, active_pairs, likelihood, *info, seconds, initial_likelihood)
        self._report("sweep", stage, self.pair_sweeps)
        return record


_PAIRS_PER_INDEXING = 8_192
_PAIRS_PER_CHECK = 500
"""Number of pairs that `IncrementalIndexer` indexes between two checks of the deadline."""


def index_occurrences(
    store: Store, report: Callable[[int], None] | None = None, stop: Callable[[], bool] = lambda: False
) -> int:
    """Index all derivations that are not indexed. Returns their number, and reports the number so far."""
    indexed = after = 0
    while not stop() and (chunk := _index_chunk(store, after, _PAIRS_PER_INDEXING)):
        after = chunk[0]
        indexed += chunk[1]
        if report:
            report(indexed)
    return indexed


class IncrementalIndexer:
    """Indexer of pairs by their rules, in cyclic id order across calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = 0
        self._complete_at = -1

    def index_for(self, seconds: float, stop: Callable[[], bool]) -> bool:
        """Index pairs for about `seconds`, or until all are indexed. Returns True if it indexed any pair."""
        deadline = time.monotonic() + seconds
        indexed_any = False
        while time.monotonic() < deadline and not stop():
            position = self._store.position()
            if position == self._complete_at:
                break
            chunk = _index_chunk(self._store, self._after, _PAIRS_PER_CHECK)
            if chunk is None and self._after == 0:
                self._complete_at = position
            self._after = 0 if chunk is None else chunk[0]
            indexed_any = indexed_any or chunk is not None
        return indexed_any


def _index_chunk(store: Store, after: int, limit: int) -> tuple[int, int] | None:
    """Index up to `limit` pairs after the id `after`. Returns (last id, number), or None at the end."""
    position, rows = store.unindexed_pairs(after, limit)
    if not rows:
        return None
    settings = store.settings()
    pairs = load_stored(rows, settings)
    ids = [row.id for row in rows]
    uses = _list_uses(np.array(ids, np.int64), pairs.loaded.occurrences(pairs.state))
    return ids[-1], store.index_pairs(ids, position, uses, settings.key_salt)


def _list_uses(ids: NDArray[np.int64], occurrences: Occurrences) -> NDArray[np.int64]:
    """Return the rule uses as rows (pair id, key high, key low, uses), int64[n, 4], in pair order."""
    return np.column_stack((ids[occurrences.pairs], occurrences.keys.view(np.int64), occurrences.uses))
