"""Learn a grammar: sample the derivations of stored pairs, store them, and index pairs by their rules."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.indexing import index_batch, index_occurrences
from hierogram.daemon.learning.kinds.kind import find_kind
from hierogram.daemon.learning.learner import (
    Learner,
    LearnOptions,
    ResidentBatch,
    read_batches,
    withdraw_requested,
)
from hierogram.daemon.learning.lease import holding_lease
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.grammar.keys import signed
from hierogram.storage.exceptions import RuleKeyCollisionError as StoredKeyCollisionError
from hierogram.storage.records.grammar import LearningRun
from hierogram.storage.records.pairs import SAMPLING, SETTLED, UNALIGNED, WAITING, PairRow
from hierogram.storage.store import Store


@dataclass(frozen=True, slots=True)
class LearnReport:
    """Report of a call of `learn`: pairs and sweeps, time in seconds, and the grammar before and after.

    `sweeps` counts all sweeps over batches, `burn_in` those during the burn-in, and `pair_sweeps` the sweeps of single
    pairs. Tokens are uses of rules. The *before* figures include the initial derivations of new pairs in the first
    batch. `log_likelihoods` contains pairs (sweep number, log-likelihood). `finished` is False if the run was stopped.
    """

    pairs: int
    sweeps: int
    pair_sweeps: int
    seconds: float
    sampling_seconds: float
    rules_in_use_before: int
    tokens_before: int
    log_likelihood_before: float
    rules_in_use_after: int
    tokens_after: int
    log_likelihood_after: float
    log_likelihoods: list[tuple[int, float]]
    finished: bool
    burn_in: int


def rekey(store: Store) -> None:
    """Recompute all keys with the next salt for which they differ. Learners in memory become invalid."""
    with store.snapshot() as snapshot:
        rules = [
            rule
            for part in snapshot.rule_ranges()
            for rule in zip(part.ids.tolist(), part.rules.source.strings(), part.rules.target.strings(), strict=True)
        ]
    settings = store.settings()
    key = find_kind(settings).key
    salt = settings.key_salt
    keys: dict[tuple[int, int], int] = {}
    while len(keys) < len(rules) or salt == settings.key_salt:
        salt += 1
        keys = {key(source, target, salt): number for number, source, target in rules}
    store.rekey(salt, ((number, signed(high), signed(low)) for (high, low), number in keys.items()))


ALIGNED_STATES = [WAITING, SAMPLING, SETTLED]
"""States of pairs that can be sampled: all except pairs that wait for their alignment."""

_MAX_SALTS = 8
"""Maximum number of key collisions that a call of `learn` repairs."""


def find_interrupted_run(store: Store, sweeps: int | None = None) -> LearningRun | None:
    """Return the interrupted run that `learn(store, sweeps=sweeps)` would continue, or None."""
    run = store.unfinished_run()
    if run is None or sweeps not in (None, run.sweeps):
        return None
    # Pairs that are pending after all sweeps of the run are new pairs, so the run is over. But a run of 0 sweeps is
    # always complete, although its pairs may still need their burn-in.
    is_over = run.sweeps and run.is_complete and store.count_pairs([UNALIGNED, WAITING, SAMPLING])
    return None if is_over else run


def resume_or_start_run(store: Store, sweeps: int | None = None) -> LearningRun:
    """Return the interrupted run, or begin a run of `sweeps` (default `Kind.sweeps`)."""
    run = find_interrupted_run(store, sweeps)
    return run or store.begin_run(find_kind(store.settings()).sweeps if sweeps is None else sweeps)


def learn(
    store: Store, *, sweeps: int | None = None, options: LearnOptions | None = None, leave_unfinished: bool = False
) -> LearnReport:
    """Burn in new aligned pairs by their schedule, then sweep `sweeps` times over every pair.

    Pairs without an alignment are ignored, so align them first, see `align_pending`.
    An interrupted run is continued if `sweeps` is the same or None, and gives the result of an uninterrupted run. The
    result depends on the store, its seed, the sequence of calls and `LearnOptions.blocks`. With `leave_unfinished`, the
    caller must call `Store.finish_run` after delivering the report. Until then, a call with the same arguments reports
    the completed run without sweeps, unless pairs were added.

    If two rules share a key, all keys are recomputed with another salt and the run continues from its last commit.
    Pairs with a withdrawal request are removed before and after the run. A finished run indexes pairs by their rules.
    Raises `StoreHeldError` if another process writes this store's grammar.
    """
    started = time.perf_counter()
    with holding_lease(store, "hierogram learn"):
        withdraw_requested(store)
        run = resume_or_start_run(store, sweeps)
        for attempt in range(_MAX_SALTS + 1):
            try:
                done = _learn(store, run, options, started)
                break
            except (StoredKeyCollisionError, KeyCollisionError):
                if attempt == _MAX_SALTS:
                    raise
                rekey(store)
                run = store.unfinished_run() or run
        withdraw_requested(store)
        if done.finished:
            index_occurrences(store, stop=(options or LearnOptions()).stop)
        if done.finished and not leave_unfinished:
            store.finish_run()
        return done


def _learn(store: Store, run: LearningRun, options: LearnOptions | None, started: float) -> LearnReport:
    with Learner(store, options) as learner:
        executor = _RunExecutor(learner, run)
        finished = executor.burn_in()
        burn_in = learner.sweeps
        finished = finished and executor.sweep_all_pairs()
        if finished and executor.batch is not None:
            # Index these pairs here, because `index_occurrences` would load them again.
            index_batch(store, executor.batch, learner.options.stop)
        likelihood = learner.log_likelihood if learner.log_likelihood is not None else learner.measure()
        after = _GrammarSize(learner.chain.rule_types, learner.chain.rule_tokens, likelihood)
        before = executor.before or after
        return LearnReport(
            pairs=executor.pairs,
            sweeps=learner.sweeps,
            pair_sweeps=learner.pair_sweeps,
            seconds=time.perf_counter() - started,
            sampling_seconds=learner.sampling_seconds,
            rules_in_use_before=before.rules_in_use,
            tokens_before=before.tokens,
            log_likelihood_before=before.log_likelihood,
            rules_in_use_after=after.rules_in_use,
            tokens_after=after.tokens,
            log_likelihood_after=after.log_likelihood,
            log_likelihoods=learner.log_likelihoods,
            finished=finished,
            burn_in=burn_in,
        )


class _GrammarSize(NamedTuple):
    rules_in_use: int
    tokens: int
    log_likelihood: float


class _RunExecutor:
    """Executor of the remaining sweeps: `burn_in`, then `sweep_all_pairs`. They return False if stopped."""

    def __init__(self, learner: Learner, run: LearningRun) -> None:
        self._learner = learner
        self._store = learner.store
        self._run = run
        self.batch: ResidentBatch | None = None
        self.pairs = self._store.count_pairs(ALIGNED_STATES)
        self.before: _GrammarSize | None = None
        pending = self._store.count_pairs([WAITING, SAMPLING])
        learner.total_pair_sweeps = pending * learner.schedule.burn_in + self.pairs * (run.sweeps - run.sweeps_done)

    def burn_in(self) -> bool:
        burn_in = self._learner.schedule.burn_in
        for rows in read_batches(self._store, [WAITING, SAMPLING]):
            batch = self._open(rows)
            self._learner.total_pair_sweeps -= int(batch.sweeps[batch.sweeps < burn_in].sum())
            leave_open = len(rows) == self.pairs and self._run.sweeps_done < self._run.sweeps
            if not self._sweep(batch, np.maximum(batch.sweeps, burn_in), leave_open=leave_open):
                return False
        return True

    def sweep_all_pairs(self) -> bool:
        """Sweep over every pair in rounds, or in one round if one batch contains all pairs."""
        while self._run.sweeps_done < self._run.sweeps:
            remaining = self._run.sweeps - self._run.sweeps_done
            round_sweeps = min(self._learner.settings.round_sweeps, remaining)
            for rows in read_batches(self._store, ALIGNED_STATES, self._run.after_pair_id):
                is_whole_store = len(rows) == self.pairs
                if is_whole_store:
                    round_sweeps = remaining
                batch = self._open(rows)
                target_sweeps = batch.sweeps + round_sweeps - self._run.sweeps_in_round
                if not self._sweep(batch, target_sweeps, partial(self._advance_run, is_whole_store)):
                    return False
                self._run = self._run._replace(after_pair_id=rows[-1].id, sweeps_in_round=0)
            done = self._run.sweeps_done + round_sweeps
            self._run = self._run._replace(sweeps_done=done, after_pair_id=0, sweeps_in_round=0)
        self._store.commit((), run=self._run)
        # If no sweeps were left, open a batch only to measure the grammar.
        if self.before is None and (rows := next(read_batches(self._store, ALIGNED_STATES), [])):
            self._open(rows)
        return True

    def _advance_run(self, is_whole_store: bool, sweeps: int) -> LearningRun:
        sweeps_in_round = self._run.sweeps_in_round + sweeps
        if is_whole_store:
            return self._run._replace(sweeps_done=self._run.sweeps_done + sweeps_in_round, sweeps_in_round=0)
        return self._run._replace(sweeps_in_round=sweeps_in_round)

    def _open(self, rows: list[PairRow]) -> ResidentBatch:
        if self.batch is None or self.batch.ids.tolist() != [row.id for row in rows]:
            self.batch = None
            self.batch = self._learner.open(rows)
        if self.before is None:
            chain = self._learner.chain
            self.before = _GrammarSize(chain.rule_types, chain.rule_tokens, self._learner.measure())
        return self.batch

    def _sweep(
        self,
        batch: ResidentBatch,
        target_sweeps: NDArray[np.int64],
        run_progress: Callable[[int], LearningRun] | None = None,
        leave_open: bool = False,
    ) -> bool:
        if self._learner.options.stop():
            self._learner.commit_open(batch)
        else:
            self._learner.sweep(batch, target_sweeps, run_progress=run_progress, leave_open=leave_open)
        return not (batch.sweeps < target_sweeps).any()
