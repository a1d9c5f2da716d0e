"""Changes of rule counts (deltas), with the symbols of each rule, for transfer to a store.

The symbols of each rule use are compared with the symbols in the deltas to detect key collisions, which would merge two
rules. Equal trees of a pair, such as a removed and an added tree, are merged before counting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import BELOW_ZERO, KEY_HIGH, KEY_LOW, CountTable, add, find, with_room
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.forests.averages import decode_fragment
from hierogram.samplers.forests.derivations import (
    Batch,
    State,
    Trees,
    WalkSpace,
    begin_walk,
    decode_tree,
    empty_state,
    make_summary,
    mismatch_error,
    next_rule,
    walk_space,
)
from hierogram.samplers.forests.forest import NO_TAIL, longer, node_label, tail_range, view_pair
from hierogram.samplers.forests.fragments import summary_key, summary_scope, summary_size
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.grammar.numbers import LABEL_STEP, OPEN_LABEL


@dataclass(frozen=True, slots=True)
class Change:
    """Trees, and changes per rule use. Units: 1/`ONE_USE` (expected uses), 1/`ONE_SQUARE` (variance)."""

    trees: Trees
    count: int
    expected_uses: int
    variance: int = 0


class WeightedTrees(NamedTuple):
    """m trees, and the changes per rule use in each, int64[m, 3], with columns in the order of `Change`."""

    trees: Trees
    weights: NDArray[np.int64]


@njit
def same_slices(first, a, a_end, second, b, b_end):
    """Check if `first[a:a_end]` equals `second[b:b_end]`."""
    if a_end - a != b_end - b:
        return False
    while a < a_end and first[a] == second[b]:
        a += 1
        b += 1
    return a == a_end


@njit
def _merge_equal(trees, weights):
    """Move the weights of equal trees of a pair to the first such tree."""
    first = 0
    for k in range(len(trees.pairs)):
        if trees.pairs[k] != trees.pairs[first]:
            first = k
        for earlier in range(first, k):
            start, end = trees.starts[earlier], trees.ends[earlier]
            if same_slices(trees.content, start, end, trees.content, trees.starts[k], trees.ends[k]):
                for column in range(3):
                    weights[earlier, column] += weights[k, column]
                    weights[k, column] = 0
                break


def weigh_trees(changes: Sequence[Change]) -> WeightedTrees:
    """Return all trees of changes, sorted by pair. Merges equal trees of a pair, and drops zero weights."""
    shifts = np.cumsum([0, *(len(change.trees.content) for change in changes)], dtype=np.int64)[:-1]
    pairs = np.concatenate([np.zeros(0, np.int64), *(change.trees.pairs for change in changes)])
    order = np.argsort(pairs, kind="stable")
    moved = zip(changes, shifts.tolist(), strict=True)
    bounds = [(change.trees.starts + shift, change.trees.ends + shift) for change, shift in moved]
    trees = Trees(
        np.concatenate([change.trees.content for change in changes]),
        pairs[order],
        np.concatenate([starts for starts, _ in bounds])[order],
        np.concatenate([ends for _, ends in bounds])[order],
    )
    values = np.array([(change.count, change.expected_uses, change.variance) for change in changes], np.int64)
    weights = np.repeat(values, [len(change.trees.pairs) for change in changes], axis=0)[order]
    _merge_equal(trees, weights)
    kept = weights.any(axis=1)
    return WeightedTrees(Trees(trees.content, trees.pairs[kept], trees.starts[kept], trees.ends[kept]), weights[kept])


@njit
def _write_source_side(v, view, words, symbols, position, space):
    """Write the source side of the rule at node v. Returns (next position, number of nonterminals)."""
    numbers, stack, stack_tail, stack_position = space.numbers, space.stacks[0], space.stacks[1], space.stacks[2]
    count = 0
    depth = 1
    stack[0], stack_tail[0], stack_position[0] = v, 0, view.node[v]["source_start"]
    if view.node[v]["label"]:
        symbols[position] = OPEN_LABEL - 2 * node_label(v, view)
        position += 1
    while depth > 0:
        x = stack[depth - 1]
        i = stack_tail[depth - 1]
        first, last = tail_range(x, view)
        t = view.tails[first + i] if first + i < last else np.uint16(NO_TAIL)
        until = view.node[x]["source_end"] if t == NO_TAIL else view.node[t]["source_start"]
        for w in range(stack_position[depth - 1], until):
            symbols[position] = words[w]
            position += 1
        if t == NO_TAIL:
            if view.node[x]["label"]:
                symbols[position] = OPEN_LABEL - 2 * node_label(x, view) - 1
                position += 1
            depth -= 1
            continue
        stack_tail[depth - 1] = i + 1
        stack_position[depth - 1] = view.node[t]["source_end"]
        if view.cut[t]:
            count += 1
            numbers[t] = count
            symbols[position] = -(count + LABEL_STEP * node_label(t, view))
            position += 1
        else:
            stack[depth], stack_tail[depth], stack_position[depth] = t, 0, view.node[t]["source_start"]
            depth += 1
            if view.node[t]["label"]:
                symbols[position] = OPEN_LABEL - 2 * node_label(t, view)
                position += 1
    return position, count


@njit
def _write_target_side(v, view, words, symbols, position, space):
    """Write the target side, with the numbers from `_write_source_side`. Returns the next position."""
    numbers, stack, stack_position, stack_last = space.numbers, space.stacks[0], space.stacks[1], space.stacks[2]
    depth = 1
    stack[0], stack_position[0], stack_last[0] = v, view.node[v]["target_start"], -1
    while depth > 0:
        x = stack[depth - 1]
        end = np.int64(view.node[x]["target_end"])
        first, last = tail_range(x, view)
        nearest = -1
        nearest_place = np.int64(1) << 40
        if view.node[x]["target_start"] < end:
            for i in range(first, last):
                t = view.tails[i]
                place = np.int64(view.node[t]["target_start"]) * (NO_TAIL + 1) + i - first
                if stack_last[depth - 1] < place < nearest_place:
                    nearest = np.int64(t)
                    nearest_place = place
        until = end if nearest < 0 else np.int64(view.node[nearest]["target_start"])
        for w in range(stack_position[depth - 1], until):
            symbols[position] = words[w]
            position += 1
        if nearest < 0:
            depth -= 1
            continue
        stack_last[depth - 1] = nearest_place
        stack_position[depth - 1] = view.node[nearest]["target_end"]
        if view.cut[nearest]:
            symbols[position] = -numbers[nearest]
            position += 1
        else:
            stack[depth], stack_position[depth], stack_last[depth] = nearest, view.node[nearest]["target_start"], -1
            depth += 1
    return position


ENTRY = 2
"""Column of `CountDeltas.rows`: the entry number of a key."""
_PAIRS_PER_CALL = 4096
_COLLISION = "two different rules have the same key: run `hierogram learn`, which assigns new keys"

Weights = tuple[int, int, int, int]
"""Changes for each rule use: (count, expected uses, error variance of expected uses, minimal uses)."""


class CountDeltas(NamedTuple):
    """Count changes of e rules, one entry per rule. Arrays may have room for more entries and symbols.

    Functions that add to deltas consume their argument, and return the deltas, which may have longer arrays.
    """

    # uint64[capacity, 4]: hash table from keys to entry numbers. Columns: key (two words), entry number, unused.
    rows: NDArray[np.uint64]
    # uint64[e, 2]: key of each rule.
    keys: NDArray[np.uint64]
    # uint64[e]: packed size of each rule (see `hierogram.samplers.grammar.keys`).
    rule_sizes: NDArray[np.uint64]
    # int32[e]: scope of each rule, and number of its nonterminals.
    scopes: NDArray[np.int32]
    nonterminals: NDArray[np.int32]
    # int32[e]: number of pairs of adjacent nonterminals on each rule's source side.
    adjacent: NDArray[np.int32]
    # int64[e]: change of each rule's count, expected uses (1/`ONE_USE`), and their error variance (1/`ONE_SQUARE`).
    counts: NDArray[np.int64]
    expected_uses: NDArray[np.int64]
    variances: NDArray[np.int64]
    # int64[e]: change of each rule's uses in minimal derivations.
    minimal: NDArray[np.int64]
    # int64[e]: index into `symbols` of each rule's first symbol.
    starts: NDArray[np.int64]
    # int32[e]: number of symbols of each rule's source side and target side.
    source_sizes: NDArray[np.int32]
    target_sizes: NDArray[np.int32]
    # int32[symbols]: symbols of all rules. The source side of a rule precedes its target side.
    symbols: NDArray[np.int32]
    # int64[2]: numbers of entries and symbols in use.
    sizes: NDArray[np.int64]

    @property
    def entries(self) -> int:
        """Number of rules."""
        return int(self.sizes[0])


_MIN_ENTRIES = 1 << 11


def empty_deltas() -> CountDeltas:
    """Return deltas without entries."""
    return CountDeltas(
        rows=np.zeros((2 * _MIN_ENTRIES, 4), np.uint64),
        keys=np.zeros((_MIN_ENTRIES, 2), np.uint64),
        rule_sizes=np.zeros(_MIN_ENTRIES, np.uint64),
        scopes=np.zeros(_MIN_ENTRIES, np.int32),
        nonterminals=np.zeros(_MIN_ENTRIES, np.int32),
        adjacent=np.zeros(_MIN_ENTRIES, np.int32),
        counts=np.zeros(_MIN_ENTRIES, np.int64),
        expected_uses=np.zeros(_MIN_ENTRIES, np.int64),
        variances=np.zeros(_MIN_ENTRIES, np.int64),
        minimal=np.zeros(_MIN_ENTRIES, np.int64),
        starts=np.zeros(_MIN_ENTRIES, np.int64),
        source_sizes=np.zeros(_MIN_ENTRIES, np.int32),
        target_sizes=np.zeros(_MIN_ENTRIES, np.int32),
        symbols=np.zeros(8 * _MIN_ENTRIES, np.int32),
        sizes=np.zeros(2, np.int64),
    )


_BY_ENTRY = tuple(name for name in CountDeltas._fields if name not in ("rows", "symbols", "sizes"))


class _CountingSpace(NamedTuple):
    """Scratch memory for counting: nonterminal `numbers` int64[n] by node, and `stacks` int64[3, n + 1]."""

    walk: WalkSpace
    numbers: NDArray[np.int64]
    stacks: NDArray[np.int64]


def _counting_space(batch: Batch) -> _CountingSpace:
    nodes = batch.max_nodes + 1
    return _CountingSpace(walk_space(batch), np.zeros(nodes, np.int64), np.zeros((3, nodes + 1), np.int64))


@njit
def _enter_rule(deltas, batch, pair, v, view, weights, space):
    """Add weights to the rule at node v, whose summary must be valid. Returns False on a key collision."""
    bitext = batch.bitext
    work = space.walk
    source = bitext.source[bitext.source_offset[pair] : bitext.source_offset[pair + 1]]
    target = bitext.target[bitext.target_offset[pair] : bitext.target_offset[pair + 1]]
    high, low = summary_key(work.summary, v, batch.words.key_mask)
    start = deltas.sizes[1]
    middle, nonterminals = _write_source_side(v, view, source, deltas.symbols, start, space)
    end = _write_target_side(v, view, target, deltas.symbols, middle, space)
    row = find(deltas.rows, high, low)
    if deltas.rows[row, KEY_LOW] == np.uint64(0) and deltas.rows[row, KEY_HIGH] == np.uint64(0):
        entry = deltas.sizes[0]
        deltas.rows[row, KEY_HIGH], deltas.rows[row, KEY_LOW], deltas.rows[row, ENTRY] = high, low, np.uint64(entry)
        deltas.keys[entry, 0], deltas.keys[entry, 1] = high, low
        deltas.rule_sizes[entry] = summary_size(work.summary, v)
        deltas.scopes[entry] = summary_scope(work.summary, v)
        deltas.nonterminals[entry] = nonterminals
        deltas.adjacent[entry] = np.int64(work.summary[v]["adjacent"])
        deltas.starts[entry] = start
        deltas.source_sizes[entry], deltas.target_sizes[entry] = middle - start, end - middle
        deltas.sizes[0], deltas.sizes[1] = entry + 1, end
    entry = np.int64(deltas.rows[row, ENTRY])
    if deltas.source_sizes[entry] != middle - start or deltas.target_sizes[entry] != end - middle:
        return False
    for k in range(end - start):
        if deltas.symbols[deltas.starts[entry] + k] != deltas.symbols[start + k]:
            return False
    deltas.counts[entry] += weights[0]
    deltas.expected_uses[entry] += weights[1]
    deltas.variances[entry] += weights[2]
    deltas.minimal[entry] += weights[3]
    return True


@njit
def _enter_pair(deltas, batch, state, pair, weights, space):
    """Add the rules of a pair. Returns False on a key collision."""
    view = view_pair(batch, state, pair)
    depth = begin_walk(view, space.walk)
    while True:
        v, depth = next_rule(view, space.walk, depth)
        if v < 0:
            return True
        if not _enter_rule(deltas, batch, pair, v, view, weights, space):
            return False


@njit
def _add_pairs(deltas, batch, state, pairs, weights, space):
    k = 0
    while k < len(pairs) and _enter_pair(deltas, batch, state, pairs[k], weights, space):
        k += 1
    return k == len(pairs)


_FITS, _COLLIDES, _MISFITS = 0, 1, 2
"""Results of counting: success, key collision, and mismatch of a tree or fragment with its forest."""


@njit
def _add_trees(deltas, batch, state, weighted, first, last, stack, space):
    """Add the weights of trees `first` to `last` - 1. Returns (_FITS, -1), or (failure, failed pair)."""
    trees = weighted.trees
    for k in range(first, last):
        pair = trees.pairs[k]
        view = view_pair(batch, state, pair)
        if not decode_tree(view, trees.content, trees.starts[k], trees.ends[k], stack):
            return _MISFITS, pair
        weights = weighted.weights[k, 0], weighted.weights[k, 1], weighted.weights[k, 2], 0
        if not _enter_pair(deltas, batch, state, pair, weights, space):
            return _COLLIDES, pair
    return _FITS, -1


@njit
def _bound_sizes(batch, pairs):
    """Return upper bounds on the total numbers of rules and symbols in derivations of `pairs`."""
    rules, symbols = 0, 0
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
        rows[row, KEY_HIGH], rows[row, KEY_LOW], rows[row, ENTRY] = keys[entry, 0], keys[entry, 1], np.uint64(entry)


def _with_room(deltas: CountDeltas, batch: Batch, rules: int, symbols: int) -> CountDeltas:
    entries, used_symbols = map(int, deltas.sizes)
    # A rule's symbols are written before its key is found, so leave room for another rule.
    symbols += 2 * (batch.max_nodes + 1) + batch.longest_rule
    rows = deltas.rows
    capacity = capacity_for(entries + rules, len(rows))
    if capacity > len(rows):
        rows = np.zeros((capacity, 4), np.uint64)
        _refill(rows, deltas.keys, entries)
    grown = {name: longer(getattr(deltas, name), entries + rules) for name in _BY_ENTRY}
    return deltas._replace(rows=rows, symbols=longer(deltas.symbols, used_symbols + symbols), **grown)


def add_state(
    deltas: CountDeltas, batch: Batch, state: State, weights: Weights, pairs: NDArray[np.int64]
) -> CountDeltas:
    """Return the deltas with `weights` added per rule use in `pairs`. Raises `KeyCollisionError`."""
    space = _counting_space(batch)
    for first in range(0, len(pairs), _PAIRS_PER_CALL):
        chunk = pairs[first : first + _PAIRS_PER_CALL]
        deltas = _with_room(deltas, batch, *_bound_sizes(batch, chunk))
        if not _add_pairs(deltas, batch, state, chunk, weights, space):
            raise KeyCollisionError(_COLLISION)
    return deltas


def add_trees(deltas: CountDeltas, batch: Batch, weighted: WeightedTrees) -> CountDeltas:
    """Add the weights of trees. Raises `KeyCollisionError`, or `DerivationError` for a mismatch."""
    space = _counting_space(batch)
    state = empty_state(batch.forests)
    stack = np.empty(batch.max_nodes + 1, np.int64)
    pairs = weighted.trees.pairs
    for first in range(0, len(pairs), _PAIRS_PER_CALL):
        last = min(first + _PAIRS_PER_CALL, len(pairs))
        deltas = _with_room(deltas, batch, *_bound_sizes(batch, pairs[first:last]))
        outcome, pair = _add_trees(deltas, batch, state, weighted, first, last, stack, space)
        if outcome == _COLLIDES:
            raise KeyCollisionError(_COLLISION)
        if outcome == _MISFITS:
            raise mismatch_error("tree", "does not match its forest", [int(pair)])
    return deltas


def add_minimal(deltas: CountDeltas, batch: Batch, pairs: NDArray[np.int64], weight: int) -> CountDeltas:
    """Return deltas with `weight` added per rule use in minimal derivations (all nodes cut) of `pairs`."""
    all_cut = State(np.zeros(batch.forests.nodes, np.uint16), np.ones(batch.forests.nodes, np.uint8))
    return add_state(deltas, batch, all_cut, (0, 0, 0, weight), pairs)


@njit
def _bound_symbols(batch, fragments, first, last):
    """Return an upper bound on the number of symbols in the rules of fragments first to last - 1."""
    symbols = 0
    for k in range(first, last):
        pair = fragments.pairs[k]
        place = batch.forests.node_offset[pair] + fragments.roots[k]
        if place >= batch.forests.node_offset[pair + 1]:
            # Skip a fragment that does not match the forest, because `_add_fragments` reports it.
            continue
        node = batch.forests.node[place]
        symbols += np.int64(node["source_end"]) - np.int64(node["source_start"])
        symbols += np.int64(node["target_end"]) - np.int64(node["target_start"])
        # A node adds up to four symbols: two brackets, and a nonterminal on each side.
        symbols += 4 * (fragments.ends[k] - fragments.starts[k])
    return symbols


@njit
def _add_fragments(deltas, batch, state, fragments, first, last, stack, space):
    """Add the weights of fragments `first` to `last` - 1. Returns (_FITS, -1), or (failure, failed pair)."""
    for k in range(first, last):
        pair, root = fragments.pairs[k], fragments.roots[k]
        view = view_pair(batch, state, pair)
        if not decode_fragment(root, view, stack, fragments.content, fragments.starts[k], fragments.ends[k]):
            return _MISFITS, pair
        space.walk.registers[0]["epoch"] += 1
        make_summary(root, view, space.walk)
        weights = 0, fragments.weights[k], fragments.variances[k], 0
        if not _enter_rule(deltas, batch, pair, root, view, weights, space):
            return _COLLIDES, pair
    return _FITS, -1


def add_fragments(deltas: CountDeltas, batch: Batch, fragments: Fragments) -> CountDeltas:
    """Add the weights of fragments. Raises `KeyCollisionError`, or `DerivationError` for a mismatch."""
    space = _counting_space(batch)
    state = empty_state(batch.forests)
    stack = np.empty(batch.max_nodes + 1, np.int64)
    for first in range(0, len(fragments.pairs), _PAIRS_PER_CALL):
        last = min(first + _PAIRS_PER_CALL, len(fragments.pairs))
        deltas = _with_room(deltas, batch, last - first, _bound_symbols(batch, fragments, first, last))
        outcome, pair = _add_fragments(deltas, batch, state, fragments, first, last, stack, space)
        if outcome == _COLLIDES:
            raise KeyCollisionError(_COLLISION)
        if outcome == _MISFITS:
            raise mismatch_error("averages", "do not match its forest", [int(pair)])
    return deltas


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
            high, low = summary_key(work.summary, v, batch.words.key_mask)
            sound &= add(table, model, high, low, summary_size(work.summary, v), change)
    return sound


def count_rules(
    batch: Batch, state: State, table: CountTable, model: Model, change: int, skipped: NDArray[np.bool_] | None = None
) -> CountTable:
    """Return the table with `change` added per rule use. Omits `skipped` pairs, bool[P]. Consumes `table`.

    Raises `ValueError` if a count would fall below 0.
    """
    work = walk_space(batch)
    counted = np.arange(batch.size) if skipped is None else np.flatnonzero(~skipped)
    for first in range(0, len(counted), _PAIRS_PER_CALL):
        pairs = counted[first : first + _PAIRS_PER_CALL]
        table = with_room(table, int((batch.derivation_rules[pairs + 1] - batch.derivation_rules[pairs]).sum()))
        if not _count(table, model, batch, state, pairs, change, work):
            raise ValueError(BELOW_ZERO)
    return table
