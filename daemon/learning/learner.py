"""Learner, which sweeps over stored pairs with counts in memory, and the lease on the grammar."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Chain, ChainConfig, Sweep, SweepRequest
from hierogram.daemon.learning.kinds.stored import find_kind
from hierogram.daemon.learning.residents import ResidentBatch, withdraw
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.exceptions import LeaseLostError, StoreError, StoreUnavailableError
from hierogram.storage.records.grammar import LearningRun, SweepRecord
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.store import Store

LEASE_SECONDS = 60.0
_RENEWAL_SECONDS, _RETRY_SECONDS, _RELEASE_SECONDS = 15.0, 5.0, 5.0


@contextmanager
def holding_lease(
    store: Store, command: str, report: Callable[[str | None], None] = lambda _problem: None
) -> Iterator[None]:
    """Hold and renew the lease on the grammar. `report` gets each renewal's error or None. Raises `StoreHeldError`."""
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


SECONDS_PER_COMMIT = 180.0
"""Time in seconds after which the finished sweeps of a batch are committed. The time increases if commits are slow."""
_MIN_INTERVAL_PER_COMMIT = 8
"""Minimum of the time between two commits, as a multiple of the duration of a commit."""


@dataclass(frozen=True, slots=True)
class LearnProgress:
    """Progress of learning. `done` and `total` count sweeps of single pairs. Other figures are the latest values.

    `phase` is "pairs" during a sweep, "sweep" after a sweep, or "commit". `stage` is the highest stage of the schedule
    that a pair in the sweep has reached, or 0 during a commit. `pairs` is the number of pairs in the sweep or commit.
    """

    phase: str
    sweep: int
    stage: int
    pairs: int
    done: int
    total: int
    log_likelihood: float | None
    rules_in_use: int
    rule_tokens: int


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """Options of learning. Only `blocks` changes the result."""

    threads: int | None = None
    """Number of threads, or None for one per core."""
    report: Callable[[LearnProgress], None] | None = None
    likelihood_every: int = 10
    """Number of sweeps between computations of the log-likelihood. A computation reads all rules."""
    likelihood_seconds: float = 0.0
    """Minimum time in seconds between two computations of the log-likelihood."""
    stop: Callable[[], bool] = field(default=lambda: False)
    """Called at least after each sweep. If `stop` returns True, finished sweeps are committed and learning ends."""
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

    def _report(self, phase: str, stage: int, pairs: int, done: int) -> None:
        if self.options.report:
            work = self.sweeps, stage, pairs, done, self.total_pair_sweeps
            grammar = self.log_likelihood, self.rules_in_use, self.chain.rule_tokens
            self.options.report(LearnProgress(phase, *work, *grammar))

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
        """Load pairs into memory and count derivations that are not stored. Some kinds need all pairs in one batch."""
        batch = ResidentBatch.from_rows(rows, self.settings)
        self.chain.add_pairs(batch.loaded, batch.state, batch.committed)
        return batch

    def withdraw(self, rows: list[PairRow]) -> None:
        """Remove pairs from the store and the counts. The pairs must not be in an open batch."""
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
        """Sweep over a batch until each pair has `target_sweeps` int64[P] sweeps. Commits at intervals and at the end.

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
            self._report("commit", 0, len(batch.sweeps), self.pair_sweeps)
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
            self._report("pairs", stage, active_pairs, previous_pair_sweeps + pairs * active_pairs // len(batch.sweeps))

        started = time.perf_counter()
        request = SweepRequest(batch.sweeps, active, active & (batch.sweeps > self.schedule.burn_in))
        batch.state, info = run_sweep(batch.state, batch.averages, request, report)
        seconds = time.perf_counter() - started
        self.sampling_seconds += seconds
        self.sweeps += 1
        self.pair_sweeps += active_pairs
        due = self.sweeps % self.options.likelihood_every == 0 and self._may_measure()
        likelihood = self.measure() if due else None
        record = SweepRecord(stage, active_pairs, likelihood, *info[:4], seconds, initial_likelihood)
        self._report("sweep", stage, active_pairs, self.pair_sweeps)
        return record
