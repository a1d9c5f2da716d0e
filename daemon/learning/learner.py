"""Learner: loads pairs and rule counts into memory, sweeps over pairs, and commits the samples."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from typing import Annotated

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
from hierogram.samplers.counts.texts import select_texts, text_order
from hierogram.samplers.grammar.columns import Blobs, slice_blobs
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.options import Option
from hierogram.storage.records.columns import PairUpdates, RuleDeltas
from hierogram.storage.records.grammar import LabelRow, LearningRun, SweepRecord
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

_WORDS_PER_BATCH = 4_000_000
_PAIRS_PER_READ = 5_000
_PAIRS_PER_COMMIT = 4_096


@dataclass(slots=True)
class ResidentBatch:
    """Pairs in memory with their current and last committed derivations, averages and sweeps.

    `rows` are the pairs as they were read. `sweeps` int64[P] counts the sweeps of each pair. `committed` bool[P] is
    True for pairs with a committed derivation.
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
        """Load pairs. Pairs without a stored derivation get an initial one. Raises `DamagedPairsError`."""
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
        """Write all changes in one transaction. Raises `StoreError` if another process sampled a pair."""
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
            sweeps, part_averages = self.sweeps[part], slice_blobs(averages, first, last)
            updates = PairUpdates(
                ids=ids[part],
                states=slice_blobs(states, first, last),
                averages=part_averages,
                burned_in=sweeps >= schedule.burn_in,
                stages=stages[part],
                sweeps=sweeps,
                expected_sweeps=self.committed_sweeps[part],
            )
            samples = StoredSamples(self.state, part_averages)
            rules = self.loaded.rule_deltas(self._committed(first, last), samples, first)
            # Sort by text, so that rules queried together are stored together, and the index of sources is filled in
            # order.
            order = text_order(rules.source, rules.keys)
            yield updates, rules.at(order, select_texts(rules.source, order), select_texts(rules.target, order))

    def rules(self) -> RuleDeltas:
        """Return the rules of the current (not the committed) derivations and averages, with their counts."""
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
    are ignored, and the only batch contains all pairs. With `undamaged`, pairs recorded as damaged are excluded. Yields
    nothing if no pair matches.
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


PAIRS_PER_TRANSACTION = 2_000


def withdraw(store: Store, rows: list[PairRow], settings: Settings) -> ResidentBatch | None:
    """Remove pairs in a transaction. Returns those with derivations, which learners count, or None."""
    derived = [row for row in rows if row.current is not None]
    batch = ResidentBatch.from_rows(derived, settings) if derived else None
    store.withdraw(rows, batch.removal_deltas() if batch else None, make_withdrawal(store, [row.id for row in rows]))
    return batch


