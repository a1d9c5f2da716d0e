"""The learner: the rule table of a store in memory, and pairs taken through their sweeps against it."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.batches import ALL_BITS, longest_rule
from hierogram.daemon.learning.compiling import SweepKernel
from hierogram.daemon.learning.residents import Shard, schedule_of
from hierogram.daemon.learning.withdrawing import withdraw
from hierogram.samplers.counts.chain import ChainState
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.likelihood import log_likelihood
from hierogram.samplers.counts.models import Model, ModelSettings, build_model
from hierogram.samplers.counts.table import RuleTable, empty_table, fill_table, shapes_of
from hierogram.samplers.grammar.settings import TREES
from hierogram.samplers.synchronous.passes import SweepPlan
from hierogram.samplers.synchronous.sweeps import GIBBS, Blocks, build
from hierogram.storage.records import PairRow, Settings, SweepRecord
from hierogram.storage.store import Store

_SECONDS_A_COMMIT = 180.0
_COMMIT_SHARE = 8
LIKELIHOOD_EVERY = 10
"""Sweeps between two computations of the log-likelihood."""


@dataclass(frozen=True, slots=True)
class LearnProgress:
    """Where learning stands: pair sweeps done and to do, the stage, and the last known figures of the whole store.

    `log_likelihood` is natural-log, of all rule tokens of the store.
    """

    phase: str
    sweep: int
    stage: int
    pairs: int
    done: int
    total: int
    log_likelihood: float | None
    rules: int
    tokens: int


def model_of(settings: Settings, vocabulary: tuple[int, int]) -> Model:
    """The store's rule model; the vocabulary sizes are those of the store at the time."""
    return build_model(
        ModelSettings(settings.model, settings.strength, settings.discount, settings.rate),
        *vocabulary,
        longest_rule(settings),
    )


def load_table(store: Store, model: Model, settings: Settings) -> RuleTable:
    """All rule counts of the store as a table for the samplers."""
    counts = store.rule_counts()
    return fill_table(
        empty_table(longest_rule(settings), len(counts.counts)),
        model,
        counts.keys,
        counts.counts,
        shapes_of(counts.lengths, counts.source_terminals, counts.target_terminals),
    )


