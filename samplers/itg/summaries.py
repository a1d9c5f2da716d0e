"""Links and rules of ITG derivations, and posterior averages of the rules of each pair.

Each rule that a pair of n and m words can use has a *position*. The order is straight, inverted, null emissions of n
source words and m target words, n · m word pairs in row-major order, then phrase pairs that begin at each word pair.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.forests.averages import draw_of_rule, round_uses
from hierogram.samplers.forests.derivations import get_number, mismatch_error, put_number
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.numbers import MAX_SWEEPS, ONE_SQUARE, ONE_USE, SHARED_STEP, VARIANCE_PER_DRAW
from hierogram.samplers.itg.batch import BINARY, ItgBatch, first_pair, phrase_offset
from hierogram.samplers.itg.derivations import (
    NODE,
    PAIR,
    SOURCE_NULL,
    TARGET_NULL,
    Derivations,
    lay_out,
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
    """Return the linked node of a chunk (one word by up to `MAX_CHUNK_LENGTH`), or -1 without a chunk."""
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
        lay_out(derivations.rules[derivations.offset[pair] :], length, nodes)
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
    """Count the links of one sample by cell, in place.

    `linked` float32[C] counts words that one rule emits. `implied` float32[C] counts implied links, which link each
    unlinked word of a chunk to the chunk's single word on the other side.
    """
    _add_links(batch, derivations, np.zeros(longest_derivation(derivations), NODE), linked, implied)


_BYTES_PER_NUMBER = 5


class ItgAverages(NamedTuple):
    """Summed uses of the rule at each position, uint32[S], and number of sweeps of each pair, int64[P]."""

    uses: NDArray[np.uint32]
    sweeps: NDArray[np.int64]


@njit_inline
def _first_position(batch, pair):
    """Return the index of a pair's first position in `ItgAverages.uses`."""
    cells = batch.cell_offset[pair] * batch.phrases.longest * batch.phrases.longest
    return BINARY * pair + batch.source_offset[pair] + batch.target_offset[pair] + cells


@njit_inline
def _rule_position(node, n, m, longest):
    rule = np.int64(node["rule"])
    if rule < PAIR:
        return rule
    if rule == PAIR:
        return BINARY + n + m + np.int64(node["i"]) * m + np.int64(node["x"])
    if rule == SOURCE_NULL:
        return BINARY + np.int64(node["i"])
    if rule == TARGET_NULL:
        return BINARY + n + np.int64(node["x"])
    i, x = np.int64(node["i"]), np.int64(node["x"])
    phrase = phrase_offset(longest, np.int64(node["j"]) - i, np.int64(node["y"]) - x)
    return BINARY + n + m + n * m + (i * m + x) * (longest * longest - 1) + phrase - 1


def empty_averages(batch: ItgBatch) -> ItgAverages:
    """Return averages over no sweeps."""
    positions = BINARY * batch.size + len(batch.source) + len(batch.target)
    positions += len(batch.types) * batch.phrases.longest**2
    return ItgAverages(np.zeros(positions, np.uint32), np.zeros(batch.size, np.int64))


@njit
def _add(batch, derivations, due, averages, nodes):
    for pair in range(len(due)):
        length = np.int64(derivations.length[pair])
        if not due[pair] or length == 0:
            continue
        lay_out(derivations.rules[derivations.offset[pair] :], length, nodes)
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
    """Encode each pair's averages as a record of LEB128 varints, which is empty without averages.

    A record has the number of sweeps, then the distance of each used position from the previous used position (or from
    the pair's first position) and the uses at this position.
    """
    bound = 2 * np.count_nonzero(averages.uses) + np.count_nonzero(averages.sweeps)
    content = np.empty(_BYTES_PER_NUMBER * bound, np.uint8)
    offsets = np.zeros(len(averages.sweeps) + 1, np.int64)
    position = 0
    for pair in range(len(averages.sweeps)):
        if averages.sweeps[pair] > 0:
            position = put_number(content, position, averages.sweeps[pair])
            first = _first_position(batch, pair)
            before = first
            for at in range(first, _first_position(batch, pair + 1)):
                if averages.uses[at] > 0:
                    position = put_number(content, position, at - before)
                    position = put_number(content, position, np.int64(averages.uses[at]))
                    before = at
        offsets[pair + 1] = position
    return Blobs(content[:position].copy(), offsets)


@njit
def _next_entry(content, position, last, at, end):
    """Return the entry after rule position `at`: its position (-1 if invalid), uses, and next byte."""
    step, position = get_number(content, position, last)
    uses, position = get_number(content, position, last)
    if step < 0 or uses < 1 or at + step >= end:
        return -1, 0, position
    return at + step, uses, position


@njit_inline
def _has_rule(batch, pair, at):
    """Return False for a position where a phrase pair would cross the end of a sentence."""
    words = batch.source_offset[pair + 1] + batch.target_offset[pair + 1]
    phrase = at - BINARY * (pair + 1) - words - batch.cell_offset[pair + 1]
    return phrase < batch.cell_offset[pair] * (batch.phrases.longest**2 - 1) or batch.phrases.types[phrase] >= 0


