"""Changes of rule counts (deltas), with the symbols of each rule, for transfer to a store.

`count_rules` counts the rules of derivations in a table of keys, without symbols. The symbols of each rule use are
compared with the symbols in the deltas to detect key collisions, which would merge two rules.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import BELOW_ZERO, SIZE, CountTable, add, add_row, with_room
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.forests.averages import decode_fragment
from hierogram.samplers.forests.derivations import (
    Batch,
    State,
    WalkSpace,
    begin_walk,
    empty_state,
    make_summary,
    next_rule,
    walk_space,
)
from hierogram.samplers.forests.forest import NO_TAIL, longer, node_label, tail_range, view_pair
from hierogram.samplers.forests.fragments import summary_key, summary_scope, summary_size
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.grammar.numbers import LABEL_STEP, OPEN_LABEL


@njit
def _write_source_side(v, view, words, symbols, position, space):
    """Write the symbols of the source side of the rule at node v from `position` on."""
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
    """Write the target side from `position` on. Returns the position after the side."""
    numbers, stack, stack_position, stack_rank = space.numbers, space.stacks[0], space.stacks[1], space.stacks[2]
    depth = 1
    stack[0], stack_position[0], stack_rank[0] = v, view.node[v]["target_start"], -1
    while depth > 0:
        x = stack[depth - 1]
        end = np.int64(view.node[x]["target_end"])
        first, last = tail_range(x, view)
        next_tail = -1
        next_rank = np.int64(1) << 40
        if view.node[x]["target_start"] < end:
            for i in range(first, last):
                t = view.tails[i]
                rank = np.int64(view.node[t]["target_start"]) * (NO_TAIL + 1) + i - first
                if stack_rank[depth - 1] < rank < next_rank:
                    next_tail = np.int64(t)
                    next_rank = rank
        until = end if next_tail < 0 else np.int64(view.node[next_tail]["target_start"])
        for w in range(stack_position[depth - 1], until):
            symbols[position] = words[w]
            position += 1
        if next_tail < 0:
            depth -= 1
            continue
        stack_rank[depth - 1] = next_rank
        stack_position[depth - 1] = view.node[next_tail]["target_end"]
        if view.cut[next_tail]:
            symbols[position] = -numbers[next_tail]
            position += 1
        else:
            stack[depth], stack_position[depth], stack_rank[depth] = next_tail, view.node[next_tail]["target_start"], -1
            depth += 1
    return position


NUMBER = 2
"""Column of `CountDeltas.rows`: the index of a key's entry. Other columns are as in `CountTable.rows`."""
_PAIRS_PER_CALL = 4096
_COLLISION = "two different rules have the same key: run `hierogram learn`, which assigns new keys"

UseWeights = tuple[int, int, int, int]
"""Changes for each rule use: (count, expected uses, error variance, minimal uses), as in `ENTRY`."""

ENTRY = np.dtype(
    [(name, np.uint64) for name in ("key_high", "key_low", "size")]
    + [(name, np.int64) for name in ("count", "expected_uses", "variance", "minimal_uses", "start")]
    + [(name, np.int32) for name in ("source_size", "target_size", "scope", "nonterminals", "adjacent")],
    align=True,
)
"""Rule with its changes.

`size` is the packed size (see `hierogram.samplers.grammar.keys`). `count`, `expected_uses` (1/`ONE_USE`), their error
`variance` (1/`ONE_SQUARE`) and `minimal_uses` (uses in minimal derivations) are changes. `start` is the index into
`symbols` of the first symbol, and `source_size` and `target_size` the numbers of symbols of the sides. `adjacent` is
the number of pairs of adjacent nonterminals on the source side.
"""


class CountDeltas(NamedTuple):
    """Count changes of e rules, one entry per rule. Arrays may have room for more entries and symbols.

    Functions that add to deltas consume their argument, and return the deltas, which may have longer arrays.
    """

    # uint64[capacity, 4]: hash table from keys to entries. Columns: key (two words), index of the entry, packed size.
    rows: NDArray[np.uint64]
    # ENTRY[e]: rules in the order of their first use.
    entry: NDArray[np.void]
    # int32[symbols]: symbols of all rules, in the codes of `hierogram.samplers.grammar.numbers`. The source side of a
    # rule precedes its target side.
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
        np.zeros((2 * _MIN_ENTRIES, 4), np.uint64),
        np.zeros(_MIN_ENTRIES, ENTRY),
        np.zeros(8 * _MIN_ENTRIES, np.int32),
        np.zeros(2, np.int64),
    )


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
    """Add weights to the rule at node v of a pair. Returns False if another rule has the same key."""
    bitext = batch.bitext
    work = space.walk
    source = bitext.source[bitext.source_offset[pair] : bitext.source_offset[pair + 1]]
    target = bitext.target[bitext.target_offset[pair] : bitext.target_offset[pair + 1]]
    high, low = summary_key(work.summary, v, batch.word_hashes.key_mask)
    start = deltas.sizes[1]
    middle, nonterminals = _write_source_side(v, view, source, deltas.symbols, start, space)
    end = _write_target_side(v, view, target, deltas.symbols, middle, space)
    row, is_new = add_row(deltas.rows, high, low, summary_size(work.summary, v))
    if is_new:
        deltas.rows[row, NUMBER] = np.uint64(deltas.sizes[0])
    entry = deltas.entry[np.int64(deltas.rows[row, NUMBER])]
    if is_new:
        entry["key_high"], entry["key_low"] = high, low
        entry["size"] = deltas.rows[row, SIZE]
        entry["scope"] = summary_scope(work.summary, v)
        entry["nonterminals"] = nonterminals
        entry["adjacent"] = np.int64(work.summary[v]["adjacent"])
        entry["start"] = start
        entry["source_size"], entry["target_size"] = middle - start, end - middle
        deltas.sizes[0] += 1
        deltas.sizes[1] = end
    if entry["source_size"] != middle - start or entry["target_size"] != end - middle:
        return False
    for k in range(end - start):
        if deltas.symbols[entry["start"] + k] != deltas.symbols[start + k]:
            return False
    entry["count"] += weights[0]
    entry["expected_uses"] += weights[1]
    entry["variance"] += weights[2]
    entry["minimal_uses"] += weights[3]
    return True


