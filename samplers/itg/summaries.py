"""Links and rules of ITG derivations, and posterior averages of the rules of each pair.

A *chunk* is a binary node that covers one word on one side and up to `MAX_CHUNK_LENGTH` words on the other. It has one
emission of words of both sides, the *linked node*, and null emissions.

Each rule that a pair of n and m words can use has a *position*. The order is straight, inverted, null emissions of n
source words and m target words, n · m word pairs in row-major order, then phrase pairs that begin at each word pair.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.forests.averages import draw_of_rule, round_uses
from hierogram.samplers.forests.derivations import get_varint, mismatch_error, put_varint
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.numbers import MAX_SWEEPS, ONE_SQUARE, ONE_USE, SHARED_ROUNDING_STEP, VARIANCE_PER_DRAW
from hierogram.samplers.itg.batch import BINARY_TYPES, ItgBatch, first_pair_rule, phrase_offset
from hierogram.samplers.itg.derivations import (
    NODE,
    PAIR,
    SOURCE_NULL,
    TARGET_NULL,
    Derivations,
    build_nodes,
    longest_derivation,
)
from hierogram.samplers.itg.model import rule_number

MAX_CHUNK_LENGTH = 3
"""Maximum number of words of the longer side of a chunk."""


@njit_inline
def _emits_both(node):
    return node["rule"] == PAIR or node["rule"] > TARGET_NULL


@njit
def _add_chunk(node, linked_node, cell, width, sums):
    i, j, x, y = linked_node["i"], linked_node["j"], np.int64(linked_node["x"]), linked_node["y"]
    if node["y"] - node["x"] == 1:
        for k in range(node["i"], node["j"]):
            if not i <= k < j:
                sums[cell + k * width + x] += np.float32(1.0)
    else:
        for z in range(node["x"], node["y"]):
            if not x <= z < y:
                sums[cell + i * width + z] += np.float32(1.0)


@njit
def _find_linked_node(nodes, top):
    """Return the linked node of the chunk at node `top`, or -1 if the node is not a chunk."""
    node = nodes[top]
    height, width = node["j"] - node["i"], node["y"] - node["x"]
    if node["rule"] < PAIR and min(height, width) == 1 and max(height, width) <= MAX_CHUNK_LENGTH:
        for descendant in range(top + 1, top + node["size"]):
            if _emits_both(nodes[descendant]):
                return descendant
    return -1


@njit
def _add_links(batch, derivations, nodes, linked, implied):
    for pair in range(len(batch.pairs)):
        length = np.int64(derivations.length[pair])
        if length == 0:
            continue
        build_nodes(derivations.rules[derivations.offset[pair] :], length, nodes)
        width = batch.target_offset[pair + 1] - batch.target_offset[pair]
        cell = batch.cell_offset[pair]
        chunk_end = 0
        for at in range(length):
            node = nodes[at]
            if _emits_both(node):
                for i in range(node["i"], node["j"]):
                    for x in range(node["x"], node["y"]):
                        linked[cell + i * width + x] += np.float32(1.0)
            elif at >= chunk_end:
                linked_node = _find_linked_node(nodes, at)
                if linked_node >= 0:
                    _add_chunk(node, nodes[linked_node], cell, width, implied)
                    chunk_end = at + np.int64(node["size"])


def add_links(
    batch: ItgBatch, derivations: Derivations, linked: NDArray[np.float32], implied: NDArray[np.float32]
) -> None:
    """Count the links of the current derivations by cell, in place.

    `linked` float32[C] counts pairs of words that one rule emits. `implied` float32[C] counts implied links, which link
    each unlinked word of a chunk to the chunk's single word on the other side.
    """
    _add_links(batch, derivations, np.zeros(longest_derivation(derivations), NODE), linked, implied)


_BYTES_PER_NUMBER = 5


class ItgAverages(NamedTuple):
    """Summed uses of the rule at each pair's positions, uint32[S], and sweeps of each pair, int64[P]."""

    uses: NDArray[np.uint32]
    sweeps: NDArray[np.int64]


