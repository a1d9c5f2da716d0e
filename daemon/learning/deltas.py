"""What a commit carries: by how much each rule's counts change between two derivations of the same pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Loaded
from hierogram.samplers.counts.changes import Change, weigh_trees
from hierogram.samplers.counts.deltas import CountDeltas, add_fragments, add_trees, empty_deltas
from hierogram.samplers.counts.ordering import taken, text_order
from hierogram.samplers.forests.records import Fragments, fragments_of, moved, trees_among
from hierogram.samplers.forests.samples import samples_of, trees_of
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.uses import ONE_USE, SWEEPS_A_DRAW
from hierogram.storage.records import Settings
from hierogram.storage.records.columns import RuleDeltas

_DRAW = (ONE_USE, SWEEPS_A_DRAW * ONE_USE)
"""What a rule of a single draw is expected to be used, and the variance of that."""


def tree_change(trees: Blobs, weight: int, chosen: NDArray[np.bool_] | None = None) -> Change:
    """`weight` for the count of every rule of the chosen pairs' trees (of all, if None), one tree a pair."""
    return Change(trees_of(trees, chosen), weight, 0)


def present_changes(trees: Blobs, records: Blobs, weight: int, chosen: NDArray[np.bool_] | None = None) -> list[Change]:
    """As `tree_change`; where a pair has no record, its present tree is what it expects to use, too."""
    alone = np.diff(records.offsets) == 0
    chosen = np.ones(trees.size, np.bool_) if chosen is None else chosen
    uses, variance = (weight * value for value in _DRAW)
    return [
        Change(trees_of(trees, chosen & ~alone), weight, 0),
        Change(trees_of(trees, chosen & alone), weight, uses, variance),
    ]


@dataclass(frozen=True, slots=True)
class Averaged:
    """What records of averages count for: fragments with their weights, and trees that earlier versions retained."""

    fragments: Fragments
    trees: Change


def averages_of(records: Blobs, settings: Settings) -> Averaged:
    """What the records count for; raises `DerivationError` where one cannot be read.

    A retained tree counts for as much as it did when it was kept, whatever other samples its pair has.
    """
    samples = max(settings.samples, 1)
    trees = Change(samples_of(trees_among(records)), 0, ONE_USE // samples, ONE_USE // samples**2)
    return Averaged(fragments_of(records), trees)


def average_change(before: Averaged, after: Averaged) -> tuple[Fragments, list[Change]]:
    """By how much the weights of fragments and the sampled counts of trees change."""
    return moved(before.fragments, after.fragments), [before.trees.negative(), after.trees]


def count_changes(loaded: Loaded, changes: Sequence[Change], fragments: Fragments | None = None) -> CountDeltas:
    """By how much the changes move each rule's counts; raises `KeyCollisionError` and `DerivationError`."""
    deltas = add_trees(empty_deltas(), loaded.batch, weigh_trees(changes))
    return deltas if fragments is None else add_fragments(deltas, loaded.batch, fragments)


def rule_deltas(loaded: Loaded, changes: Sequence[Change], fragments: Fragments | None = None) -> RuleDeltas:
    """The same as columns for the store; rules whose counts end up as they were are left out."""
    deltas = count_changes(loaded, changes, fragments)
    entries = deltas.entries
    numbers = (deltas.counts, deltas.sampled, deltas.variances)
    return loaded.rules(deltas, np.flatnonzero(np.any([column[:entries] != 0 for column in numbers], axis=0)))


def in_order_of_sources(rules: RuleDeltas) -> RuleDeltas:
    """The rules by source, those with the same source by key.

    So in the store rules that are looked up together lie together, and its index of sources grows in order.
    """
    order = text_order(rules.sources, rules.keys)
    return rules.at(order, taken(rules.sources, order), taken(rules.targets, order))
