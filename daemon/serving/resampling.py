"""The loop that samples: new pairs through the schedule first, then burned-in ones again, the stalest first.

The pairs that are new at one time become a batch. Batches are sampled in turn, a few seconds each, so that a pair that
comes late does not wait for all that came before it. Each turn ends with a commit: between two turns the store and the
memory say the same.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.alignment.correcting import PAIRS_AT_ONCE
from hierogram.daemon.configuration import Configuration, SamplingSection
from hierogram.daemon.learning.learner import Learner, LearnOptions, LearnProgress
from hierogram.daemon.learning.rekeying import rekey
from hierogram.daemon.learning.residents import ResidentBatch
from hierogram.daemon.learning.withdrawing import PAIRS_A_TRANSACTION
from hierogram.daemon.serving.aligning import Aligning
from hierogram.daemon.serving.health import Board
from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.residency import residency_of
from hierogram.daemon.serving.supervision import Heart, StopFlag
from hierogram.daemon.workers.starting import check_workers, workers_of
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.storage.exceptions import KeyCollisionError as StoredKeyCollisionError
from hierogram.storage.records import SAMPLING
from hierogram.storage.store import Store

_LOOK_SECONDS = 0.5
_FEWEST_REJUVENATED = 64
_FIRST_RATE = 1_000.0
"""Pairs a second that sampling is supposed to do before it has been measured."""


class Resampling:
    """Keeps the grammar current."""

    name = "resample"
    sections = frozenset({"sampling", "alignment", "workers"})

    def __init__(self, store: Store, configuration: Callable[[], Configuration], board: Board, log: Log) -> None:
        self._store = store
        self._configuration = configuration
        self._board = board
        self._log = log.bind(loop=self.name)

    def prepare(self, configuration: Configuration) -> None:
        """Raises `WorkersError` where workers are asked for and cannot sample this store."""
        if configuration.workers.workers is not None:
            check_workers(self._store.settings())

    def run(self, stop: StopFlag, beat: Heart) -> None:
        """Samples until told to end, from what the store says; see `Loop.run`."""
        configuration = self._configuration()
        while not stop.is_set():
            try:
                self._sample(configuration, stop, beat)
            except (StoredKeyCollisionError, KeyCollisionError) as error:
                self._log.warning("two rules have one key: all rules get new ones", reason=str(error))
                rekey(self._store)

    def _sample(self, configuration: Configuration, stop: StopFlag, beat: Heart) -> None:
        section = configuration.sampling
        chosen = configuration.workers.chosen()
        threads = section.threads or (None if chosen is None else 1)

        def report(_now: LearnProgress) -> None:
            beat()

        with ExitStack() as stack:
            chain = stack.enter_context(workers_of(self._store, chosen, threads or 1))
            blocks = configuration.workers.in_blocks()
            seconds = section.likelihood_seconds
            options = LearnOptions(threads, report, likelihood_seconds=seconds, blocks=blocks, chain=chain)
            learner = stack.enter_context(Learner(self._store, options))
            self._log.info("rules loaded", rules=learner.chain.rule_types, uses=learner.chain.rule_tokens)
            aligning = Aligning(self._store, learner, configuration, stop, beat, self._log)
            turns = Turns(learner, section, stop, self._board, self._log, aligning)
            while not stop.is_set():
                worked = turns.take()
                beat.well()
                if not worked:
                    stop.wait(_LOOK_SECONDS)


class Turns:
    """Whose turn it is: batches of new pairs one after the other, or burned-in pairs again."""

    def __init__(
        self,
        learner: Learner,
        section: SamplingSection,
        stop: StopFlag,
        board: Board,
        log: Log,
        aligning: Aligning | None = None,
    ) -> None:
        self._learner = learner
        self._aligning = aligning
        self._log = log
        self._section = section
        self._stop = stop
        self._board = board
        self._residency = residency_of(learner, section)
        self._rate = _FIRST_RATE
        # Seconds that were spent on new pairs beyond those that burned-in ones have had in turn.
        self._owed = 0.0
        self._rest_until = 0.0

    def take(self) -> bool:
        """One turn of a few seconds, committed at its end; False where there was nothing to do."""
        self._note_lag()
        self._withdraw()
        self._correct()
        self._learner.follow_vocabulary()
        aligned = self._aligning.align_new() if self._aligning else 0
        new = self._residency.take_new()
        # At once, and beside the turn of the others: what is not committed yet could not be withdrawn, and a stream of
        # new pairs must not keep those before them from ever burning in.
        seconds = self._burn_in(new) if new is not None else 0.0
        worked = self._work(new, seconds)
        self._note_lag()
        return worked or new is not None or aligned > 0

    def _withdraw(self) -> None:
        """Takes out the pairs that someone wants out."""
        while ids := self._learner.store.pending_withdrawals(PAIRS_A_TRANSACTION):
            self._residency.drop(set(ids))
            self._learner.withdraw(self._learner.store.pairs_by_id(ids))
            self._log.info("pairs withdrawn", pairs=len(ids))

    def _correct(self) -> None:
        """Has alignments follow what people say of their links."""
        store = self._learner.store
        while self._aligning and (pending := store.pending_corrections(PAIRS_AT_ONCE)):
            ids = [correction.id for correction in pending]
            self._residency.drop(set(ids))
            self._aligning.correct(pending)
            going_on = [row.id for row in store.pairs_by_id(ids) if row.state == SAMPLING]
            if going_on:
                self._residency.begin_anew(going_on)

    def _work(self, new: ResidentBatch | None, seconds: float) -> bool:
        """A turn for the next batch, or for burned-in pairs; a `new` one has had its turn, of so many seconds."""
        share = self._section.new_share
        queue = self._residency.queue
        if queue or new is not None:
            if queue and queue[0] is not new and not self._stop.is_set():
                seconds += self._burn_in(queue.popleft())
            self._owed += seconds * (1 - share) / share
            if self._owed >= self._section.commit_seconds and not self._stop.is_set():
                self._owed -= self._rejuvenate()
            return True
        self._owed = 0.0
        begun_anew = self._aligning.rejuvenate() if self._aligning else []
        if begun_anew:
            # They are on their way through the schedule, and nobody waits with them.
            self._residency.begin_anew(begun_anew)
            return True
        idle = self._section.idle_share
        if not idle or time.monotonic() < self._rest_until:
            return False
        seconds = self._rejuvenate()
        self._rest_until = time.monotonic() + seconds * (1 - idle) / idle
        return seconds > 0

    def _burn_in(self, batch: ResidentBatch) -> float:
        """A turn for the batch, which goes to the end of the queue if it needs more; returns the seconds it took."""
        burn_in = self._learner.course.burn_in
        seconds = self._sweep(batch, np.maximum(batch.sweeps, burn_in))
        if (batch.sweeps < burn_in).any():
            self._residency.queue.append(batch)
        return seconds

    def _rejuvenate(self) -> float:
        """A turn for the pairs that have burned in and were sampled longest ago; returns the seconds that it took."""
        course = self._learner.course
        pairs = int(self._rate * self._section.commit_seconds / course.thinning)
        started = time.monotonic()
        batch = self._residency.stalest(max(pairs, _FEWEST_REJUVENATED))
        if batch is None:
            return 0.0
        # Up to the next sweep that gives a sample.
        resampled = batch.sweeps >= course.burn_in
        next_sample = (batch.sweeps // course.thinning + 1) * course.thinning
        self._sweep(batch, np.where(resampled, next_sample, batch.sweeps))
        self._board.rejuvenated += int(resampled.sum())
        return time.monotonic() - started

    def _sweep(self, batch: ResidentBatch, until: NDArray[np.int64]) -> float:
        learner = self._learner
        started = time.monotonic()
        before, sampling = learner.pair_sweeps, learner.sampling_seconds

        def enough() -> bool:
            return self._stop.is_set() or time.monotonic() - started > self._section.commit_seconds

        learner.sweep(batch, until, enough)
        done = learner.pair_sweeps - before
        self._board.note_sweeps(done)
        self._board.log_likelihood = learner.likelihood
        if learner.sampling_seconds > sampling:
            self._rate = done / (learner.sampling_seconds - sampling)
        return time.monotonic() - started

    def _note_lag(self) -> None:
        self._board.note_lag(self._learner.store.lag())
