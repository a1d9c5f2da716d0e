"""What a commit carries: by how much each rule's counts change between two derivations of the same pairs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Loaded
from hierogram.samplers.counts.changes import Change, weigh_trees
from hierogram.samplers.counts.deltas import Ledger, empty_ledger, tally_trees
from hierogram.samplers.counts.ordering import taken, text_order
from hierogram.samplers.forests.samples import samples_of, trees_of
from hierogram.samplers.grammar.columns import Blobs
from hierogram.storage.records.columns import RuleDeltas


def tree_change(trees: Blobs, weight: int, chosen: NDArray[np.bool_] | None = None) -> Change:
    """`weight` for the count of every rule of the chosen pairs' trees (of all, if None), one tree a pair."""
    return Change(trees_of(trees, chosen), weight, 0)


def sample_change(samples: Blobs, weight: int) -> Change:
    """`weight` for the sampled count of every rule of every retained sample; raises `DerivationError`."""
    return Change(samples_of(samples), 0, weight)


def count_changes(loaded: Loaded, changes: Sequence[Change]) -> Ledger:
    """By how much the changes move each rule's counts; raises `KeyCollisionError` and `DerivationError`."""
    return tally_trees(empty_ledger(), loaded.batch, weigh_trees(changes))


def rule_deltas(loaded: Loaded, changes: Sequence[Change]) -> RuleDeltas:
    """The same as columns for the store; rules whose counts end up as they were are left out."""
    ledger = count_changes(loaded, changes)
    entries = ledger.entries
    return loaded.rules(ledger, np.flatnonzero((ledger.counts[:entries] != 0) | (ledger.sampled[:entries] != 0)))


def in_order_of_sources(rules: RuleDeltas) -> RuleDeltas:
    """The rules by source, those with the same source by key.

    So in the store rules that are looked up together lie together, and its index of sources grows in order.
    """
    order = text_order(rules.sources, rules.keys)
    return rules.at(order, taken(rules.sources, order), taken(rules.targets, order))
