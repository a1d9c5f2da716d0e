"""What a commit carries: by how much each rule's counts change between two derivations of the same pairs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.batches import LoadedPairs, LoadedTrees
from hierogram.samplers.counts.deltas import Ledger, tally
from hierogram.samplers.counts.rendering import render_rules
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import decode_trees
from hierogram.samplers.grammar.keys import fragment_key
from hierogram.samplers.grammar.rules import HIERO_MAX_NONTERMINALS, HIERO_MAX_SOURCE_SYMBOLS
from hierogram.samplers.trees.rendering import internal_nodes, render_fragments
from hierogram.storage.records import RuleDelta

Loaded = LoadedPairs | LoadedTrees
"""Pairs or trees, as a batch with its spellings."""


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


def is_hiero(
    nonterminals: NDArray[np.int32],
    adjacent: NDArray[np.int32],
    source_terminals: NDArray[np.int64],
    target_terminals: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Whether rules meet the constraints of Chiang 2007 that a rule's two sides show by themselves.

    At most two nonterminals, not adjacent on the source side, at most five source symbols, and words on both sides.
    """
    admissible: NDArray[np.bool_] = (
        (nonterminals <= HIERO_MAX_NONTERMINALS)
        & (adjacent == 0)
        & (source_terminals + nonterminals <= HIERO_MAX_SOURCE_SYMBOLS)
        & (source_terminals > 0)
        & (target_terminals > 0)
    )
    return admissible


def rule_deltas(ledger: Ledger, loaded: Loaded, *, keep_unchanged: bool = False) -> list[RuleDelta]:
    """The ledger's changes as rows for the store; rules whose counts end up as they were are left out."""
    entries = ledger.entries
    changed = (ledger.counts[:entries] != 0) | (ledger.sampled[:entries] != 0) | keep_unchanged
    chosen = np.flatnonzero(changed)
    if isinstance(loaded, LoadedTrees):
        return _fragment_deltas(ledger, chosen, loaded)
    shapes = ledger.shapes[chosen]
    source_terminals = (shapes >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64)
    target_terminals = (shapes >> np.uint64(32) & np.uint64(0xFFFF)).astype(np.int64)
    nonterminals = ledger.nonterminals[chosen]
    sources, targets = render_rules(ledger, chosen, loaded.source, loaded.target)
    keys = ledger.keys[chosen].view(np.int64)
    columns = (
        keys[:, 0].tolist(),
        keys[:, 1].tolist(),
        sources,
        targets,
        (shapes & np.uint64(0xFFFF)).astype(np.int64).tolist(),
        ledger.scopes[chosen].tolist(),
        nonterminals.tolist(),
        source_terminals.tolist(),
        target_terminals.tolist(),
        is_hiero(nonterminals, ledger.adjacent[chosen], source_terminals, target_terminals).tolist(),
        ledger.counts[chosen].tolist(),
        ledger.sampled[chosen].tolist(),
    )
    return list(map(RuleDelta, *columns))


def _fragment_deltas(ledger: Ledger, chosen: NDArray[np.int64], loaded: LoadedTrees) -> list[RuleDelta]:
    """The chosen entries of a tree grammar's ledger: root label, fragment; its length is its number of expansions.

    Their keys come from the texts, since the numbers of labels are those of the batch.
    """
    labels, fragments = render_fragments(ledger, chosen, loaded.trees.labels, loaded.words)
    words = (ledger.shapes[chosen] >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64).tolist()
    rows = zip(
        labels,
        fragments,
        internal_nodes(ledger, chosen),
        ledger.nonterminals[chosen].tolist(),
        words,
        ledger.counts[chosen].tolist(),
        ledger.sampled[chosen].tolist(),
        strict=True,
    )
    deltas = []
    for label, fragment, expansions, frontiers, terminals, count, sampled in rows:
        high, low = (signed(word) for word in fragment_key(label, fragment, loaded.key_salt, int(loaded.key_mask)))
        deltas.append(
            RuleDelta(high, low, label, fragment, expansions, 0, frontiers, 0, terminals, False, count, sampled)
        )
    return deltas


def signed(word: int) -> int:
    """The 64-bit word as databases keep it, with a sign."""
    return word - (1 << 64) if word >> 63 else word
