"""Compiling, or loading from the cache, all kernels that sampling needs, before anybody waits for them."""

import numpy as np

from hierogram.daemon.learning.deltas import rule_deltas, sample_change, tree_change
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.forests.derivations import decode_states, encode_states, encode_trees
from hierogram.samplers.forests.samples import keep_samples
from hierogram.samplers.grammar.columns import no_blobs
from hierogram.storage.records import Settings


def warm_up(settings: Settings) -> None:
    """Takes one small pair through everything that is done to pairs, in memory alone."""
    loaded, state = kind_of(settings).warm_up(settings)
    forests = loaded.batch.forests
    due = np.ones(loaded.batch.size, np.bool_)
    samples = keep_samples(forests, no_blobs(loaded.batch.size), state, due, settings.samples)
    state = decode_states(forests, encode_states(forests, state))
    rule_deltas(loaded, [tree_change(encode_trees(forests, state), 1), sample_change(samples, 1)])
