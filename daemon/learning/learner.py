"""The learner: a store's counts in memory, and pairs taken through their sweeps against them; the claim to write."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Chain, Means, OpenBatch, Sweep, SweepRequest
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.learning.residents import ResidentBatch, read_batches, read_columns, withdraw
from hierogram.samplers.synchronous.sweeps import GIBBS, Blocks
from hierogram.storage.exceptions import LeaseLostError, StoreError, StoreUnavailableError
from hierogram.storage.records import LearningRun, PairColumns, PairRow, SweepRecord
from hierogram.storage.store import Store

LEASE_SECONDS = 60.0
_RENEWALS = 4
"""Times that a claim is renewed before it would lapse."""
_RETRY_SECONDS = 5.0
"""Pause before the claim is renewed once more if that has failed."""
_RELEASE_SECONDS = 5.0


@contextmanager
def holding_lease(
    store: Store,
    command: str,
    seconds: float = LEASE_SECONDS,
    report: Callable[[str | None], None] = lambda _trouble: None,
) -> Iterator[None]:
    """Claim the grammar for this store object within the context; a thread renews the claim.

    `report` receives what keeps the claim from being renewed, and None when it has been renewed. If the claim is lost,
    every commit fails with `LeaseLostError`. Raises `StoreHeldError` if another process holds the claim.
    """
    store.take_lease(command, seconds)
    ended = threading.Event()

    def keep() -> None:
        usual = pause = seconds / _RENEWALS
        while not ended.wait(pause):
            try:
                store.renew_lease(seconds)
            except StoreUnavailableError as error:
                report(str(error))
                pause = min(usual, _RETRY_SECONDS)
            except LeaseLostError as error:
                report(str(error))
                break
            else:
                report(None)
                pause = usual
        # Where the database is gone, the claim lapses by itself, as that of a process that has ended.
        with suppress(StoreError):
            store.release_lease()

    keeper = threading.Thread(target=keep, name="lease", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        # Others may be writing for long; the end of this process frees the store as well.
        keeper.join(_RELEASE_SECONDS)


SECONDS_A_COMMIT = 180.0
"""The longest time between two commits, as far as committing takes no more than its share of the time."""
_COMMIT_SHARE = 8
LIKELIHOOD_EVERY = 10
"""Sweeps between two computations of the log-likelihood."""


@dataclass(frozen=True, slots=True)
class LearnProgress:
    """Progress of learning: pair sweeps done and to do, the stage, and the last known figures of the whole store.

    `log_likelihood` is natural-log, of all uses of rules in the store. `tokens` is the number of these uses.
    """

    phase: str
    sweep: int
    stage: int
    pairs: int
    done: int
    total: int
    log_likelihood: float | None
    rules_in_use: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """Ways to learn; nothing here changes the result but the `method` and the `blocks`.

    `threads`: None is one a core. `report` hears of progress. The log-likelihood, which takes time in proportion to the
    store, is computed every `likelihood_every` sweeps and at the end of each part, but not before `likelihood_seconds`
    have passed since the last time. `stop` is asked after each sweep; where it says so, what is done is committed and
    left at that. `blocks`: how pairs are sampled together, where not as suits their number. `chain` makes the chain
    where it is not the kind's own.
    """

    threads: int | None = None
    report: Callable[[LearnProgress], None] | None = None
    likelihood_every: int = LIKELIHOOD_EVERY
    likelihood_seconds: float = 0.0
    method: int = GIBBS
    stop: Callable[[], bool] = field(default=lambda: False)
    blocks: Blocks | None = None
    chain: Callable[[Store, Means], Chain] | None = None


@dataclass(frozen=True, slots=True)
class Lot:
    """Pairs that can be opened together, by their ids."""

    ids: NDArray[np.int64]
    open: Callable[[], OpenBatch]


class Learner(AbstractContextManager["Learner"]):
    """Holds a store's counts in memory and keeps them and the store in step; one at a time may write to a store."""

    def __init__(self, store: Store, options: LearnOptions | None = None) -> None:
        self.store = store
        self.options = options or LearnOptions()
        self.settings = store.settings()
        self.kind = kind_of(self.settings)
        self.course = self.kind.course(self.settings)
        means = Means(self.options.threads or os.cpu_count() or 1, self.options.method, self.options.blocks)
        self.chain = (self.options.chain or self.kind.chain)(store, means)
        self._measured_at = float("-inf")
        self._open_records: list[SweepRecord] = []
        self._last_commit = time.monotonic()
        self.curve: list[tuple[int, float]] = []
        self.likelihood: float | None = None
        self.rules_in_use = 0
        self.sampling_seconds = 0.0
        self.sweeps = 0
        self.pair_sweeps = 0
        self.total = 0

    def close(self) -> None:
        """End the learner's threads."""
        self.chain.close()

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _report(self, phase: str, stage: int, pairs: int, done: int) -> None:
        if self.options.report:
            self.options.report(
                LearnProgress(
                    phase, self.sweeps, stage, pairs, done, self.total, self.likelihood, self.rules_in_use,
                    self.chain.rule_tokens,
                )
            )  # fmt: skip

    def measure(self) -> float:
        """Return the log-likelihood of all rule counts, natural-log; also noted on the curve."""
        self.likelihood = self.chain.log_likelihood()
        self.rules_in_use = self.chain.rule_types
        self.curve.append((self.sweeps, self.likelihood))
        self._measured_at = time.monotonic()
        return self.likelihood

    def _may_measure(self) -> bool:
        return time.monotonic() - self._measured_at >= self.options.likelihood_seconds

    def open(self, rows: list[PairRow]) -> ResidentBatch:
        """Load the rows and count all their derivations; of a `whole` kind these are all pairs of the store."""
        batch = ResidentBatch.of(rows, self.settings)
        self.chain.enter(batch.loaded, batch.state, batch.committed)
        return batch

    def lots(self, states: list[str], after_id: int = 0) -> Iterator["Lot"]:
        """Yield pairs in any of the states with ids above `after_id`, as many at a time as fit in memory."""
        if self.chain.reads(self.store):
            for pairs in read_columns(self.store, states, after_id):
                yield Lot(pairs.ids, partial(self._open_columns, pairs))
        else:
            for rows in read_batches(self.store, states, after_id):
                yield Lot(np.array([row.id for row in rows], np.int64), partial(self.open, rows))

    def _open_columns(self, pairs: PairColumns) -> OpenBatch:
        return self.chain.open(self.store, pairs) or self.open(self.store.pairs_by_id(pairs.ids.tolist()))

    def withdraw(self, rows: list[PairRow]) -> None:
        """Take the pairs, as they are stored, out of the store and out of the counts; no open batch may hold them.

        What is open of a `whole` kind has to be opened again.
        """
        leaving = withdraw(self.store, rows, self.settings)
        if leaving is not None:
            self.chain.change(leaving.loaded, leaving.state, -1)

    def sweep(
        self,
        batch: OpenBatch,
        until: NDArray[np.int64],
        enough: Callable[[], bool] | None = None,
        run: Callable[[int], LearningRun] | None = None,
        leave_open: bool = False,
    ) -> None:
        """Sweep over the batch until each pair has had `until` sweeps; commit now and then, and at the end.

        `enough` is asked after each sweep; where it says so, what is done so far is committed and left at that. `run`
        returns for a number of sweeps over this batch how far the run has come, to be committed with them. Where more
        sweeps over the same batch follow, the last commit may be left to them: `leave_open`, if nothing is due by then.
        """
        first = self.sweeps
        enough = enough or self.options.stop
        take = self.chain.sweep(batch.loaded)
        records, self._open_records = self._open_records, []
        last_commit = self._last_commit if records else time.monotonic()
        wait = SECONDS_A_COMMIT
        ended = False
        while (active := batch.sweeps < until).any():
            records.append(self._take(take, batch, active))
            ended = enough()
            if ended:
                break
            if time.monotonic() - last_commit > wait and (batch.sweeps < until).any():
                started = time.monotonic()
                batch.state, batch.present_averages = self.chain.gather(batch.state, batch.averages)
                self._commit(batch, records, run and run(self.sweeps - first))
                records = []
                last_commit = time.monotonic()
                # Committing a large batch takes a while; do not let it take more than its share.
                wait = max(wait, _COMMIT_SHARE * (last_commit - started))
        if records:
            batch.state, batch.present_averages = self.chain.gather(batch.state, batch.averages)
            if records[-1].log_likelihood is None and self._may_measure():
                records[-1] = records[-1]._replace(log_likelihood=self.measure())
            if leave_open and not ended and time.monotonic() - last_commit <= wait:
                self._open_records, self._last_commit = records, last_commit
                return
            self._report("commit", 0, len(batch.sweeps), self.pair_sweeps)
            self._commit(batch, records, run and run(self.sweeps - first))

    def commit_open(self, batch: OpenBatch) -> None:
        """Commit what `sweep` left open."""
        records, self._open_records = self._open_records, []
        if records:
            self._commit(batch, records, None)

    def _commit(self, batch: OpenBatch, records: list[SweepRecord], run: LearningRun | None) -> None:
        batch.commit(self.store, records, self.chain.labels(), run)

    def _take(self, take: Sweep, batch: OpenBatch, active: NDArray[np.bool_]) -> SweepRecord:
        """Take the active pairs of the batch one sweep further; return what that did."""
        before = self.likelihood if self.sweeps == 0 else None
        batch.sweeps[active] += 1
        stage = int(self.course.reached(batch.sweeps[active]).max())
        at_work = int(active.sum())
        done = self.pair_sweeps

        def report(pairs: int) -> None:
            self._report("pairs", stage, at_work, done + pairs * at_work // len(batch.sweeps))

        started = time.perf_counter()
        request = SweepRequest(batch.sweeps, active, active & (batch.sweeps > self.course.burn_in))
        batch.state, info = take(batch.state, batch.averages, request, report)
        seconds = time.perf_counter() - started
        self.sampling_seconds += seconds
        self.sweeps += 1
        self.pair_sweeps += at_work
        due = self.sweeps % self.options.likelihood_every == 0 and self._may_measure()
        record = SweepRecord(
            stage, at_work, self.measure() if due else None,
            info.edges_sampled, info.edges_changed, info.cuts_sampled, info.cuts_changed, seconds, before,
        )  # fmt: skip
        self._report("sweep", stage, at_work, self.pair_sweeps)
        return record