@njit_inline
def _first_position(batch, pair):
    """Return the index of a pair's first position in `ItgAverages.uses`."""
    cells = batch.cell_offset[pair] * batch.phrases.longest * batch.phrases.longest
    return BINARY_TYPES * pair + batch.source_offset[pair] + batch.target_offset[pair] + cells


@njit_inline
def _rule_position(node, n, m, longest):
    rule = np.int64(node["rule"])
    if rule < PAIR:
        return rule
    if rule == PAIR:
        return BINARY_TYPES + n + m + np.int64(node["i"]) * m + np.int64(node["x"])
    if rule == SOURCE_NULL:
        return BINARY_TYPES + np.int64(node["i"])
    if rule == TARGET_NULL:
        return BINARY_TYPES + n + np.int64(node["x"])
    i, x = np.int64(node["i"]), np.int64(node["x"])
    phrase = phrase_offset(longest, np.int64(node["j"]) - i, np.int64(node["y"]) - x)
    return BINARY_TYPES + n + m + n * m + (i * m + x) * (longest * longest - 1) + phrase - 1


def empty_averages(batch: ItgBatch) -> ItgAverages:
    """Return the averages of a batch over 0 sweeps."""
    positions = BINARY_TYPES * batch.size + len(batch.source) + len(batch.target)
    positions += len(batch.types) * batch.phrases.longest**2
    return ItgAverages(np.zeros(positions, np.uint32), np.zeros(batch.size, np.int64))


@njit
def _add(batch, derivations, due, averages, nodes):
    for pair in range(len(due)):
        length = np.int64(derivations.length[pair])
        if not due[pair] or length == 0:
            continue
        build_nodes(derivations.rules[derivations.offset[pair] :], length, nodes)
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        first = _first_position(batch, pair)
        for at in range(length):
            averages.uses[first + _rule_position(nodes[at], n, m, batch.phrases.longest)] += np.uint32(1)
        averages.sweeps[pair] += 1
        if averages.sweeps[pair] == MAX_SWEEPS:
            # Halve the sums, so that past sweeps have half the weight of future sweeps.
            averages.sweeps[pair] //= 2
            for at in range(first, _first_position(batch, pair + 1)):
                averages.uses[at] >>= np.uint32(1)


def add_derivations(batch: ItgBatch, derivations: Derivations, due: NDArray[np.bool_], averages: ItgAverages) -> None:
    """Add the derivations of the pairs in `due`, bool[P], to the averages, in place."""
    _add(batch, derivations, due, averages, np.zeros(longest_derivation(derivations), NODE))


@njit_allocating
def write_averages(batch: ItgBatch, averages: ItgAverages) -> Blobs:
    """Encode each pair's averages as a record of LEB128 varints, which is empty after 0 sweeps.

    A record has the number of sweeps, then the distance of each used position from the previous used position (or from
    the pair's first position) and the uses at this position.
    """
    bound = 2 * np.count_nonzero(averages.uses) + np.count_nonzero(averages.sweeps)
    content = np.empty(_BYTES_PER_NUMBER * bound, np.uint8)
    offsets = np.zeros(len(averages.sweeps) + 1, np.int64)
    position = 0
    for pair in range(len(averages.sweeps)):
        if averages.sweeps[pair] > 0:
            position = put_varint(content, position, averages.sweeps[pair])
            first = _first_position(batch, pair)
            before = first
            for at in range(first, _first_position(batch, pair + 1)):
                if averages.uses[at] > 0:
                    position = put_varint(content, position, at - before)
                    position = put_varint(content, position, np.int64(averages.uses[at]))
                    before = at
        offsets[pair + 1] = position
    return Blobs(content[:position].copy(), offsets)


@njit
def _next_entry(content, position, last, at, end):
    """Return the next entry: (rule position or -1 if invalid, uses, index of the byte after it)."""
    step, position = get_varint(content, position, last)
    uses, position = get_varint(content, position, last)
    if step < 0 or uses < 1 or at + step >= end:
        return -1, 0, position
    return at + step, uses, position


