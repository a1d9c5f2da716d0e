"""Learning: take stored pairs through the schedule and keep what they become.

A *shard* is as many pairs as fit in memory at once. Its derivations are sampled against the counts of the whole
store; each commit carries the new derivations together with the changes of counts that they cause.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.batches import ALL_BITS, LoadedPairs, load_batch, longest_rule
from hierogram.daemon.changes import enter_samples, enter_state, rule_deltas
from hierogram.samplers.derivations import decode_states, encode_states, encode_trees, pack_ring, unpack_ring
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.keys import rule_key
from hierogram.samplers.likelihood import log_likelihood
from hierogram.samplers.models import Model, ModelSettings, build_model
from hierogram.samplers.rules import Rule, parse_side
from hierogram.samplers.schedule import Schedule
from hierogram.samplers.sweeps import GIBBS, Blocks, State, init, step, workspaces
from hierogram.samplers.table import RuleTable, empty_table, fill_table, shapes_of
from hierogram.samplers.tally import count_rules, empty_ledger
from hierogram.storage.exceptions import KeyCollisionError as StoredKeyCollisionError
from hierogram.storage.records import SAMPLING, SETTLED, PairRow, PairUpdate, Settings, SweepRecord
from hierogram.storage.store import Store

DEFAULT_SWEEPS = 30
"""Sweeps over everything that follow the stratified ones, which makes 100 in all [CFGŠ14 §5.4.2]."""

_WORDS_A_SHARD = 4_000_000
_PAIRS_A_READ = 5_000
_SECONDS_A_COMMIT = 30.0
_LIKELIHOOD_EVERY = 10
_MOST_SALTS = 8


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


@dataclass(frozen=True, slots=True)
class LearnReport:
    """What learning did: pairs and sweeps, time, and the grammar before and after.

    The *before* figures are those of the initial state of the pairs that were new, counted together with what was there
    (every node a rule of its own); `curve` holds (sweep, log-likelihood) as far as computed.
    """

    pairs: int
    sweeps: int
    pair_sweeps: int
    seconds: float
    sampling_seconds: float
    rules_before: int
    tokens_before: int
    log_likelihood_before: float
    rules_after: int
    tokens_after: int
    log_likelihood_after: float
    curve: list[tuple[int, float]] = field(default_factory=list)


def schedule_of(settings: Settings) -> Schedule:
    """The store's schedule."""
    return Schedule(settings.sweeps_per_level, settings.levels, settings.thinning)


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


@dataclass(slots=True)
class Shard:
    """Pairs in memory: their batch, present state, samples and sweeps, and both as last committed."""

    rows: list[PairRow]
    loaded: LoadedPairs
    state: State
    sweeps: NDArray[np.int64]
    rings: list[list[bytes]]
    committed_state: State | None
    committed: NDArray[np.bool_]
    committed_rings: list[list[bytes]]
    settings: Settings

    @classmethod
    def of(cls, rows: list[PairRow], settings: Settings, key_mask: np.uint64 = ALL_BITS) -> "Shard":
        """The pairs as stored; those without a derivation get their initial state."""
        loaded = load_batch(rows, settings, key_mask)
        forests = loaded.batch.forests
        state = init(settings.seed, loaded.batch)
        stored = np.array([row.current is not None for row in rows], np.bool_)
        if stored.any():
            fresh = encode_states(forests, state)
            state = decode_states(forests, [row.current or blob for row, blob in zip(rows, fresh, strict=True)])
        rings = [unpack_ring(row.ring or b"") for row in rows]
        return cls(
            rows,
            loaded,
            state,
            np.array([row.sweep for row in rows], np.int64),
            rings,
            State(state.edge.copy(), state.cut.copy()) if stored.any() else None,
            stored,
            [list(ring) for ring in rings],
            settings,
        )

    def count_new(self, table: RuleTable, model: Model) -> RuleTable:
        """The table with the initial derivations of the pairs that the store has not counted yet."""
        if self.committed.all():
            return table
        return count_rules(self.loaded.batch, self.state, table, model, 1, self.committed)

    def keep_samples(self, due: NDArray[np.bool_]) -> None:
        """Append the present trees of the pairs that are due to their rings and drop what is too old."""
        if not due.any():
            return
        trees = encode_trees(self.loaded.batch.forests, self.state)
        for pair in np.flatnonzero(due).tolist():
            ring = self.rings[pair]
            ring.append(trees[pair])
            if len(ring) > self.settings.samples:
                del ring[0]

    def commit(self, store: Store, records: list[SweepRecord]) -> None:
        """Write derivations, samples and the changes of counts since the last commit, in one transaction."""
        ledger = empty_ledger()
        if self.committed_state is not None:
            ledger = enter_state(ledger, self.loaded, self.committed_state, -1, self.committed)
        ledger = enter_state(ledger, self.loaded, self.state, 1)
        dropped, added = [], []
        for old, new in zip(self.committed_rings, self.rings, strict=True):
            shared = _shared(old, new)
            dropped.append(old[: len(old) - shared])
            added.append(new[shared:])
        ledger = enter_samples(ledger, self.loaded, dropped, -1)
        ledger = enter_samples(ledger, self.loaded, added, 1)
        schedule = schedule_of(self.settings)
        stages = schedule.stages(np.maximum(self.sweeps, 1)).tolist()
        currents = encode_states(self.loaded.batch.forests, self.state)
        updates = [
            PairUpdate(
                row.id,
                current,
                pack_ring(ring),
                SETTLED if sweep >= schedule.settling else SAMPLING,
                min(stage, schedule.levels + 1),
                sweep,
            )
            for row, current, ring, stage, sweep in zip(
                self.rows, currents, self.rings, stages, self.sweeps.tolist(), strict=True
            )
        ]
        store.commit(updates, rule_deltas(ledger, self.loaded), records)
        self.committed_state = State(self.state.edge.copy(), self.state.cut.copy())
        self.committed = np.ones(len(self.rows), np.bool_)
        self.committed_rings = [list(ring) for ring in self.rings]