@njit
def _add_pairs(deltas, batch, state, pairs, weights, space):
    """Add the rules of pairs. Returns False on a key collision."""
    for pair in pairs:
        view = view_pair(batch, state, pair)
        depth = begin_walk(view, space.walk)
        while True:
            v, depth = next_rule(view, space.walk, depth)
            if v < 0:
                break
            if not _enter_rule(deltas, batch, pair, v, view, weights, space):
                return False
    return True


@njit
def _refill(rows, entry, entries):
    for number in range(entries):
        row, _ = add_row(rows, entry[number]["key_high"], entry[number]["key_low"], entry[number]["size"])
        rows[row, NUMBER] = np.uint64(number)


def _with_room(deltas: CountDeltas, batch: Batch, rules: int, symbols: int) -> CountDeltas:
    rows, entry, used_symbols = deltas.rows, longer(deltas.entry, deltas.entries + rules), int(deltas.sizes[1])
    # A rule's symbols are written before its key is found, so leave room for another rule.
    symbols += 2 * (batch.max_nodes + 1) + batch.longest_rule
    capacity = capacity_for(deltas.entries + rules, len(rows))
    if capacity > len(rows):
        rows = np.zeros((capacity, 4), np.uint64)
        _refill(rows, entry, deltas.entries)
    return deltas._replace(rows=rows, entry=entry, symbols=longer(deltas.symbols, used_symbols + symbols))


def add_state(
    deltas: CountDeltas, batch: Batch, state: State, weights: UseWeights, pairs: NDArray[np.int64]
) -> CountDeltas:
    """Return deltas with `weights` added per rule use in pairs (indices). Raises `KeyCollisionError`."""
    space = _counting_space(batch)
    for first in range(0, len(pairs), _PAIRS_PER_CALL):
        part = pairs[first : first + _PAIRS_PER_CALL]
        offsets = batch.derivation_rules, batch.bitext.source_offset, batch.bitext.target_offset
        rules, source_words, target_words = (int((offset[part + 1] - offset[part]).sum()) for offset in offsets)
        deltas = _with_room(deltas, batch, rules, 4 * rules + source_words + target_words)
        if not _add_pairs(deltas, batch, state, part, weights, space):
            raise KeyCollisionError(_COLLISION)
    return deltas


@njit
def _add_fragments(deltas, batch, state, fragments, space):
    """Add the weights of fragments. Returns False on a key collision."""
    for k in range(len(fragments.pairs)):
        pair, root = fragments.pairs[k], fragments.roots[k]
        view = view_pair(batch, state, pair)
        decode_fragment(root, view, space.walk.stack, fragments.content, fragments.starts[k], fragments.ends[k])
        space.walk.registers[0]["epoch"] += 1
        make_summary(root, view, space.walk)
        weights = 0, fragments.weights[k], fragments.variances[k], 0
        if not _enter_rule(deltas, batch, pair, root, view, weights, space):
            return False
    return True


def add_fragments(deltas: CountDeltas, batch: Batch, fragments: Fragments) -> CountDeltas:
    """Add the weights of fragments, which must match their forests. Raises `KeyCollisionError`."""
    space, state = _counting_space(batch), empty_state(batch.forests)
    for first in range(0, len(fragments.pairs), _PAIRS_PER_CALL):
        part = fragments.select(slice(first, first + _PAIRS_PER_CALL))
        node = batch.forests.node[batch.forests.node_offset[part.pairs] + part.roots]
        words = node["source_end"] - node["source_start"] + node["target_end"] - node["target_start"]
        # A node adds up to four symbols: two brackets, and a nonterminal on each side.
        symbols = int(words.sum(dtype=np.int64) + 4 * (part.ends - part.starts).sum())
        deltas = _with_room(deltas, batch, len(part.pairs), symbols)
        if not _add_fragments(deltas, batch, state, part, space):
            raise KeyCollisionError(_COLLISION)
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
            high, low = summary_key(work.summary, v, batch.word_hashes.key_mask)
            sound &= add(table, model, high, low, summary_size(work.summary, v), change)
    return sound


def count_rules(
    batch: Batch, state: State, table: CountTable, model: Model, change: int, skipped: NDArray[np.bool_] | None = None
) -> CountTable:
    """Return the table with `change` added for each rule use in the derivations of a batch.

    Consumes `table`. `skipped` bool[P] is True for pairs that are not counted. Raises `ValueError` if a count would
    fall below 0.
    """
    work = walk_space(batch)
    counted = np.arange(batch.size) if skipped is None else np.flatnonzero(~skipped)
    for first in range(0, len(counted), _PAIRS_PER_CALL):
        pairs = counted[first : first + _PAIRS_PER_CALL]
        table = with_room(table, int((batch.derivation_rules[pairs + 1] - batch.derivation_rules[pairs]).sum()))
        if not _count(table, model, batch, state, pairs, change, work):
            raise ValueError(BELOW_ZERO)
    return table
