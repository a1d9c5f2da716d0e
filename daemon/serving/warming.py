"""Compiling, or loading from the cache, all kernels that sampling needs, before anybody waits for them."""

from hierogram.daemon.learning.deltas import rule_deltas
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.counts.deltas import empty_ledger, tally
from hierogram.samplers.forests.derivations import decode_states, decode_trees, encode_states, encode_trees
from hierogram.storage.records import Settings


def warm_up(settings: Settings) -> None:
    """Takes one small pair through everything that is done to pairs, in memory alone."""
    loaded, state = kind_of(settings).warm_up(settings)
    forests = loaded.batch.forests
    decode_trees(forests, encode_trees(forests, state))
    state = decode_states(forests, encode_states(forests, state))
    rule_deltas(tally(empty_ledger(), loaded.batch, state, 1, 0), loaded)
