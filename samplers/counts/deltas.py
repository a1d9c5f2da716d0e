"""Counting the rules of given derivations, with the rules' own symbols: what goes to and comes from a store.

A ledger adds up, for each rule, by how much its counts change. It keeps every rule's symbols and compares them
at each occurrence, so two rules with one key are noticed, never merged.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.counts.changes import WeightedTrees
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.symbols import source_symbols, target_symbols
from hierogram.samplers.counts.table import KEY_HIGH, KEY_LOW, RuleTable, add, find, with_room
from hierogram.samplers.exceptions import DerivationError, KeyCollisionError
from hierogram.samplers.forests.averages import decode_fragment
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.derivations import decode_tree, empty_state, most_nodes
from hierogram.samplers.forests.fragments import key_of, scope_of, size_of
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.forests.views import view_pair
from hierogram.samplers.forests.walk import WalkSpace, begin_walk, make_summary, next_rule, walk_space

ENTRY = 2
_PAIRS_A_CALL = 4096


class Ledger(NamedTuple):
    """Changes of counts by rule, E entries.

    `rows` uint64[capacity, 4] maps keys to entries; `keys` uint64[e, 2]; `rule_sizes` uint64[e] as in
    `hierogram.samplers.grammar.sizes`; `scopes`, `nonterminals`, `adjacent` int32[e] (scope; nonterminals; adjacent
    pairs of them on the source side); `counts`, `sampled`, `variances` int64[e] the changes of counts, of
    expected uses and of the variance of their error; `starts` int64[e], `source_sizes`, `target_sizes` int32[e] where a
    rule's symbols lie in `symbols` int32 (source side, then target side; terminals are word numbers, a nonterminal k is
    -k); `sizes` int64[2] entries and symbols taken.
    """

    rows: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    rule_sizes: NDArray[np.uint64]
    scopes: NDArray[np.int32]
    nonterminals: NDArray[np.int32]
    adjacent: NDArray[np.int32]
    counts: NDArray[np.int64]
    sampled: NDArray[np.int64]
    variances: NDArray[np.int64]
    starts: NDArray[np.int64]
    source_sizes: NDArray[np.int32]
    target_sizes: NDArray[np.int32]
    symbols: NDArray[np.int32]
    sizes: NDArray[np.int64]

    @property
    def entries(self) -> int:
        """Rules met so far."""
        return int(self.sizes[0])


def empty_ledger(expected_rules: int = 0) -> Ledger:
    """A ledger without entries."""
    capacity = 1 << 12
    while capacity < 2 * expected_rules:
        capacity *= 2
    half = capacity // 2
    return Ledger(
        np.zeros((capacity, 4), np.uint64),
        np.zeros((half, 2), np.uint64),
        np.zeros(half, np.uint64),
        np.zeros(half, np.int32),
        np.zeros(half, np.int32),
        np.zeros(half, np.int32),
        np.zeros(half, np.int64),
        np.zeros(half, np.int64),
        np.zeros(half, np.int64),
        np.zeros(half, np.int64),
        np.zeros(half, np.int32),
        np.zeros(half, np.int32),
        np.zeros(8 * half, np.int32),
        np.zeros(2, np.int64),
    )


class TallySpace(NamedTuple):
    """Scratch memory of a tally: that of the walk, `numbers` of nonterminals by node, `stacks` int64[3, n + 1]."""

    walk: WalkSpace
    numbers: NDArray[np.int64]
    stacks: NDArray[np.int64]


def _tally_space(batch: Batch) -> TallySpace:
    most = batch.most_nodes + 1
    return TallySpace(walk_space(batch), np.zeros(most, np.int64), np.zeros((3, most + 1), np.int64))


@njit
def _enter_rule(ledger, batch, pair, v, view, weights, space):
    """Enter the rule at v, whose summary is made, with its weights: what is added to count, uses and variance."""
    bitext = batch.bitext
    work = space.walk
    source = bitext.source[bitext.source_offset[pair] : bitext.source_offset[pair + 1]]
    target = bitext.target[bitext.target_offset[pair] : bitext.target_offset[pair + 1]]
    high, low = key_of(work.summary, v, batch.words.key_mask)
    start = ledger.sizes[1]
    middle, nonterminals = source_symbols(v, view, source, ledger.symbols, start, space)
    end = target_symbols(v, view, target, ledger.symbols, middle, space)
    row = find(ledger.rows, high, low)
    if ledger.rows[row, KEY_LOW] == np.uint64(0) and ledger.rows[row, KEY_HIGH] == np.uint64(0):
        entry = ledger.sizes[0]
        ledger.rows[row, KEY_HIGH] = high
        ledger.rows[row, KEY_LOW] = low
        ledger.rows[row, ENTRY] = np.uint64(entry)
        ledger.keys[entry, 0] = high
        ledger.keys[entry, 1] = low
        ledger.rule_sizes[entry] = size_of(work.summary, v)
        ledger.scopes[entry] = scope_of(work.summary, v)
        ledger.nonterminals[entry] = nonterminals
        ledger.adjacent[entry] = np.int64(work.summary[v]["adjacent"])
        ledger.counts[entry] = 0
        ledger.sampled[entry] = 0
        ledger.variances[entry] = 0
        ledger.starts[entry] = start
        ledger.source_sizes[entry] = middle - start
        ledger.target_sizes[entry] = end - middle
        ledger.sizes[0] = entry + 1
        ledger.sizes[1] = end
    entry = np.int64(ledger.rows[row, ENTRY])
    if ledger.source_sizes[entry] != middle - start or ledger.target_sizes[entry] != end - middle:
        return False
    for k in range(end - start):
        if ledger.symbols[ledger.starts[entry] + k] != ledger.symbols[start + k]:
            return False
    ledger.counts[entry] += weights[0]
    ledger.sampled[entry] += weights[1]
    ledger.variances[entry] += weights[2]
    return True


@njit
def _enter_pair(ledger, batch, state, pair, weights, space):
    """Enter the rules of one pair's derivation. False: two rules had one key."""
    view = view_pair(batch, state, pair)
    depth = begin_walk(view, space.walk)
    while True:
        v, depth = next_rule(view, space.walk, depth)
        if v < 0:
            return True
        if not _enter_rule(ledger, batch, pair, v, view, weights, space):
            return False


