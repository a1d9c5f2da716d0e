"""Loop that samples new pairs first, and then resamples burned-in pairs, least recently sampled first.

Pairs that arrive together form a batch. Batches take turns of a few seconds, so that a late pair does not wait for all
earlier pairs. Each turn ends with a commit, so store and memory agree between turns.
"""

import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.configuration import Configuration, SamplingSection
from hierogram.daemon.learning.alignment.incremental import MAX_CORRECTIONS, IncrementalAligner, apply_corrections
from hierogram.daemon.learning.indexing import IncrementalIndexer
from hierogram.daemon.learning.kinds.kind import DamagedPairsError
from hierogram.daemon.learning.learner import (
    PAIRS_PER_TRANSACTION,
    Learner,
    LearnOptions,
    ResidentBatch,
    read_batches,
)
from hierogram.daemon.learning.learning import rekey
from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat, StopFlag, StoppedError, StoreLoop
from hierogram.daemon.workers.chain import check_workers, start_workers
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.storage.exceptions import RuleKeyCollisionError as StoredKeyCollisionError
from hierogram.storage.records.pairs import SAMPLING, WAITING, DamagedPair, PairRow
from hierogram.storage.store import Store

_PAIRS_PER_ALIGNMENT = 10_000


def _exclude_damaged(store: Store, log: Log, error: DamagedPairsError) -> set[int]:
    """Record damaged pairs, which are then no longer sampled, and return their ids."""
    for pair in store.record_damaged([DamagedPair(damage.pair_id, damage.reason) for damage in error.damaged]):
        log.warning("damaged pair: run `hierogram repair`", pair=pair.id, reason=pair.reason)
    return {damage.pair_id for damage in error.damaged}


def _open_undamaged(learner: Learner, rows: list[PairRow], log: Log) -> ResidentBatch | None:
    while rows:
        try:
            return learner.open(rows)
        except DamagedPairsError as error:
            damaged = _exclude_damaged(learner.store, log, error)
        rows = [row for row in rows if row.id not in damaged]
    return None


@dataclass(eq=False)
class _BatchedPairs:
    """Some pairs in memory, in batches. Batches that have not burned in are in the queue."""

    _learner: Learner
    _log: Log
    _pairs_at_once: int
    queue: deque[ResidentBatch] = field(default_factory=deque)
    _last_resumed: int = 0
    """Id of the last pair resumed after a restart of the loop, if not `_all_resumed`."""
    _all_resumed: bool = False

    def open_unsettled(self) -> ResidentBatch | None:
        """Open a batch of new and interrupted pairs. Returns None without such pairs or room in memory."""
        room = self._pairs_at_once - sum(len(batch.rows) for batch in self.queue)
        if room <= 0:
            return None
        store = self._learner.store
        rows: list[PairRow] = []
        if not self._all_resumed:
            rows = store.pairs(after_id=self._last_resumed, limit=room, states=(SAMPLING,), undamaged=True)
            self._all_resumed = len(rows) < room
            self._last_resumed = rows[-1].id if rows else self._last_resumed
            open_ids = {row.id for batch in self.queue for row in batch.rows}
            rows = [row for row in rows if row.id not in open_ids]
        # These pairs are not in memory yet, because the first commit of a batch changes the state of its pairs.
        rows += store.pairs(limit=room - len(rows), states=(WAITING,), undamaged=True)
        return _open_undamaged(self._learner, rows, self._log)

    def open_stalest(self, limit: int) -> ResidentBatch | None:
        """Open settled pairs, least recently sampled first. Returns None without such pairs."""
        rows = self._learner.store.stalest_pairs(min(limit, self._pairs_at_once))
        return _open_undamaged(self._learner, rows, self._log)

    def reload(self, ids: Sequence[int]) -> None:
        batch = _open_undamaged(self._learner, self._learner.store.pairs_by_id(ids), self._log)
        if batch is not None:
            self.queue.append(batch)

    def drop(self, ids: Collection[int]) -> None:
        """Remove the pairs from memory, and reload the other pairs of their batches."""
        before, self.queue = self.queue, deque()
        for batch in before:
            remaining = [row.id for row in batch.rows if row.id not in ids]
            if len(remaining) == len(batch.rows):
                self.queue.append(batch)
            elif remaining:
                self.reload(remaining)


