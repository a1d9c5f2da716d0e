"""What a commit carries: by how much each rule's counts change between two derivations of the same pairs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Loaded
from hierogram.samplers.counts.deltas import Ledger, tally
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import decode_trees
from hierogram.storage.records import RuleDelta


def enter_samples(ledger: Ledger, loaded: Loaded, rings: Sequence[Sequence[bytes]], weight: int) -> Ledger:
    """The ledger with `weight` added to the sampled count of every rule of every sample of every pair."""
    for k in range(max((len(ring) for ring in rings), default=0)):
        blobs = [ring[k] if k < len(ring) else b"" for ring in rings]
        chosen = np.array([bool(blob) for blob in blobs])
        state = decode_trees(loaded.batch.forests, blobs)
        ledger = tally(ledger, loaded.batch, state, 0, weight, chosen)
    return ledger


def enter_state(
    ledger: Ledger, loaded: Loaded, state: State, weight: int, chosen: NDArray[np.bool_] | None = None
) -> Ledger:
    """The ledger with `weight` added to the count of every rule of the chosen pairs' derivations."""
    return tally(ledger, loaded.batch, state, weight, 0, chosen)


def rule_deltas(ledger: Ledger, loaded: Loaded, *, keep_unchanged: bool = False) -> list[RuleDelta]:
    """The ledger's changes as rows for the store; rules whose counts end up as they were are left out."""
    entries = ledger.entries
    changed = (ledger.counts[:entries] != 0) | (ledger.sampled[:entries] != 0) | keep_unchanged
    return loaded.rules(ledger, np.flatnonzero(changed))
