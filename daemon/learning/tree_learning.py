"""Learning a tree grammar: new trees are annealed against the others, then every tree goes through more sweeps."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.batches import LoadedTrees
from hierogram.daemon.learning.learner import LearnProgress
from hierogram.daemon.learning.reports import LearnReport
from hierogram.daemon.learning.residents import Shard, annealing_of
from hierogram.daemon.learning.tree_chains import LabelPrior, TreeChain
from hierogram.storage.records import LabelRow, PairRow, SweepRecord
from hierogram.storage.store import Store

_SECONDS_A_COMMIT = 180.0
_COMMIT_SHARE = 8
_TREES_A_READ = 5_000


class TreeLearner:
    """A tree grammar's store in memory, all of its trees at once, and the two kept in step.

    The base distribution P_C and the parameters of the labels belong to the whole treebank, so it is never sampled in
    parts. Only one learner may write to a store at a time.
    """

    def __init__(
        self,
        store: Store,
        report: Callable[[LearnProgress], None] | None,
        likelihood_every: int,
        key_mask: np.uint64,
    ) -> None:
        self.store = store
        self.settings = store.settings()
        self.report = report
        self.likelihood_every = likelihood_every
        self.annealing = annealing_of(self.settings)
        self.shard = Shard.of(_all_trees(store), self.settings, key_mask)
        assert isinstance(self.shard.loaded, LoadedTrees)
        known = {row.label: LabelPrior(row.strength, row.expanded) for row in store.labels()}
        self.chain = TreeChain(self.shard.loaded, self.shard.state, self.settings.base, self.settings.seed, known)
        self.first_sweep = store.status().sweeps
        self.sweeps = 0
        self.tree_sweeps = 0
        self.total = 0
        self.sampling_seconds = 0.0
        self.curve: list[tuple[int, float]] = []

    def measure(self) -> float:
        """The log-likelihood of all fragments given the labels' parameters, natural-log; also noted on the curve."""
        self.curve.append((self.sweeps, self.chain.log_likelihood()))
        return self.curve[-1][1]

    def _tell(self, phase: str, stage: int, trees: int, done: int) -> None:
        if self.report:
            likelihood = self.curve[-1][1] if self.curve else None
            table = self.chain.table
            self.report(
                LearnProgress(
                    phase, self.sweeps, stage, trees, done, self.total, likelihood, 0, table.rule_tokens
                )
            )  # fmt: skip

    def sweep(self, until: NDArray[np.int64]) -> None:
        """Sweep until each tree has had so many sweeps; commit now and then, and at the end."""
        shard = self.shard
        records: list[SweepRecord] = []
        last_commit = time.monotonic()
        wait = _SECONDS_A_COMMIT
        while (active := shard.sweeps < until).any():
            shard.sweeps[active] += 1
            temperatures = np.where(active, self.annealing.temperatures(shard.sweeps), 0.0)
            stage = 1 if temperatures.max() > 1.0 else 2
            at_work = int(active.sum())
            done = self.tree_sweeps

            def on_trees(trees: int, stage: int = stage, at_work: int = at_work, done: int = done) -> None:
                self._tell("pairs", stage, at_work, done + trees * at_work // len(shard.rows))

            started = time.perf_counter()
            self.sweeps += 1
            info = self.chain.sweep(self.first_sweep + self.sweeps, shard.sweeps, temperatures, on_trees)
            seconds = time.perf_counter() - started
            shard.state = self.chain.state
            self.sampling_seconds += seconds
            self.tree_sweeps += at_work
            shard.keep_samples(active & (shard.sweeps % self.settings.thinning == 0) & (temperatures == 1.0))
            due = self.sweeps % self.likelihood_every == 0
            records.append(
                SweepRecord(
                    stage, at_work, self.measure() if due else None,
                    info.edges_sampled, info.edges_changed, info.cuts_sampled, info.cuts_changed, seconds,
                )
            )  # fmt: skip
            self._tell("sweep", stage, at_work, self.tree_sweeps)
            if time.monotonic() - last_commit > wait and (shard.sweeps < until).any():
                started = time.monotonic()
                self._commit(records)
                records = []
                last_commit = time.monotonic()
                wait = max(wait, _COMMIT_SHARE * (last_commit - started))
        if records:
            if records[-1].log_likelihood is None:
                records[-1] = records[-1]._replace(log_likelihood=self.measure())
            self._tell("commit", 0, len(shard.rows), self.tree_sweeps)
            self._commit(records)

    def _commit(self, records: list[SweepRecord]) -> None:
        labels = [LabelRow(label, *prior) for label, prior in self.chain.priors().items()]
        self.shard.commit(self.store, records, labels)


def _all_trees(store: Store) -> list[PairRow]:
    rows: list[PairRow] = []
    while chunk := store.pairs(after_id=rows[-1].id if rows else 0, limit=_TREES_A_READ):
        rows += chunk
    return rows


def learn_trees(
    store: Store,
    sweeps: int,
    report: Callable[[LearnProgress], None] | None,
    likelihood_every: int,
    key_mask: np.uint64,
    started: float,
) -> LearnReport:
    """Anneal the trees that have not settled, against the counts of all others; then take every tree through `sweeps`.

    `started` is when learning began, on `time.perf_counter`'s clock.
    """
    run = TreeLearner(store, report, likelihood_every, key_mask)
    trees = len(run.shard.rows)
    settling = run.annealing.settling
    unsettled = run.shard.sweeps < settling
    run.total = int((settling - run.shard.sweeps)[unsettled].sum()) + trees * sweeps
    before = (run.chain.table.rule_types, run.chain.table.rule_tokens, run.measure())
    if trees:
        run.sweep(np.where(unsettled, settling, run.shard.sweeps))
        run.sweep(run.shard.sweeps + sweeps)
    return LearnReport(
        trees,
        run.sweeps,
        run.tree_sweeps,
        time.perf_counter() - started,
        run.sampling_seconds,
        *before,
        run.chain.table.rule_types,
        run.chain.table.rule_tokens,
        run.curve[-1][1],
        run.curve,
    )
