"""Learning: take stored pairs through the schedule and keep what they become."""

import time
from collections.abc import Callable

import numpy as np

from hierogram.daemon.learning.batches import ALL_BITS
from hierogram.daemon.learning.deltas import signed
from hierogram.daemon.learning.learner import LIKELIHOOD_EVERY, Learner, LearnProgress
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.reports import LearnReport
from hierogram.daemon.learning.residents import Shard, read_shards
from hierogram.daemon.learning.tree_learning import learn_trees
from hierogram.daemon.learning.withdrawing import withdraw_requested
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.grammar.keys import fragment_key, rule_key
from hierogram.samplers.grammar.rules import Rule, parse_side
from hierogram.samplers.grammar.settings import TREES
from hierogram.samplers.synchronous.sweeps import GIBBS
from hierogram.storage.exceptions import KeyCollisionError as StoredKeyCollisionError
from hierogram.storage.store import Store

DEFAULT_SWEEPS = 30
"""Sweeps over everything that follow the stratified ones, which makes 100 in all [CFGŠ14 §5.4.2]."""

ALIGNED = ["waiting", "sampling", "settled"]
"""States of the pairs that have an alignment."""

_MOST_SALTS = 8


def rekey(store: Store, key_mask: np.uint64 = ALL_BITS) -> None:
    """Give every rule a new key under the next salt that keeps the stored rules apart."""
    with store.snapshot() as snapshot:
        rules = [(row.id, row.source, row.target) for row in snapshot.iterate_all_rule_rows()]
    settings = store.settings()
    salt = settings.key_salt
    keys: dict[tuple[int, int], int] = {}
    while len(keys) < len(rules) or salt == settings.key_salt:
        salt += 1
        keys = {_key(settings.grammar, source, target, salt, key_mask): number for number, source, target in rules}
    store.rekey(salt, ((number, signed(high), signed(low)) for (high, low), number in keys.items()))


def _key(grammar: str, source: str, target: str, salt: int, key_mask: np.uint64) -> tuple[int, int]:
    if grammar == TREES:
        return fragment_key(source, target, salt, int(key_mask))
    return rule_key(Rule(parse_side(source), parse_side(target)), salt, int(key_mask))


def learn(
    store: Store,
    *,
    sweeps: int | None = None,
    threads: int | None = None,
    report: Callable[[LearnProgress], None] | None = None,
    likelihood_every: int = LIKELIHOOD_EVERY,
    method: int = GIBBS,
    key_mask: np.uint64 = ALL_BITS,
) -> LearnReport:
    """Take pairs that have not settled through the stratified schedule, then every pair through `sweeps` more.

    In the store of a tree grammar, new trees are annealed in place of that; `threads` and `method` do not matter there.

    Work is committed every few minutes and at the end of each part, so a run that is ended goes on from there.
    The result depends on the store, its seed and the calls made, not on `threads`. Where two rules share a key, all
    keys are made anew under another salt and the run goes on from its last commit. Pairs that were asked to leave do so
    before and after. Raises `StoreHeldError` where another process writes this store's grammar.
    """
    started = time.perf_counter()
    with holding_lease(store, "hierogram learn"):
        withdraw_requested(store, key_mask)
        for attempt in range(_MOST_SALTS + 1):
            try:
                done = _learn(store, sweeps, threads, report, likelihood_every, method, key_mask, started)
                break
            except (StoredKeyCollisionError, KeyCollisionError):
                if attempt == _MOST_SALTS:
                    raise
                rekey(store, key_mask)
        withdraw_requested(store, key_mask)
        return done


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
    if store.settings().grammar == TREES:
        return learn_trees(store, more, report, likelihood_every, key_mask, started)
    run = Learner(store, threads, report, likelihood_every, key_mask, method)
    pairs = store.count_pairs(ALIGNED)
    unsettled = store.count_pairs(["waiting", "sampling"])
    run.total = unsettled * run.schedule.settling + pairs * more
    before: tuple[int, int, float] | None = None
    shards = 0
    shard: Shard | None = None
    with run:
        for rows in read_shards(store, ["waiting", "sampling"]):
            shard = run.open(rows)
            before = before or _figures(run)
            run.total -= int(np.minimum(shard.sweeps, run.schedule.settling).sum())
            run.sweep(shard, np.full(len(rows), run.schedule.settling))
            shards += 1
        if more and shards == 1 and shard is not None and len(shard.rows) == pairs:
            run.sweep(shard, shard.sweeps + more)
        elif more:
            # Many shards: a few sweeps over each in turn, so that no part of the store falls far behind.
            for first in range(0, more, run.schedule.thinning):
                for rows in read_shards(store, ALIGNED):
                    shard = run.open(rows)
                    before = before or _figures(run)
                    run.sweep(shard, shard.sweeps + min(run.schedule.thinning, more - first))
    after = run.likelihood if run.likelihood is not None else run.measure()
    before = before or (run.table.rule_types, run.table.rule_tokens, after)
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


def _figures(run: Learner) -> tuple[int, int, float]:
    return run.table.rule_types, run.table.rule_tokens, run.measure()


__all__ = ["DEFAULT_SWEEPS", "LearnProgress", "LearnReport", "learn", "rekey"]