@njit
def _tally(ledger, batch, state, pairs, count, sampled, space):
    """Enter the rules of the pairs' derivations. False: two rules had one key."""
    k = 0
    while k < len(pairs) and _enter_pair(ledger, batch, state, pairs[k], (count, sampled, 0), space):
        k += 1
    return k == len(pairs)


FITS, COLLIDES, MISFITS = 0, 1, 2


@njit
def _tally_trees(ledger, batch, state, weighted, first, last, stack, space):
    """Enter the rules of trees first..last; whether all went well, else what did not, and of which pair."""
    trees = weighted.trees
    for k in range(first, last):
        pair = trees.pairs[k]
        if not decode_tree(batch.forests, pair, trees.content, trees.starts[k], trees.ends[k], stack, state):
            return MISFITS, pair
        weights = weighted.counts[k], weighted.sampled[k], weighted.variances[k]
        if not _enter_pair(ledger, batch, state, pair, weights, space):
            return COLLIDES, pair
    return FITS, -1


@njit
def _room_of(batch, pairs, longest):
    """Rules and symbols that the derivations of the pairs have at most."""
    rules = 0
    symbols = longest
    for pair in pairs:
        own = batch.derivation_rules[pair + 1] - batch.derivation_rules[pair]
        rules += own
        symbols += 4 * own
        symbols += batch.bitext.source_offset[pair + 1] - batch.bitext.source_offset[pair]
        symbols += batch.bitext.target_offset[pair + 1] - batch.bitext.target_offset[pair]
    return rules, symbols


