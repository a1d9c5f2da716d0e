"""Learning: take stored pairs through the schedule and keep what they become."""

import time

import numpy as np

from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.rekeying import rekey
from hierogram.daemon.learning.reports import LearnReport
from hierogram.daemon.learning.residents import ResidentBatch, read_batches
from hierogram.daemon.learning.withdrawing import withdraw_requested
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.storage.exceptions import KeyCollisionError as StoredKeyCollisionError
from hierogram.storage.records import SAMPLING, SETTLED, WAITING
from hierogram.storage.store import Store

DEFAULT_SWEEPS = 30
"""Sweeps over everything that follow the stratified ones, which makes 100 in all [CFGŠ14 §5.4.2]."""

ALIGNED = [WAITING, SAMPLING, SETTLED]
"""States of the pairs that have an alignment."""

_MOST_SALTS = 8


def learn(store: Store, *, sweeps: int | None = None, options: LearnOptions | None = None) -> LearnReport:
    """Take pairs that have not burned in through their schedule, then every pair through `sweeps` more.

    Work is committed every few minutes and at the end of each part, so a run that is ended goes on from there.
    The result depends on the store, its seed and the calls made, not on the options. Where two rules share a key, all
    keys are made anew under another salt and the run goes on from its last commit. Pairs that were asked to leave do so
    before and after. Raises `StoreHeldError` where another process writes this store's grammar.
    """
    started = time.perf_counter()
    with holding_lease(store, "hierogram learn"):
        withdraw_requested(store)
        for attempt in range(_MOST_SALTS + 1):
            try:
                done = _learn(store, DEFAULT_SWEEPS if sweeps is None else sweeps, options, started)
                break
            except (StoredKeyCollisionError, KeyCollisionError):
                if attempt == _MOST_SALTS:
                    raise
                rekey(store)
        withdraw_requested(store)
        return done


def _learn(store: Store, more: int, options: LearnOptions | None, started: float) -> LearnReport:
    run = Learner(store, options)
    burn_in = run.course.burn_in
    pairs = store.count_pairs(ALIGNED)
    run.total = store.count_pairs([WAITING, SAMPLING]) * burn_in + pairs * more
    before: tuple[int, int, float] | None = None
    batches = 0
    batch: ResidentBatch | None = None
    with run:
        for rows in read_batches(store, [WAITING, SAMPLING]):
            batch = run.open(rows)
            before = before or _figures(run)
            behind = batch.sweeps < burn_in
            run.total -= int(batch.sweeps[behind].sum())
            run.sweep(batch, np.maximum(batch.sweeps, burn_in))
            batches += 1
        if more and batches == 1 and batch is not None and len(batch.rows) == pairs:
            run.sweep(batch, batch.sweeps + more)
        elif more:
            # Many batches: a few sweeps over each in turn, so that no part of the store falls far behind.
            for first in range(0, more, run.course.thinning):
                for rows in read_batches(store, ALIGNED):
                    batch = run.open(rows)
                    before = before or _figures(run)
                    run.sweep(batch, batch.sweeps + min(run.course.thinning, more - first))
        after = run.likelihood if run.likelihood is not None else run.measure()
        before = before or (run.chain.rule_types, run.chain.rule_tokens, after)
    return LearnReport(
        pairs,
        run.sweeps,
        run.pair_sweeps,
        time.perf_counter() - started,
        run.sampling_seconds,
        *before,
        run.chain.rule_types,
        run.chain.rule_tokens,
        after,
        run.curve,
    )


def _figures(run: Learner) -> tuple[int, int, float]:
    return run.chain.rule_types, run.chain.rule_tokens, run.measure()