@njit_inline
def _has_rule(batch, pair, at):
    """Return False for a rule position at which a phrase pair would cross the end of a sentence."""
    words = batch.source_offset[pair + 1] + batch.target_offset[pair + 1]
    phrase = at - BINARY_TYPES * (pair + 1) - words - batch.cell_offset[pair + 1]
    return phrase < batch.cell_offset[pair] * (batch.phrases.longest**2 - 1) or batch.phrases.types[phrase] >= 0


@njit
def _count_entries(batch, pair, content, position, last):
    """Return the number of entries of a pair's record, or -1 if sweeps, positions or uses are invalid."""
    sweeps, position = get_varint(content, position, last)
    if sweeps < 1 or sweeps >= MAX_SWEEPS:
        return -1
    words = batch.source_offset[pair + 1] - batch.source_offset[pair]
    words += batch.target_offset[pair + 1] - batch.target_offset[pair]
    # Each sweep adds the rules of one derivation.
    uses_left = sweeps * (2 * words - 1)
    number = 0
    before, end = _first_position(batch, pair), _first_position(batch, pair + 1)
    while position < last:
        at, uses, position = _next_entry(content, position, last, before, end)
        if at < 0 or (at == before and number > 0) or not _has_rule(batch, pair, at):
            return -1
        uses_left -= uses
        if uses_left < 0:
            return -1
        before = at
        number += 1
    return number


@njit
def _check(batch, records, first, wrong):
    number = 0
    for k in range(len(records.offsets) - 1):
        position, last = records.offsets[k], records.offsets[k + 1]
        if position == last:
            continue
        entries = _count_entries(batch, first + k, records.content, position, last)
        wrong[k] = entries < 0
        number += entries
    return number


@njit
def _read(batch, records, averages):
    for pair in range(len(records.offsets) - 1):
        position, last = records.offsets[pair], records.offsets[pair + 1]
        if position == last:
            continue
        averages.sweeps[pair], position = get_varint(records.content, position, last)
        at, end = _first_position(batch, pair), _first_position(batch, pair + 1)
        while position < last:
            at, uses, position = _next_entry(records.content, position, last, at, end)
            averages.uses[at] = uses


def check_records(batch: ItgBatch, records: Blobs, first: int = 0) -> int:
    """Count the entries in records of pairs from `first` on. Raises `DerivationError` if one is invalid."""
    wrong = np.zeros(batch.size, np.bool_)
    number = int(_check(batch, records, first, wrong[first:]))
    if wrong.any():
        raise mismatch_error("averages", "do not match its words", np.flatnonzero(wrong).tolist())
    return number


def read_averages(batch: ItgBatch, records: Blobs) -> ItgAverages:
    """Decode the output of `write_averages`. Raises `DerivationError` like `check_records`."""
    check_records(batch, records)
    averages = empty_averages(batch)
    _read(batch, records, averages)
    return averages


class RuleUses(NamedTuple):
    """Uses, or changes of uses, in m items: columns int64[m]. A rule may have several items.

    `rules` are rule numbers as in `hierogram.samplers.itg.model`, and `pairs` batch indices of pairs that use them.
    `counts` are uses in current derivations. `expected_uses` are in units of 1/`ONE_USE`, and their error `variances`
    in units of 1/`ONE_SQUARE`.
    """

    rules: NDArray[np.int64]
    pairs: NDArray[np.int64]
    counts: NDArray[np.int64]
    expected_uses: NDArray[np.int64]
    variances: NDArray[np.int64]


@njit_inline
def _rule_at(batch, pair, position):
    """Return the number of the rule at a position of a pair. Several positions may have the same rule."""
    s, t = batch.source_offset[pair], batch.target_offset[pair]
    n, m = batch.source_offset[pair + 1] - s, batch.target_offset[pair + 1] - t
    if position < BINARY_TYPES:
        return position
    if position < BINARY_TYPES + n:
        return BINARY_TYPES + np.int64(batch.source[s + position - BINARY_TYPES])
    if position < BINARY_TYPES + n + m:
        return BINARY_TYPES + batch.source_words + np.int64(batch.target[t + position - BINARY_TYPES - n])
    cell = position - BINARY_TYPES - n - m
    if cell < n * m:
        return first_pair_rule(batch) + np.int64(batch.types[batch.cell_offset[pair] + cell])
    longest = batch.phrases.longest
    first = batch.cell_offset[pair] * (longest * longest - 1)
    return first_pair_rule(batch) + np.int64(batch.phrases.types[first + cell - n * m])