@dataclass(eq=False)
class _AllPairs:
    """All pairs in memory, for grammars that sample all pairs together. Any change reloads all pairs."""

    _learner: Learner
    _log: Log
    queue: deque[ResidentBatch] = field(default_factory=deque)
    _batch: ResidentBatch | None = None

    def open_unsettled(self) -> ResidentBatch | None:
        """Reload all pairs if none are loaded or new pairs wait. Returns them if some have not burned in."""
        if self._batch is not None and not self._learner.store.lag().states[WAITING]:
            return None
        self.reload()
        if self._batch is not None and (self._batch.sweeps < self._learner.schedule.burn_in).any():
            return self._batch
        return None

    def open_stalest(self, limit: int) -> ResidentBatch | None:
        """Return all pairs: they were sampled at the same time, so the limit is ignored."""
        return self._batch

    def reload(self, ids: Sequence[int] = ()) -> None:
        self.drop()
        rows = next(read_batches(self._learner.store, undamaged=True), [])
        self._batch = _open_undamaged(self._learner, rows, self._log)

    def drop(self, ids: Collection[int] = ()) -> None:
        self.queue.clear()
        self._batch = None


_POLL_SECONDS = 0.5
_MIN_RESAMPLED_PAIRS = 64
_INITIAL_RATE = 1_000.0
"""Assumed pair sweeps per second, with reading and writing, until the rate is measured."""
_INDEX_SHARE = 0.25
"""Time for indexing pairs by their rules, as a share of the time for resampling settled pairs."""
_IDLE_SECONDS = 1.0
"""Duration of a turn while no new pairs wait. Arriving pairs wait for its end."""


