"""Compiling, or loading from the cache, all kernels that sampling needs, before anybody waits for them."""

import numpy as np

from hierogram.daemon.learning.deltas import averages_of, rule_deltas, tree_change
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.forests.averages import add_trees
from hierogram.samplers.forests.derivations import decode_states, encode_states, encode_trees
from hierogram.samplers.forests.records import read_averages, write_averages
from hierogram.samplers.grammar.columns import no_blobs
from hierogram.storage.records import Settings


def warm_up(settings: Settings) -> None:
    """Takes one small pair through everything that is done to pairs, in memory alone."""
    loaded, state = kind_of(settings).warm_up(settings)
    forests = loaded.batch.forests
    due = np.ones(loaded.batch.size, np.bool_)
    averages = read_averages(loaded.batch, no_blobs(loaded.batch.size))
    add_trees(averages, loaded.batch, state, due)
    averaged = averages_of(write_averages(averages), settings)
    state = decode_states(forests, encode_states(forests, state))
    rule_deltas(loaded, [tree_change(encode_trees(forests, state), 1), averaged.trees], averaged.fragments)