def split_transactions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split the ids of pairs into groups of up to `PAIRS_PER_TRANSACTION`, one per transaction."""
    for first in range(0, len(ids), PAIRS_PER_TRANSACTION):
        yield ids[first : first + PAIRS_PER_TRANSACTION]


def withdraw_all(store: Store, ids: Sequence[int], report: Callable[[int], None]) -> int:
    """Remove stored pairs, without an open `Learner`, and return their number. `report` gets the ids done."""
    settings = store.settings()
    withdrawn = 0
    for number, chunk in enumerate(split_transactions(ids)):
        rows = store.pairs_by_id(chunk)
        withdraw(store, rows, settings)
        withdrawn += len(rows)
        report(number * PAIRS_PER_TRANSACTION + len(chunk))
    return withdrawn


def withdraw_requested(store: Store) -> None:
    """Remove the undamaged pairs with a pending withdrawal request. Not for use while a `Learner` is open."""
    settings = store.settings()
    while ids := store.pending_withdrawals(PAIRS_PER_TRANSACTION):
        withdraw(store, store.pairs_by_id(ids), settings)


SECONDS_PER_COMMIT = 180.0
"""Time in seconds after which finished sweeps are committed. It is longer if commits are slow."""
_MIN_INTERVAL_PER_COMMIT = 8
"""Minimum of the time between two commits, as a multiple of the duration of a commit."""


@dataclass(frozen=True, slots=True)
class LearnProgress:
    """Progress of learning, with the latest values. `done` and `total` count sweeps of single pairs.

    `phase` is "pairs" during a sweep, "sweep" after a sweep, or "commit". `sweep` counts finished sweeps. `stage` is
    the highest stage of the schedule that a pair in the sweep has reached, or 0 during a commit.
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
    """Options of `Learner` and `learn`."""

    threads: int | None = None
    """Number of threads, or None for one per core."""
    report: Callable[[LearnProgress], None] | None = None
    """Progress callback, called several times per sweep."""
    likelihood_every: Annotated[int, Option("Sweeps between computations of the log-likelihood.", min=1)] = 10
    """Number of sweeps between computations of the log-likelihood. A computation reads all rules."""
    likelihood_seconds: float = 0.0
    """Minimum time in seconds between two computations of the log-likelihood."""
    stop: Callable[[], bool] = field(default=lambda: False)
    """Called at least after each sweep. If it returns True, learning commits and ends."""
    blocks: Blocks | None = None
    """Sizes of blocks, or None to select them by the number of pairs. Blocks change the draws."""
    make_chain: Callable[[Store, ChainConfig], Chain] | None = None
    """Factory of the chain, such as one that distributes pairs over workers, or None for `Kind.chain`."""


class Learner(AbstractContextManager["Learner"]):
    """Sampler of stored pairs, with all rule counts in memory. Only one learner may sample a store.

    Commit all sweeps over a batch before the next `open`. `log_likelihood` and `rules_in_use` are the last measured
    values. The caller sets `total_pair_sweeps`, the planned number of sweeps of single pairs, for progress.
    """

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
            total, likelihood = self.total_pair_sweeps, self.log_likelihood
            self.options.report(LearnProgress(phase, self.sweeps, stage, done, total, likelihood, self.rules_in_use))

    def measure(self) -> float:
        """Compute the natural log-likelihood of all rule tokens, and record it and the number of rules in use."""
        self.log_likelihood = self.chain.log_likelihood()
        self.rules_in_use = self.chain.rule_types
        self.log_likelihoods.append((self.sweeps, self.log_likelihood))
        self._measured_at = time.monotonic()
        return self.log_likelihood

    def _may_measure(self) -> bool:
        return time.monotonic() - self._measured_at >= self.options.likelihood_seconds

    def open(self, rows: list[PairRow]) -> ResidentBatch:
        """Load pairs, all of the store if the kind needs them together, and count initial derivations."""
        batch = ResidentBatch.from_rows(rows, self.settings)
        self.chain.add_pairs(batch.loaded, batch.state, batch.committed)
        return batch

    def withdraw(self, rows: list[PairRow]) -> None:
        """Remove pairs from the store and the counts. No batch in use may contain these pairs."""
        removed = withdraw(self.store, rows, self.settings)
        if removed is not None:
            self.chain.change_counts(removed.loaded, removed.state, -1)

    def sweep(
        self,
        batch: ResidentBatch,
        target_sweeps: NDArray[np.int64],
        should_stop: Callable[[], bool] | None = None,
        run_progress: Callable[[int], LearningRun] | None = None,
        leave_open: bool = False,
    ) -> None:
        """Sweep over a batch until pair k has `target_sweeps[k]` sweeps. Commits at intervals and at the end.

        Pairs that have reached their target are not sampled. If `should_stop` (default `LearnOptions.stop`) returns
        True after a sweep, the method commits and returns. `run_progress` returns the progress to commit with the
        sweeps, given the number of sweeps of this call. With `leave_open`, the method may return before the last
        commit, so the caller must call `sweep` again for the same batch, or `commit_open`.
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
        """Commit the sweeps over this batch that `sweep` left open. Does nothing if all are committed."""
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
