"""Counting the rules of given derivations, with the rules' own symbols: what goes to and comes from a store.

A ledger adds up, for each rule, by how much its counts change. It keeps every rule's symbols and compares them
at each occurrence, so two rules with one key are noticed, never merged.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import KEY_HIGH, KEY_LOW, RuleTable, add, find, with_room
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.forests.fragments import key_of, scope_of, size_of
from hierogram.samplers.forests.views import tails_of, view_pair
from hierogram.samplers.forests.walk import begin_walk, next_rule, walk_space
from hierogram.samplers.grammar.symbols import LABEL_STEP, OPEN_LABEL

ENTRY = 2
_PAIRS_A_CALL = 4096


class Ledger(NamedTuple):
    """Changes of counts by rule, E entries.

    `rows` uint64[capacity, 4] maps keys to entries; `keys` uint64[e, 2]; `shapes` uint64[e]; `scopes`, `nonterminals`,
    `adjacent` int32[e] (scope; nonterminals; adjacent pairs of them on the source side); `counts`, `sampled` int64[e]
    the changes; `starts` int64[e], `source_sizes`, `target_sizes` int32[e] where a rule's symbols lie in `symbols`
    int32 (source side, then target side; terminals are word numbers, a nonterminal k is -k); `sizes` int64[2] entries
    and symbols taken.
    """

    rows: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    shapes: NDArray[np.uint64]
    scopes: NDArray[np.int32]
    nonterminals: NDArray[np.int32]
    adjacent: NDArray[np.int32]
    counts: NDArray[np.int64]
    sampled: NDArray[np.int64]
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
        np.zeros(half, np.int32),
        np.zeros(half, np.int32),
        np.zeros(8 * half, np.int32),
        np.zeros(2, np.int64),
    )


@njit
def _source_symbols(v, view, words, symbols, position, numbers, stack, stack_tail, stack_position):
    """Write the source side of the rule at v; `numbers` gets the nonterminals' numbers. (position, nonterminals)."""
    count = 0
    depth = 1
    stack[0] = v
    stack_tail[0] = 0
    stack_position[0] = view.node[v]["source_start"]
    if view.node[v]["label"] != 0:
        symbols[position] = OPEN_LABEL - 2 * np.int64(view.node[v]["label"])
        position += 1
    while depth > 0:
        x = stack[depth - 1]
        i = stack_tail[depth - 1]
        first, last = tails_of(x, view)
        t = view.tails[first + i] if first + i < last else np.uint16(NO_TAIL)
        until = view.node[x]["source_end"] if t == NO_TAIL else view.node[t]["source_start"]
        for w in range(stack_position[depth - 1], until):
            symbols[position] = words[w]
            position += 1
        if t == NO_TAIL:
            if view.node[x]["label"] != 0:
                symbols[position] = OPEN_LABEL - 2 * np.int64(view.node[x]["label"]) - 1
                position += 1
            depth -= 1
            continue
        stack_tail[depth - 1] = i + 1
        stack_position[depth - 1] = view.node[t]["source_end"]
        if view.cut[t]:
            count += 1
            numbers[t] = count
            symbols[position] = -(count + LABEL_STEP * np.int64(view.node[t]["label"]))
            position += 1
        else:
            stack[depth] = t
            stack_tail[depth] = 0
            stack_position[depth] = view.node[t]["source_start"]
            depth += 1
            if view.node[t]["label"] != 0:
                symbols[position] = OPEN_LABEL - 2 * np.int64(view.node[t]["label"])
                position += 1
    return position, count


