"""Averages of ITG derivations: for each pair, in how many of its sweeps it used which of its rules, and as bytes.

The rules that a pair of n and m words can use have places: straight, inverted, the null emissions of its n source and m
target words, and its n · m word pairs, row by row. There is a number for each of them, so nothing is let go.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.derivations import get_number, put_number
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.uses import MOST_SWEEPS
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.derivations import (
    NODE,
    PAIR,
    SOURCE_NULL,
    Derivations,
    lay_out,
    longest_derivation,
)

BINARY = 2
"""Rules with children, whose places come first."""

_BYTES_A_NUMBER = 5


class ItgAverages(NamedTuple):
    """`uses` uint32[S] of each place of each pair in all sweeps, `sweeps` int64[P] that it has averaged over."""

    uses: NDArray[np.uint32]
    sweeps: NDArray[np.int64]


@njit_inline
def first_place(batch, pair):
    """Where a pair's places begin."""
    return BINARY * pair + batch.source_offset[pair] + batch.target_offset[pair] + batch.cell_offset[pair]


@njit_inline
def place_of(node, n, m):
    """The place of a node's rule among those of its pair of n and m words."""
    rule = np.int64(node["rule"])
    if rule < PAIR:
        return rule
    if rule == PAIR:
        return BINARY + n + m + np.int64(node["i"]) * m + np.int64(node["x"])
    if rule == SOURCE_NULL:
        return BINARY + np.int64(node["i"])
    return BINARY + n + np.int64(node["x"])


def empty_averages(batch: ItgBatch) -> ItgAverages:
    """Nothing averaged yet."""
    places = BINARY * batch.size + len(batch.source) + len(batch.target) + len(batch.types)
    return ItgAverages(np.zeros(places, np.uint32), np.zeros(batch.size, np.int64))


@njit
def _end_sweep(averages, pair, first, last):
    """Count one more sweep of a pair; in the long run, let a sweep so far weigh half of one to come.

    Halves are rounded down: less than one use is lost of a place, of `MOST_SWEEPS` / 2 sweeps or more.
    """
    averages.sweeps[pair] += 1
    if averages.sweeps[pair] == MOST_SWEEPS:
        averages.sweeps[pair] //= 2
        for at in range(first, last):
            averages.uses[at] >>= np.uint32(1)


@njit
def _add(batch, derivations, due, averages, nodes):
    for pair in range(len(due)):
        length = np.int64(derivations.length[pair])
        if not due[pair] or length == 0:
            continue
        lay_out(derivations.rules[derivations.offset[pair] :], length, nodes)
        n = batch.source_offset[pair + 1] - batch.source_offset[pair]
        m = batch.target_offset[pair + 1] - batch.target_offset[pair]
        first = first_place(batch, pair)
        for at in range(length):
            averages.uses[first + place_of(nodes[at], n, m)] += np.uint32(1)
        _end_sweep(averages, pair, first, first_place(batch, pair + 1))


def add_derivations(batch: ItgBatch, derivations: Derivations, due: NDArray[np.bool_], averages: ItgAverages) -> None:
    """Average over the present derivations of the pairs that are due, too; changes the averages in place."""
    _add(batch, derivations, due, averages, np.zeros(longest_derivation(derivations), NODE))


@njit
def _write(batch, averages, content, offsets):
    position = 0
    for pair in range(len(averages.sweeps)):
        if averages.sweeps[pair] > 0:
            position = put_number(content, position, averages.sweeps[pair])
            first = first_place(batch, pair)
            before = first
            for at in range(first, first_place(batch, pair + 1)):
                if averages.uses[at] > 0:
                    position = put_number(content, position, at - before)
                    position = put_number(content, position, np.int64(averages.uses[at]))
                    before = at
        offsets[pair + 1] = position
    return position


def write_averages(batch: ItgBatch, averages: ItgAverages) -> Blobs:
    """Each pair's record: its sweeps, and of every place with uses how far it is from the one before, and the uses, as
    LEB128 varints; nothing for pairs that have not averaged over anything.
    """
    bound = 2 * np.count_nonzero(averages.uses) + np.count_nonzero(averages.sweeps)
    content = np.empty(_BYTES_A_NUMBER * bound, np.uint8)
    offsets = np.zeros(batch.size + 1, np.int64)
    size = _write(batch, averages, content, offsets)
    return Blobs(content[:size].copy(), offsets)


@njit
def next_entry(content, position, last, at, end):
    """The entry at `position` of a record, where `at` is the place before it: (place, uses, where the next begins).

    A place of -1 where the bytes end too soon, or lead beyond the places before `end`.
    """
    step, position = get_number(content, position, last)
    uses, position = get_number(content, position, last)
    if step < 0 or uses < 1 or at + step >= end:
        return -1, 0, position
    return at + step, uses, position


@njit
def _read(batch, records, averages):
    """The first pair whose record does not fit it, or -1."""
    for pair in range(len(records.offsets) - 1):
        position, last = records.offsets[pair], records.offsets[pair + 1]
        if position == last:
            continue
        sweeps, position = get_number(records.content, position, last)
        if sweeps < 1:
            return pair
        averages.sweeps[pair] = sweeps
        at, end = first_place(batch, pair), first_place(batch, pair + 1)
        while position < last:
            at, uses, position = next_entry(records.content, position, last, at, end)
            if at < 0:
                return pair
            averages.uses[at] = uses
    return -1


def read_averages(batch: ItgBatch, records: Blobs) -> ItgAverages:
    """Inverse of `write_averages`; raises `DerivationError` where a record does not fit its pair."""
    averages = empty_averages(batch)
    wrong = _read(batch, records, averages)
    if wrong >= 0:
        raise DerivationError(f"the averages of pair number {wrong} of the batch do not fit its words")
    return averages