@njit
def _count_entries(batch, pair, content, position, last):
    """Return the number of entries of a record, or -1 if sweeps, positions or uses are invalid."""
    sweeps, position = get_number(content, position, last)
    if sweeps < 1 or sweeps >= MAX_SWEEPS:
        return -1
    words = batch.source_offset[pair + 1] - batch.source_offset[pair]
    words += batch.target_offset[pair + 1] - batch.target_offset[pair]
    left = sweeps * (2 * words - 1)
    number = 0
    before, end = _first_position(batch, pair), _first_position(batch, pair + 1)
    while position < last:
        at, uses, position = _next_entry(content, position, last, before, end)
        if at < 0 or (at == before and number > 0) or not _has_rule(batch, pair, at):
            return -1
        left -= uses
        if left < 0:
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
        averages.sweeps[pair], position = get_number(records.content, position, last)
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
    """Decode averages. Raises `DerivationError` if a record does not match the words of its pair."""
    check_records(batch, records)
    averages = empty_averages(batch)
    _read(batch, records, averages)
    return averages


class RuleUses(NamedTuple):
    """Count changes of m rules, int64[m]: numbers of the rules, and batch index of a pair that uses each.

    `expected_uses` are in units of 1/`ONE_USE`, and their error `variances` in units of 1/`ONE_SQUARE`.
    """

    rules: NDArray[np.int64]
    pairs: NDArray[np.int64]
    counts: NDArray[np.int64]
    expected_uses: NDArray[np.int64]
    variances: NDArray[np.int64]


@njit_inline
def _rule_at(batch, pair, position):
    """Return the number of the rule at a pair's position."""
    s, t = batch.source_offset[pair], batch.target_offset[pair]
    n, m = batch.source_offset[pair + 1] - s, batch.target_offset[pair + 1] - t
    if position < BINARY:
        return position
    if position < BINARY + n:
        return BINARY + np.int64(batch.source[s + position - BINARY])
    if position < BINARY + n + m:
        return BINARY + batch.source_words + np.int64(batch.target[t + position - BINARY - n])
    cell = position - BINARY - n - m
    if cell < n * m:
        return first_pair(batch) + np.int64(batch.types[batch.cell_offset[pair] + cell])
    longest = batch.phrases.longest
    first = batch.cell_offset[pair] * (longest * longest - 1)
    return first_pair(batch) + np.int64(batch.phrases.types[first + cell - n * m])


@njit
def _write_use(uses, row, rule, pair, weights):
    uses.rules[row] = rule
    uses.pairs[row] = pair
    uses.counts[row] = weights[0]
    uses.expected_uses[row] = weights[1]
    uses.variances[row] = weights[2]
    return row + 1


@njit
def _list_trees(batch, derivations, chosen, first, uses, nodes):
    """List the rules of chosen derivations. Returns their number."""
    count = 0
    for k in range(len(chosen)):
        pair = first + k
        length = np.int64(derivations.length[pair])
        if chosen[k] == 0 or length == 0:
            continue
        lay_out(derivations.rules[derivations.offset[pair] :], length, nodes)
        # The current uses of a pair without averages are its expected uses.
        alone = chosen[k] == 2
        weights = 1, ONE_USE if alone else 0, VARIANCE_PER_DRAW * ONE_SQUARE if alone else 0
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
        sweeps, position = get_number(records.content, position, last)
        at = begin
        while position < last:
            at, uses, position = _next_entry(records.content, position, last, at, end)
            draw = draw_of_rule(batch.pairs[pair], at - begin, 0)
            mean, variance = round_uses(uses * ONE_USE, 0, sweeps, SHARED_STEP, draw)
            if mean > 0:
                rule = _rule_at(batch, pair, at - begin)
                count = _write_use(output, count, rule, pair, (0, mean, variance))
    return count


def _allocate_uses(size: int) -> RuleUses:
    return RuleUses(*(np.empty(size, np.int64) for _ in range(5)))


def list_tree_uses(batch: ItgBatch, derivations: Derivations, chosen: NDArray[np.int8], first: int = 0) -> RuleUses:
    """Return the rule uses in the derivations of consecutive pairs from `first` on.

    `chosen` int8[p] is 0 to skip a pair, 1 to count current uses, and 2 to also count them as expected uses.
    """
    uses = _allocate_uses(int(derivations.length[first : first + len(chosen)].sum()))
    nodes = np.zeros(longest_derivation(derivations), NODE)
    count = _list_trees(batch, derivations, chosen, first, uses, nodes)
    return RuleUses(*(column[:count] for column in uses))


def list_record_uses(batch: ItgBatch, records: Blobs, first: int = 0) -> RuleUses:
    """Return expected uses in records of pairs from `first` on. Raises `DerivationError` if invalid."""
    uses = _allocate_uses(check_records(batch, records, first))
    count = _list_records(batch, records, first, uses)
    return RuleUses(*(column[:count] for column in uses))


def sum_uses(parts: list[RuleUses]) -> RuleUses:
    """Sum the changes of each rule, with the pair of its first entry. Drops unchanged rules."""
    columns = zip(_allocate_uses(0), *parts, strict=True)
    every = RuleUses(*(np.concatenate(column) for column in columns))
    order = np.argsort(every.rules, kind="stable")
    rules = every.rules[order]
    begins = np.flatnonzero(np.diff(rules, prepend=-1))
    sums = [np.add.reduceat(column[order], begins) if len(begins) else column for column in every[2:]]
    nonzero = np.any([column != 0 for column in sums], axis=0)
    return RuleUses(rules[begins][nonzero], every.pairs[order][begins][nonzero], *(column[nonzero] for column in sums))