@njit
def _target_symbols(v, view, words, symbols, position, numbers, stack, stack_position, stack_last):
    """Write the target side of the rule at v, whose nonterminals have been numbered.

    Tails come by where they begin on the target side and, where that is the same, in source order; a node without
    target words has no target side.
    """
    depth = 1
    stack[0] = v
    stack_position[0] = view.node[v]["target_start"]
    stack_last[0] = -1
    while depth > 0:
        x = stack[depth - 1]
        end = np.int64(view.node[x]["target_end"])
        first, last = tails_of(x, view)
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
            symbols[position] = -(numbers[nearest] + LABEL_STEP * np.int64(view.node[nearest]["label"]))
            position += 1
        else:
            stack[depth] = nearest
            stack_position[depth] = view.node[nearest]["target_start"]
            stack_last[depth] = -1
            depth += 1
    return position


@njit
def _tally(ledger, batch, state, first, last, chosen, count, sampled, work, numbers, stacks):
    """Enter the rules of pairs first..last's derivations. False: two rules had one key."""
    for pair in range(first, last):
        if not chosen[pair]:
            continue
        view = view_pair(batch, state, pair)
        source = batch.bitext.source[batch.bitext.source_offset[pair] : batch.bitext.source_offset[pair + 1]]
        target = batch.bitext.target[batch.bitext.target_offset[pair] : batch.bitext.target_offset[pair + 1]]
        depth = begin_walk(view, work)
        while True:
            v, depth = next_rule(view, work, depth)
            if v < 0:
                break
            high, low = key_of(work.summary, v, batch.words.key_mask)
            start = ledger.sizes[1]
            middle, nonterminals = _source_symbols(
                v, view, source, ledger.symbols, start, numbers, stacks[0], stacks[1], stacks[2]
            )
            end = _target_symbols(v, view, target, ledger.symbols, middle, numbers, stacks[0], stacks[1], stacks[2])
            row = find(ledger.rows, high, low)
            if ledger.rows[row, KEY_LOW] == np.uint64(0) and ledger.rows[row, KEY_HIGH] == np.uint64(0):
                entry = ledger.sizes[0]
                ledger.rows[row, KEY_HIGH] = high
                ledger.rows[row, KEY_LOW] = low
                ledger.rows[row, ENTRY] = np.uint64(entry)
                ledger.keys[entry, 0] = high
                ledger.keys[entry, 1] = low
                ledger.shapes[entry] = size_of(work.summary, v)
                ledger.scopes[entry] = scope_of(work.summary, v)
                ledger.nonterminals[entry] = nonterminals
                ledger.adjacent[entry] = np.int64(work.summary[v]["adjacent"])
                ledger.counts[entry] = 0
                ledger.sampled[entry] = 0
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
            ledger.counts[entry] += count
            ledger.sampled[entry] += sampled
    return True


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
        longer(ledger.shapes, most),
        longer(ledger.scopes, most),
        longer(ledger.nonterminals, most),
        longer(ledger.adjacent, most),
        longer(ledger.counts, most),
        longer(ledger.sampled, most),
        longer(ledger.starts, most),
        longer(ledger.source_sizes, most),
        longer(ledger.target_sizes, most),
        longer(ledger.symbols, taken + symbols),
        ledger.sizes,
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
    if chosen is None:
        chosen = np.ones(batch.size, np.bool_)
    work = walk_space(batch)
    most = batch.most_nodes + 1
    numbers = np.zeros(most, np.int64)
    stacks = np.zeros((3, most + 1), np.int64)
    bitext = batch.bitext
    for first in range(0, batch.size, _PAIRS_A_CALL):
        last = min(first + _PAIRS_A_CALL, batch.size)
        rules = int(batch.derivation_rules[last] - batch.derivation_rules[first])
        words = int(
            bitext.source_offset[last] - bitext.source_offset[first]
            + bitext.target_offset[last] - bitext.target_offset[first]
        )  # fmt: skip
        longest = 2 * most + batch.longest_rule
        ledger = _with_room(ledger, rules, words + 4 * rules + longest)
        if not _tally(
            ledger, batch, state,
            first, last, chosen, count, sampled, work, numbers, stacks,
        ):  # fmt: skip
            raise KeyCollisionError(
                "two different rules have the same key; the store's keys must be made anew with another salt"
            )
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
