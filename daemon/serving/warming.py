"""Compiling, or loading from the cache, all kernels that sampling needs, before anybody waits for them."""

import numpy as np

from hierogram.daemon.learning.kinds.kind import Drawn
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.grammar.columns import no_blobs
from hierogram.storage.records import Settings


def warm_up(settings: Settings) -> None:
    """Takes one small pair through everything that is done to pairs, in memory alone."""
    loaded, state = kind_of(settings).warm_up(settings)
    averages = loaded.read_averages(no_blobs(loaded.size))
    loaded.average(averages, state, np.ones(loaded.size, np.bool_))
    state = loaded.decode(loaded.encode(state))
    loaded.rule_deltas(None, Drawn(loaded.trees(state), loaded.write_averages(averages)), settings)
