"""Pairs whose derivations are trees of a forest: as bytes, and by how much they change the counts of rules."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Drawn, left_out_change
from hierogram.samplers.counts.deltas import Change, CountDeltas, add_fragments, empty_deltas, weigh_trees
from hierogram.samplers.counts.deltas import add_trees as count_trees
from hierogram.samplers.counts.occurrences import Occurrences, rule_occurrences
from hierogram.samplers.forests.averages import Averages, add_trees
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.derivations import decode_states, encode_states, encode_trees, trees_of
from hierogram.samplers.forests.forest import NO_TAIL, Forests
from hierogram.samplers.forests.records import Fragments, fragments_of, left_out, moved, read_averages, write_averages
from hierogram.samplers.grammar.columns import Blobs, join_blobs, no_blobs
from hierogram.samplers.grammar.numbers import ONE_SQUARE, ONE_USE, SWEEPS_A_DRAW
from hierogram.storage.records import Settings
from hierogram.storage.records.columns import RuleDeltas

_DRAW = (ONE_USE, SWEEPS_A_DRAW * ONE_SQUARE)
"""How often a rule of a single draw is expected to be used, and the variance of that."""


class ForestPairs(ABC):
    """All that `Loaded` asks for, of a `batch` of pairs with forests; kinds say how their rules are written."""

    batch: Batch

    @abstractmethod
    def rules(self, deltas: CountDeltas, chosen: NDArray[np.int64]) -> RuleDeltas:
        """Return the chosen entries of rule-count deltas of these pairs, as columns for the store."""

    @property
    def size(self) -> int:
        """The number of pairs."""
        return self.batch.size

    def encode(self, state: State) -> Blobs:
        """Return every variable of each pair's forest."""
        return encode_states(self.batch.forests, state)

    def decode(self, blobs: Blobs) -> State:
        """Invert `encode`; raises `DerivationError` where bytes do not fit their pair's forest."""
        return decode_states(self.batch.forests, blobs)

    def trees(self, state: State) -> Blobs:
        """Return the variables of each pair's present tree alone."""
        return encode_trees(self.batch.forests, state)

    def read_averages(self, records: Blobs) -> Averages:
        """Return what the pairs expect to use; raises `DerivationError` where bytes do not fit their pair's forest."""
        return read_averages(self.batch, records)

    def write_averages(self, averages: Averages) -> Blobs:
        """Return each pair's record."""
        return write_averages(averages)

    def left_out(self, records: Blobs, first: int = 0) -> NDArray[np.int64]:
        """Return what pairs expect to use and do not count: their records say it, whichever pairs they are."""
        return left_out(records)

    def average(self, averages: Averages, state: State, due: NDArray[np.bool_]) -> None:
        """Average over the present trees of the pairs that are due, too."""
        add_trees(averages, self.batch, state, due)

    def rule_deltas(self, before: Drawn | None, after: Drawn | None, settings: Settings, first: int = 0) -> RuleDeltas:
        """Return by how much the counts of rules change; parts of own trees that stay are not even looked at."""
        changes: list[Change] = []
        for drawn, weight in ((after, 1), (before, -1)):
            if drawn is not None:
                # A pair without a record expects to use its present tree.
                alone = np.diff(drawn.records.offsets) == 0
                chosen = np.ones(drawn.trees.size, np.bool_) if drawn.chosen is None else drawn.chosen
                changes += [
                    Change(trees_of(drawn.trees, chosen & ~alone), weight, 0),
                    Change(trees_of(drawn.trees, chosen & alone), weight, *(weight * value for value in _DRAW)),
                ]
        old, new = (fragments_of(no_blobs(0) if drawn is None else drawn.records) for drawn in (before, after))
        fragments = moved(old, new)
        moves = [change.of_pairs(first) for change in changes]
        deltas = count_changes(self.batch, moves, fragments.of_pairs(first))
        entries = deltas.entries
        numbers = (deltas.counts, deltas.sampled, deltas.variances)
        rules = self.rules(deltas, np.flatnonzero(np.any([column[:entries] != 0 for column in numbers], axis=0)))
        return replace(rules, left_out=left_out_change(self, before, after, first))

    def occurrences(self, state: State) -> Occurrences:
        """Return the rules of every pair's derivation, by pair."""
        return rule_occurrences(self.batch, state)


def count_changes(batch: Batch, changes: Sequence[Change], fragments: Fragments | None = None) -> CountDeltas:
    """Return by how much the changes move each rule's counts; raises `KeyCollisionError` and `DerivationError`."""
    deltas = count_trees(empty_deltas(), batch, weigh_trees(changes))
    return deltas if fragments is None else add_fragments(deltas, batch, fragments)


def expansions_of(forests: Forests, current: bytes) -> tuple[State, list[tuple[int, list[int], tuple[int, ...]]]]:
    """Return the derivation of the only pair of a batch, top-down in source order; raises `DerivationError`.

    Of each rule: its head, the cut nodes below it in source order, and the places of these in the derivation.
    """
    state = decode_states(forests, join_blobs([current]))
    expansions = []
    pending = [forests.nodes - 1]
    while pending:
        head = pending.pop()
        tails = []
        below = tails_of(forests, state, head)
        while below:
            node = below.pop(0)
            if state.cut[node]:
                tails.append(node)
            else:
                below[:0] = tails_of(forests, state, node)
        expansions.append((head, tails))
        pending += reversed(tails)
    places = {head: place for place, (head, _) in enumerate(expansions)}
    return state, [(head, tails, tuple(places[tail] for tail in tails)) for head, tails in expansions]


def tails_of(forests: Forests, state: State, node: int) -> list[int]:
    """Return the nodes right below a node in the derivation, in source order."""
    arity = int(forests.node[node]["arity"])
    first = int(forests.node[node]["tail_offset"]) + int(state.edge[node]) * arity
    return [tail for tail in forests.tails[first : first + arity].tolist() if tail != NO_TAIL]