class SamplingLoop(StoreLoop):
    """Loop that aligns and samples the pairs of the store."""

    name = "resample"
    sections = frozenset({"sampling", "alignment", "workers"})

    def prepare(self, configuration: Configuration) -> None:
        """Raise `DaemonError` if workers are configured and cannot sample this store."""
        if configuration.workers.workers is not None:
            check_workers(self._store.settings())

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Sample until `stop` is set, starting from the stored state; see `Loop.run`."""
        configuration = self._configuration()
        while not stop.is_set():
            try:
                self._sample(configuration, stop, beat)
            except (StoredKeyCollisionError, KeyCollisionError) as error:
                self._log.warning("two rules have the same key: assigning new keys to all rules", reason=str(error))
                rekey(self._store)
            except DamagedPairsError as error:
                # A withdrawal, correction, re-alignment or indexing found a damaged pair. Its batch may be in any
                # state, so reload all pairs except the damaged one.
                excluded = {pair.id for pair in self._store.damaged_pairs()}
                if _exclude_damaged(self._store, self._log, error) <= excluded:
                    raise

    def _sample(self, configuration: Configuration, stop: StopFlag, beat: Heartbeat) -> None:
        section = configuration.sampling
        workers, blocks = configuration.workers.parsed()
        threads = section.threads or (None if workers is None else 1)
        options = LearnOptions(
            threads, lambda _: beat.progress(), likelihood_seconds=section.likelihood_seconds, blocks=blocks
        )
        with (
            start_workers(self._store, workers, threads or 1) as make_chain,
            Learner(self._store, replace(options, make_chain=make_chain)) as learner,
        ):
            self._log.info("rules loaded", rules_in_use=learner.chain.rule_types, uses=learner.chain.rule_tokens)
            turns = SamplingTurns(learner, section, stop, beat, self._health, self._log)
            while not stop.is_set():
                worked = turns.run_turn()
                beat.ok()
                if not worked:
                    stop.wait(_POLL_SECONDS)


@dataclass(eq=False)
class SamplingTurns:
    """Scheduler of turns. A turn withdraws pairs, applies corrections, and aligns and samples pairs."""

    _learner: Learner
    _section: SamplingSection
    _stop: StopFlag
    _beat: Heartbeat
    _health: HealthRegistry
    _log: Log
    _rate: float = _INITIAL_RATE
    _owed: float = 0.0
    """Seconds for which settled pairs must still be sampled, to balance the time spent on new pairs."""
    _pause_until: float = 0.0

    def __post_init__(self) -> None:
        learner, section = self._learner, self._section
        self._aligner = IncrementalAligner(learner.store, section.threads or None)
        self._pairs: _BatchedPairs | _AllPairs = _BatchedPairs(learner, self._log, section.pairs_at_once)
        if learner.kind.needs_all_pairs:
            self._pairs = _AllPairs(learner, self._log)
        self._index = IncrementalIndexer(learner.store)

    def run_turn(self) -> bool:
        """Run and commit one turn of a few seconds. Returns False if the loop should then pause."""
        self._health.record_lag(self._learner.store.lag())
        while ids := self._learner.store.pending_withdrawals(PAIRS_PER_TRANSACTION):
            self._pairs.drop(set(ids))
            self._learner.withdraw(self._learner.store.pairs_by_id(ids))
            self._log.info("pairs withdrawn", pairs=len(ids))
        self._correct()
        self._learner.chain.refresh_model(self._learner.store)
        aligned = 0
        with suppress(StoppedError):
            aligned = self._aligner.align_new(_PAIRS_PER_ALIGNMENT, self._check_stop)
        if aligned:
            self._log.info("pairs aligned", pairs=aligned)
        new = self._pairs.open_unsettled()
        # Sample and commit new pairs in this turn, because uncommitted pairs cannot be withdrawn. Also sample the next
        # batch, so that a stream of new pairs does not keep earlier pairs from burning in.
        seconds = self._sweep_burn_in(new) if new is not None else 0.0
        worked = self._finish_turn(new, seconds)
        self._health.record_lag(self._learner.store.lag())
        return worked or new is not None or aligned > 0

    def _correct(self) -> None:
        store = self._learner.store
        while pending := store.pending_corrections(MAX_CORRECTIONS):
            ids = [correction.id for correction in pending]
            self._pairs.drop(set(ids))
            for realigned in apply_corrections(store, pending, self._section.threads or None):
                realigned.apply_to(self._learner.chain)
            self._log.info("pairs corrected", pairs=len(pending))
            still_sampling = [row.id for row in store.pairs_by_id(ids) if row.state == SAMPLING]
            if still_sampling:
                self._pairs.reload(still_sampling)

    def _check_stop(self, _done: int, _total: int) -> None:
        self._beat.progress()
        if self._stop.is_set():
            raise StoppedError

    def realign_stale(self) -> list[int]:
        """Re-align pairs if many were only aligned on arrival. Returns ids of pairs whose sampling restarts."""
        restarted = []
        with suppress(StoppedError):
            if self._aligner.needs_realignment():
                for report in self._aligner.realign_stale(_PAIRS_PER_ALIGNMENT, self._check_stop):
                    self._log.info("pairs re-aligned", pairs=report.pairs, changed=report.changed)
                    if report.rebuilt is not None:
                        report.rebuilt.apply_to(self._learner.chain)
                        restarted += [row.id for row in report.rebuilt.before.rows]
        return restarted

    def _finish_turn(self, new: ResidentBatch | None, seconds: float) -> bool:
        """Sample queued and settled pairs after `new`. Returns False if the loop should pause."""
        share = self._section.new_share
        queue = self._pairs.queue
        if queue or new is not None:
            # Do not sample `new` twice: if not burned in, it was queued, and is first if the queue was empty.
            if queue and queue[0] is not new and not self._stop.is_set():
                seconds += self._sweep_burn_in(queue.popleft())
            self._owed += seconds * (1 - share) / share
            if self._owed >= self._section.commit_seconds and not self._stop.is_set():
                self._owed -= self._resample_settled(self._section.commit_seconds)
            return True
        self._owed = 0.0
        if restarted := self.realign_stale():
            # No client waits for these pairs, so sample them in later turns.
            self._pairs.reload(restarted)
            return True
        idle = self._section.idle_share
        if not idle:
            return self._index.index_for(_IDLE_SECONDS, self._stop.is_set)
        if time.monotonic() < self._pause_until:
            return False
        seconds = self._resample_settled(min(_IDLE_SECONDS, self._section.commit_seconds))
        self._pause_until = time.monotonic() + seconds * (1 - idle) / idle
        return seconds > 0

    def _sweep_burn_in(self, batch: ResidentBatch) -> float:
        """Sample a batch, and queue it if pairs have not burned in. Returns the seconds."""
        burn_in = self._learner.schedule.burn_in
        seconds = self._sweep(batch, np.maximum(batch.sweeps, burn_in))
        if (batch.sweeps < burn_in).any():
            self._pairs.queue.append(batch)
        return seconds

    def _resample_settled(self, seconds: float) -> float:
        """Resample settled pairs for about `seconds`, and index pairs. Returns the duration, 0 without pairs."""
        sweeps = self._learner.settings.round_sweeps
        pairs = int(self._rate * seconds / sweeps)
        started, before = time.monotonic(), self._learner.pair_sweeps
        batch = self._pairs.open_stalest(max(pairs, _MIN_RESAMPLED_PAIRS))
        if batch is None:
            return 0.0
        burned_in = batch.sweeps >= self._learner.schedule.burn_in
        # Sweep each pair to the end of its round of `round_sweeps` sweeps.
        round_end = (batch.sweeps // sweeps + 1) * sweeps
        self._sweep(batch, np.where(burned_in, round_end, batch.sweeps))
        self._index.index_for(_INDEX_SHARE * seconds, self._stop.is_set)
        elapsed = time.monotonic() - started
        self._rate = (self._learner.pair_sweeps - before) / elapsed
        return elapsed

    def _sweep(self, batch: ResidentBatch, target_sweeps: NDArray[np.int64]) -> float:
        """Sweep up to `target_sweeps` of each pair, for about `commit_seconds`. Returns the seconds."""
        learner = self._learner
        started, before, seconds = time.monotonic(), learner.pair_sweeps, self._section.commit_seconds
        learner.sweep(batch, target_sweeps, lambda: self._stop.is_set() or time.monotonic() - started > seconds)
        self._health.record_sweeps(learner.pair_sweeps - before)
        self._health.log_likelihood = learner.log_likelihood
        return time.monotonic() - started