class Learner:
    """Holds a store's rule counts in memory and keeps them and the store in step.

    Only one learner may write to a store at a time. `report` hears of progress; `threads` changes speed, never results.
    The log-likelihood, which takes time in proportion to the store, is computed every `likelihood_every` sweeps and at
    the end of each `sweep`, but not before `likelihood_seconds` have passed since the last time.
    """

    def __init__(
        self,
        store: Store,
        threads: int | None = None,
        report: Callable[[LearnProgress], None] | None = None,
        likelihood_every: int = LIKELIHOOD_EVERY,
        key_mask: np.uint64 = ALL_BITS,
        method: int = GIBBS,
        likelihood_seconds: float = 0.0,
    ) -> None:
        self.store = store
        self.settings = store.settings()
        if self.settings.grammar == TREES:
            raise UsageError(f"{store.url} holds a tree grammar, whose trees are sampled by `hierogram learn` alone")
        self._kernel = SweepKernel(method)
        self._vocabulary = store.vocabulary_sizes()
        self.model = model_of(self.settings, self._vocabulary)
        self.table = load_table(store, self.model, self.settings)
        self.schedule = schedule_of(self.settings)
        self.report = report
        self.likelihood_every = likelihood_every
        self.likelihood_seconds = likelihood_seconds
        self._measured_at = float("-inf")
        self.key_mask = key_mask
        self.method = method
        self.threads = threads or os.cpu_count() or 1
        self.executor = ThreadPoolExecutor(self.threads)
        self.curve: list[tuple[int, float]] = []
        self.likelihood: float | None = None
        self.rules = 0
        self.sampling_seconds = 0.0
        self.sweeps = 0
        self.pair_sweeps = 0
        self.total = 0

    def close(self) -> None:
        """End the learner's threads."""
        self._kernel.close()
        self.executor.shutdown()

    def __enter__(self) -> Self:
        """The learner itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _tell(self, phase: str, stage: int, pairs: int, done: int) -> None:
        if self.report:
            self.report(
                LearnProgress(
                    phase, self.sweeps, min(stage, self.schedule.levels + 1), pairs, done, self.total,
                    self.likelihood, self.rules, self.table.rule_tokens,
                )
            )  # fmt: skip

    def measure(self) -> float:
        """The log-likelihood of all rule counts, natural-log; also noted on the curve."""
        self.likelihood = log_likelihood(self.table, self.model)
        self.rules = self.table.rule_types
        self.curve.append((self.sweeps, self.likelihood))
        self._measured_at = time.monotonic()
        return self.likelihood

    def _may_measure(self) -> bool:
        return time.monotonic() - self._measured_at >= self.likelihood_seconds

    def follow_vocabulary(self) -> None:
        """Take the store's present vocabulary into the model, whose base distribution spreads over it."""
        sizes = self.store.vocabulary_sizes()
        if sizes != self._vocabulary:
            self._vocabulary = sizes
            self.model = model_of(self.settings, sizes)

    def open(self, rows: list[PairRow]) -> Shard:
        """The rows as a shard whose derivations are all in the table."""
        shard = Shard.of(rows, self.settings, self.key_mask)
        self.table = shard.count_new(self.table, self.model)
        return shard

    def withdraw(self, rows: list[PairRow]) -> None:
        """Take the pairs, as they are stored, out of the store and out of the table; no open shard may hold them."""
        leaving = withdraw(self.store, rows, self.settings, self.key_mask)
        if leaving is not None:
            self.table = count_rules(leaving.loaded.batch, leaving.state, self.table, self.model, -1)

    def sweep(self, shard: Shard, until: NDArray[np.int64], enough: Callable[[], bool] | None = None) -> None:
        """Sweep over the shard until each pair has had so many sweeps; commit now and then, and at the end.

        `enough` is asked after each sweep; where it says so, what is done so far is committed and left at that.
        """
        batch = shard.loaded.batch
        kernel = build(
            self.model, batch, method=self.method, blocks=Blocks.suited_to(batch.size),
            workers=self.threads, run=self.executor.map,
        )  # fmt: skip
        kernel.compile_merging(self.table)
        self._kernel.wait()
        records: list[SweepRecord] = []
        last_commit = time.monotonic()
        wait = _SECONDS_A_COMMIT
        while (active := shard.sweeps < until).any():
            shard.sweeps[active] += 1
            stages = self.schedule.stages(shard.sweeps)
            stages[~active] = 0
            stage = int(stages.max())
            at_work = int(active.sum())
            done = self.pair_sweeps

            def on_pairs(pairs: int, stage: int = stage, at_work: int = at_work, done: int = done) -> None:
                self._tell("pairs", stage, at_work, done + pairs * at_work // batch.size)

            started = time.perf_counter()
            plan = SweepPlan(shard.sweeps, stages)
            state = ChainState(shard.state, self.table)
            (shard.state, self.table), info = kernel.step(self.settings.seed, state, plan, on_pairs)
            seconds = time.perf_counter() - started
            self.sampling_seconds += seconds
            self.sweeps += 1
            self.pair_sweeps += at_work
            shard.keep_samples(active & (shard.sweeps % self.schedule.thinning == 0))
            due = self.sweeps % self.likelihood_every == 0 and self._may_measure()
            records.append(
                SweepRecord(
                    min(stage, self.schedule.levels + 1), at_work, self.measure() if due else None,
                    info.edges_sampled, info.edges_changed, info.cuts_sampled, info.cuts_changed, seconds,
                )
            )  # fmt: skip
            self._tell("sweep", stage, at_work, self.pair_sweeps)
            if enough is not None and enough():
                break
            if time.monotonic() - last_commit > wait and (shard.sweeps < until).any():
                started = time.monotonic()
                shard.commit(self.store, records)
                records = []
                last_commit = time.monotonic()
                # Committing a large shard takes a while; do not let it take more than its share.
                wait = max(wait, _COMMIT_SHARE * (last_commit - started))
        if records:
            if records[-1].log_likelihood is None and self._may_measure():
                records[-1] = records[-1]._replace(log_likelihood=self.measure())
            self._tell("commit", 0, batch.size, self.pair_sweeps)
            shard.commit(self.store, records)
