"""Compiling, or loading from the cache, all kernels that sampling needs, before anybody waits for them."""

from hierogram.daemon.learning.deltas import rule_deltas
from hierogram.daemon.learning.learner import model_of
from hierogram.daemon.learning.residents import Shard
from hierogram.samplers.counts.chain import ChainState
from hierogram.samplers.counts.deltas import empty_ledger, tally
from hierogram.samplers.counts.likelihood import log_likelihood
from hierogram.samplers.counts.table import empty_table
from hierogram.samplers.synchronous.passes import SweepPlan
from hierogram.samplers.synchronous.sweeps import Blocks, build
from hierogram.storage.records import WAITING, PairRow, Settings


def warm_up(settings: Settings) -> None:
    """Takes one small pair through everything that is done to pairs, in memory alone."""
    rows = [PairRow(1, "a b", "c d", "0-0 1-1", WAITING, 0, 0, None, None)]
    model = model_of(settings, (2, 2))
    shard = Shard.of(rows, settings)
    batch = shard.loaded.batch
    table = shard.count_new(empty_table(batch.longest_rule), model)
    for blocks in (None, Blocks(1, 1)):
        shard.sweeps += 1
        plan = SweepPlan(shard.sweeps, shard.sweeps.astype("int16"))
        kernel = build(model, batch, blocks=blocks)
        (shard.state, table), _ = kernel.step(settings.seed, ChainState(shard.state, table), plan)
    shard.keep_samples(shard.sweeps > 0)
    log_likelihood(table, model)
    rule_deltas(tally(empty_ledger(), batch, shard.state, 1, 0), shard.loaded)