@njit
def _refill(rows, keys, entries):
    for entry in range(entries):
        row = find(rows, keys[entry, 0], keys[entry, 1])
        rows[row, KEY_HIGH] = keys[entry, 0]
        rows[row, KEY_LOW] = keys[entry, 1]
        rows[row, ENTRY] = np.uint64(entry)


Scalar = TypeVar("Scalar", bound=np.generic)


def longer(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    """The array itself where it has `size` rows, else a longer copy, zeros at the end."""
    if size <= len(array):
        return array
    grown = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _with_room(ledger: Ledger, rules: int, symbols: int) -> Ledger:
    """The ledger with room for so many more entries and symbols."""
    entries, taken = int(ledger.sizes[0]), int(ledger.sizes[1])

    rows = ledger.rows
    if 2 * (entries + rules) > len(rows):
        capacity = len(rows)
        while capacity < 2 * (entries + rules):
            capacity *= 2
        rows = np.zeros((capacity, 4), np.uint64)
        _refill(rows, ledger.keys, entries)
    most = entries + rules
    return Ledger(
        rows,
        longer(ledger.keys, most),
        longer(ledger.rule_sizes, most),
        longer(ledger.scopes, most),
        longer(ledger.nonterminals, most),
        longer(ledger.adjacent, most),
        longer(ledger.counts, most),
        longer(ledger.sampled, most),
        longer(ledger.variances, most),
        longer(ledger.starts, most),
        longer(ledger.source_sizes, most),
        longer(ledger.target_sizes, most),
        longer(ledger.symbols, taken + symbols),
        ledger.sizes,
    )


def _room_for(ledger: Ledger, batch: Batch, pairs: NDArray[np.int64]) -> Ledger:
    """The ledger with room for the derivations of the pairs."""
    longest = 2 * (batch.most_nodes + 1) + batch.longest_rule
    return _with_room(ledger, *_room_of(batch, pairs, longest))


def _collision() -> KeyCollisionError:
    return KeyCollisionError(
        "two different rules have the same key; the store's keys must be made anew with another salt"
    )


def tally(
    ledger: Ledger,
    batch: Batch,
    state: State,
    count: int,
    sampled: int,
    chosen: NDArray[np.bool_] | None = None,
) -> Ledger:
    """The ledger with `count` and `sampled` added for each rule of the derivations of the chosen pairs (all, if None).

    Consumes the ledger given. Raises `KeyCollisionError` where two different rules have one key.
    """
    pairs = np.arange(batch.size) if chosen is None else np.flatnonzero(chosen)
    space = _tally_space(batch)
    for first in range(0, len(pairs), _PAIRS_A_CALL):
        some = pairs[first : first + _PAIRS_A_CALL]
        ledger = _room_for(ledger, batch, some)
        if not _tally(ledger, batch, state, some, count, sampled, space):
            raise _collision()
    return ledger


def tally_trees(ledger: Ledger, batch: Batch, weighted: WeightedTrees) -> Ledger:
    """The ledger with what each tree adds to the counts of its rules; consumes the ledger given.

    Raises `KeyCollisionError` where two different rules have one key, and `DerivationError` where a tree's bytes do not
    fit its pair's forest.
    """
    space = _tally_space(batch)
    state = empty_state(batch.forests)
    stack = np.empty(most_nodes(batch.forests) + 1, np.int64)
    pairs = weighted.trees.pairs
    for first in range(0, len(pairs), _PAIRS_A_CALL):
        last = min(first + _PAIRS_A_CALL, len(pairs))
        ledger = _room_for(ledger, batch, pairs[first:last])
        outcome, pair = _tally_trees(ledger, batch, state, weighted, first, last, stack, space)
        if outcome == COLLIDES:
            raise _collision()
        if outcome == MISFITS:
            raise DerivationError(f"a tree of pair number {pair} of the batch does not fit its forest")
    return ledger


@njit
def _symbols_of(batch, fragments, first, last):
    """Symbols that the rules of the fragments first..last have at most."""
    symbols = 0
    for k in range(first, last):
        pair = fragments.pairs[k]
        place = batch.forests.node_offset[pair] + fragments.roots[k]
        if place >= batch.forests.node_offset[pair + 1]:
            continue  # It does not fit the forest, as will be seen.
        node = batch.forests.node[place]
        symbols += np.int64(node["source_end"]) - np.int64(node["source_start"])
        symbols += np.int64(node["target_end"]) - np.int64(node["target_start"])
        # Labels and brackets of the nodes that the bytes stand for.
        symbols += 4 * (fragments.ends[k] - fragments.starts[k])
    return symbols


@njit
def _tally_fragments(ledger, batch, state, fragments, first, last, stack, space):
    """Enter the rules of fragments first..last; whether all went well, else what did not, and of which pair."""
    for k in range(first, last):
        pair, root = fragments.pairs[k], fragments.roots[k]
        view = view_pair(batch, state, pair)
        if not decode_fragment(root, view, stack, fragments.content, fragments.starts[k], fragments.ends[k]):
            return MISFITS, pair
        space.walk.registers[0]["epoch"] += 1
        make_summary(root, view, space.walk)
        weights = 0, fragments.weights[k], fragments.variances[k]
        if not _enter_rule(ledger, batch, pair, root, view, weights, space):
            return COLLIDES, pair
    return FITS, -1


def tally_fragments(ledger: Ledger, batch: Batch, fragments: Fragments) -> Ledger:
    """The ledger with the weights of the fragments added to the sampled counts of their rules; consumes the ledger.

    Raises as `tally_trees`, where a fragment does not fit its pair's forest.
    """
    space = _tally_space(batch)
    state = empty_state(batch.forests)
    stack = np.empty(most_nodes(batch.forests) + 1, np.int64)
    longest = 2 * (batch.most_nodes + 1) + batch.longest_rule
    for first in range(0, len(fragments.pairs), _PAIRS_A_CALL):
        last = min(first + _PAIRS_A_CALL, len(fragments.pairs))
        ledger = _with_room(ledger, last - first, longest + _symbols_of(batch, fragments, first, last))
        outcome, pair = _tally_fragments(ledger, batch, state, fragments, first, last, stack, space)
        if outcome == COLLIDES:
            raise _collision()
        if outcome == MISFITS:
            raise DerivationError(f"the averages of pair number {pair} of the batch do not fit its forest")
    return ledger


@njit
def _count(table, model, batch, state, pairs, change, work):
    sound = True
    for pair in pairs:
        view = view_pair(batch, state, pair)
        depth = begin_walk(view, work)
        while True:
            v, depth = next_rule(view, work, depth)
            if v < 0:
                break
            high, low = key_of(work.summary, v, batch.words.key_mask)
            sound &= add(table, model, high, low, size_of(work.summary, v), change)
    return sound


def count_rules(
    batch: Batch,
    state: State,
    table: RuleTable,
    model: Model,
    change: int = 1,
    skipped: NDArray[np.bool_] | None = None,
) -> RuleTable:
    """The table with `change` added for each rule of the derivations of the pairs not skipped; consumes the table.

    Raises `ValueError` where a count falls below zero.
    """
    work = walk_space(batch)
    counted = np.arange(batch.size) if skipped is None else np.flatnonzero(~skipped)
    for first in range(0, len(counted), _PAIRS_A_CALL):
        pairs = counted[first : first + _PAIRS_A_CALL]
        table = with_room(table, int((batch.derivation_rules[pairs + 1] - batch.derivation_rules[pairs]).sum()))
        if not _count(table, model, batch, state, pairs, change, work):
            raise ValueError("a rule's count fell below zero: the derivations do not belong to these counts")
    return table