def _shared(old: list[bytes], new: list[bytes]) -> int:
    """How many samples at the end of `old` stand unchanged at the beginning of `new`."""
    for size in range(min(len(old), len(new)), 0, -1):
        if old[-size:] == new[:size]:
            return size
    return 0


def read_shards(store: Store, states: list[str] | None = None) -> Iterator[list[PairRow]]:
    """The stored pairs in the order of their numbers, as many at a time as fit in memory."""
    shard: list[PairRow] = []
    words = 0
    after = 0
    while True:
        rows = store.pairs(after_id=after, limit=_PAIRS_A_READ, states=states)
        for row in rows:
            size = row.source.count(" ") + row.target.count(" ") + 2
            if shard and words + size > _WORDS_A_SHARD:
                yield shard
                shard, words = [], 0
            shard.append(row)
            words += size
        if len(rows) < _PAIRS_A_READ:
            break
        after = rows[-1].id
    if shard:
        yield shard


class _Learning:
    """One run of `learn`: what its loops share."""

    def __init__(
        self,
        store: Store,
        threads: int | None,
        report: Callable[[LearnProgress], None] | None,
        likelihood_every: int,
        key_mask: np.uint64,
        method: int,
    ) -> None:
        self.store = store
        self.settings = store.settings()
        self.model = model_of(self.settings, store.vocabulary_sizes())
        self.table = load_table(store, self.model, self.settings)
        self.schedule = schedule_of(self.settings)
        self.report = report
        self.likelihood_every = likelihood_every
        self.key_mask = key_mask
        self.method = method
        self.executor = ThreadPoolExecutor(threads or os.cpu_count() or 1)
        self.curve: list[tuple[int, float]] = []
        self.likelihood: float | None = None
        self.rules = 0
        self.sampling_seconds = 0.0
        self.sweeps = 0
        self.pair_sweeps = 0
        self.total = 0
        self.before: tuple[int, int, float] | None = None

    def tell(self, phase: str, stage: int, pairs: int, done: int) -> None:
        if self.report:
            self.report(
                LearnProgress(
                    phase, self.sweeps, min(stage, self.schedule.levels + 1), pairs, done, self.total,
                    self.likelihood, self.rules, self.table.rule_tokens,
                )
            )  # fmt: skip

    def measure(self) -> float:
        self.likelihood = log_likelihood(self.table, self.model)
        self.rules = self.table.rule_types
        self.curve.append((self.sweeps, self.likelihood))
        return self.likelihood

    def open(self, rows: list[PairRow]) -> Shard:
        """The rows as a shard whose derivations are all in the table."""
        shard = Shard.of(rows, self.settings, self.key_mask)
        self.table = shard.count_new(self.table, self.model)
        if self.before is None:
            self.before = (self.table.rule_types, self.table.rule_tokens, self.measure())
        return shard

    def sweep(self, shard: Shard, until: NDArray[np.int64]) -> None:
        """Sweep over the shard until each pair has had so many sweeps; commit now and then, and at the end."""
        batch = shard.loaded.batch
        blocks = Blocks.suited_to(batch.size)
        spaces = workspaces(batch, blocks)
        records: list[SweepRecord] = []
        last_commit = time.monotonic()
        while (active := shard.sweeps < until).any():
            shard.sweeps[active] += 1
            stages = self.schedule.stages(shard.sweeps)
            stages[~active] = 0
            stage = int(stages.max())
            at_work = int(active.sum())
            done = self.pair_sweeps

            def on_pairs(pairs: int, stage: int = stage, at_work: int = at_work, done: int = done) -> None:
                self.tell("pairs", stage, at_work, done + pairs * at_work // batch.size)

            started = time.perf_counter()
            shard.state, self.table, info = step(
                self.settings.seed, batch, shard.state, self.table, self.model, shard.sweeps, stages, spaces,
                method=self.method, blocks=blocks, run=self.executor.map, report=on_pairs,
            )  # fmt: skip
            seconds = time.perf_counter() - started
            self.sampling_seconds += seconds
            self.sweeps += 1
            self.pair_sweeps += at_work
            shard.keep_samples(active & (shard.sweeps % self.schedule.thinning == 0))
            due = self.sweeps % self.likelihood_every == 0
            records.append(
                SweepRecord(
                    min(stage, self.schedule.levels + 1), at_work, self.measure() if due else None,
                    info.edges_sampled, info.edges_changed, info.cuts_sampled, info.cuts_changed, seconds,
                )
            )  # fmt: skip
            self.tell("sweep", stage, at_work, self.pair_sweeps)
            if time.monotonic() - last_commit > _SECONDS_A_COMMIT:
                shard.commit(self.store, records)
                records = []
                last_commit = time.monotonic()
        if records:
            if records[-1].log_likelihood is None:
                records[-1] = records[-1]._replace(log_likelihood=self.measure())
            self.tell("commit", 0, batch.size, self.pair_sweeps)
            shard.commit(self.store, records)


def _rekey(store: Store, key_mask: np.uint64) -> None:
    """Give every rule a new key under the next salt."""
    salt = store.settings().key_salt + 1
    keys = []
    with store.snapshot() as snapshot:
        for row in snapshot.iterate_all_rule_rows():
            rule = Rule(parse_side(row.source), parse_side(row.target))
            high, low = rule_key(rule, salt, int(key_mask))
            keys.append((row.id, _signed(high), _signed(low)))
    store.rekey(salt, keys)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def learn(
    store: Store,
    *,
    sweeps: int | None = None,
    threads: int | None = None,
    report: Callable[[LearnProgress], None] | None = None,
    likelihood_every: int = _LIKELIHOOD_EVERY,
    method: int = GIBBS,
    key_mask: np.uint64 = ALL_BITS,
) -> LearnReport:
    """Take pairs that have not settled through the stratified schedule, then every pair through `sweeps` more.

    Work is committed about every half minute and at the end of each part, so a run that is ended goes on where it was.
    The result depends on the store, its seed and the calls made, not on `threads`. Where two rules share a key, all
    keys are made anew under another salt and the run goes on from its last commit.
    """
    started = time.perf_counter()
    for _ in range(_MOST_SALTS):
        try:
            return _learn(store, sweeps, threads, report, likelihood_every, method, key_mask, started)
        except (StoredKeyCollisionError, KeyCollisionError):
            _rekey(store, key_mask)
    return _learn(store, sweeps, threads, report, likelihood_every, method, key_mask, started)


def _learn(
    store: Store,
    sweeps: int | None,
    threads: int | None,
    report: Callable[[LearnProgress], None] | None,
    likelihood_every: int,
    method: int,
    key_mask: np.uint64,
    started: float,
) -> LearnReport:
    more = DEFAULT_SWEEPS if sweeps is None else sweeps
    run = _Learning(store, threads, report, likelihood_every, key_mask, method)
    pairs = store.count_pairs(None)
    unsettled = store.count_pairs(["waiting", "sampling"])
    run.total = unsettled * run.schedule.settling + pairs * more
    shards = 0
    shard: Shard | None = None
    with run.executor:
        for rows in read_shards(store, ["waiting", "sampling"]):
            shard = run.open(rows)
            run.total -= int(np.minimum(shard.sweeps, run.schedule.settling).sum())
            run.sweep(shard, np.full(len(rows), run.schedule.settling))
            shards += 1
        if more and shards == 1 and shard is not None and len(shard.rows) == pairs:
            run.sweep(shard, shard.sweeps + more)
        elif more:
            # Many shards: a few sweeps over each in turn, so that no part of the store falls far behind.
            for first in range(0, more, run.schedule.thinning):
                for rows in read_shards(store):
                    shard = run.open(rows)
                    run.sweep(shard, shard.sweeps + min(run.schedule.thinning, more - first))
    after = run.likelihood if run.likelihood is not None else run.measure()
    before = run.before or (run.table.rule_types, run.table.rule_tokens, after)
    return LearnReport(
        pairs,
        run.sweeps,
        run.pair_sweeps,
        time.perf_counter() - started,
        run.sampling_seconds,
        *before,
        run.table.rule_types,
        run.table.rule_tokens,
        after,
        run.curve,
    )