@njit
def _write_use(uses, row, rule, pair, weights):
    uses.rules[row] = rule
    uses.pairs[row] = pair
    uses.counts[row] = weights[0]
    uses.expected_uses[row] = weights[1]
    uses.variances[row] = weights[2]
    return row + 1


@njit
def _list_derivations(batch, derivations, chosen, averaged, first, uses, nodes):
    """Write the rules of chosen derivations to `uses`. Returns their number."""
    count = 0
    for k in range(len(chosen)):
        pair = first + k
        length = np.int64(derivations.length[pair])
        if not chosen[k] or length == 0:
            continue
        build_nodes(derivations.rules[derivations.offset[pair] :], length, nodes)
        # The current uses of a pair without averages are its expected uses.
        weights = 1, 0 if averaged[k] else ONE_USE, 0 if averaged[k] else VARIANCE_PER_DRAW * ONE_SQUARE
        for at in range(length):
            rule = rule_number(batch, pair, np.int64(nodes[at]["rule"]), nodes[at]["i"], nodes[at]["x"])
            count = _write_use(uses, count, rule, pair, weights)
    return count


@njit
def _list_records(batch, records, first, output):
    count = 0
    for k in range(len(records.offsets) - 1):
        position, last = records.offsets[k], records.offsets[k + 1]
        if position == last:
            continue
        pair = first + k
        begin, end = _first_position(batch, pair), _first_position(batch, pair + 1)
        sweeps, position = get_varint(records.content, position, last)
        at = begin
        while position < last:
            at, uses, position = _next_entry(records.content, position, last, at, end)
            draw = draw_of_rule(batch.pairs[pair], at - begin, 0)
            mean, variance = round_uses(uses * ONE_USE, 0, sweeps, SHARED_ROUNDING_STEP, draw)
            if mean > 0:
                rule = _rule_at(batch, pair, at - begin)
                count = _write_use(output, count, rule, pair, (0, mean, variance))
    return count


def _allocate_uses(size: int) -> RuleUses:
    return RuleUses(*(np.empty(size, np.int64) for _ in range(5)))


def list_derivation_uses(
    batch: ItgBatch,
    derivations: Derivations,
    chosen: NDArray[np.bool_],
    averaged: NDArray[np.bool_],
    first: int = 0,
) -> RuleUses:
    """Return the rule uses in the derivations of consecutive pairs from `first` on.

    `chosen` bool[p] is False for pairs to skip. `averaged` bool[p] is True for pairs with averages. The current uses of
    other pairs are also returned as expected uses.
    """
    uses = _allocate_uses(int(derivations.length[first : first + len(chosen)].sum()))
    nodes = np.zeros(longest_derivation(derivations), NODE)
    count = _list_derivations(batch, derivations, chosen, averaged, first, uses, nodes)
    return RuleUses(*(column[:count] for column in uses))


def list_record_uses(batch: ItgBatch, records: Blobs, first: int = 0) -> RuleUses:
    """Return expected uses in records of pairs from `first` on. Raises `DerivationError` if invalid."""
    uses = _allocate_uses(check_records(batch, records, first))
    count = _list_records(batch, records, first, uses)
    return RuleUses(*(column[:count] for column in uses))


def sum_uses(parts: list[RuleUses]) -> RuleUses:
    """Sum the changes of each rule, with the pair of its first item. Drops unchanged rules."""
    columns = zip(_allocate_uses(0), *parts, strict=True)
    every = RuleUses(*(np.concatenate(column) for column in columns))
    order = np.argsort(every.rules, kind="stable")
    rules = every.rules[order]
    begins = np.flatnonzero(np.diff(rules, prepend=-1))
    sums = [np.add.reduceat(column[order], begins) if len(begins) else column for column in every[2:]]
    nonzero = np.any([column != 0 for column in sums], axis=0)
    return RuleUses(rules[begins][nonzero], every.pairs[order][begins][nonzero], *(column[nonzero] for column in sums))
