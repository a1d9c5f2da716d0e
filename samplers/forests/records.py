"""Averages as bytes, the way a store keeps them: one string, a *record*, for each pair.

A record is two zero bytes and a 1 (retained trees never begin so), then, as LEB128 varints, the sweeps averaged over
and the uses that they had in all; then the entries in their order. An entry is the node at which the rule begins,
twice its uses in all sweeps (and 1 more where it was used twice at least), the size of the fragment in bytes, and these
bytes. With a 0 in place of the 1 nothing follows: the pair expects nothing yet.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.averages import (
    Averages,
    add_trees,
    append_entry,
    decode_fragment,
    empty_averages,
    error_variance,
    expected_uses,
)
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.derivations import empty_state, get_number, most_nodes, put_number
from hierogram.samplers.forests.samples import decode_trees, samples_of
from hierogram.samplers.forests.views import view_pair
from hierogram.samplers.forests.walk import make_summary, walk_space
from hierogram.samplers.grammar.columns import Blobs

_MARK_BYTES = 3
_MARK, _NOTHING = 1, 0
_NUMBER_BYTES = 8


class Fragments(NamedTuple):
    """Fragments of pairs, m of them: `content[starts[k] : ends[k]]` is one of pair `pairs[k]` that begins at node
    `roots[k]`, and it counts for `weights[k]` uses, whose error has the variance `variances[k]`, both in units of
    1/`ONE_USE`. All int64[m] but `content` uint8.
    """

    content: NDArray[np.uint8]
    pairs: NDArray[np.int64]
    roots: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    weights: NDArray[np.int64]
    variances: NDArray[np.int64]

    def of_pairs(self, first: int) -> "Fragments":
        """The same, where pair 0 of the fragments is pair `first` of the batch."""
        return self._replace(pairs=self.pairs + first)


@njit
def is_record(content, first, last):
    """Whether the bytes are averages: else they are retained trees, or none at all."""
    return last - first >= _MARK_BYTES and content[first] == 0 and content[first + 1] == 0


@njit
def _begin(content, first, last):
    """Sweeps, uses in all, and where the entries begin; a position of -1 where the record is none that is known."""
    if content[first + 2] == _NOTHING and last == first + _MARK_BYTES:
        return 0, 0, last
    if content[first + 2] != _MARK:
        return 0, 0, -1
    sweeps, position = get_number(content, first + _MARK_BYTES, last)
    total, position = get_number(content, position, last)
    return sweeps, total, position if sweeps >= 0 and total >= 0 else -1


@njit
def _next(content, position, last):
    """Of the entry at `position` root, uses, shared, where the fragment begins and ends; an end of -1 if cut short."""
    root, position = get_number(content, position, last)
    uses, position = get_number(content, position, last)
    size, position = get_number(content, position, last)
    end = position + size
    if root < 0 or uses < 0 or size < 1 or end > last:
        return root, uses, 0, position, -1
    return root, uses >> 1, uses & 1, position, end


@njit
def _count(records):
    """Entries of all records, and the first pair whose record is cut short, or -1."""
    number = 0
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if not is_record(records.content, first, last):
            continue
        _, _, position = _begin(records.content, first, last)
        while 0 <= position < last:
            _, _, _, _, position = _next(records.content, position, last)
            number += 1
        if position < 0:
            return number, pair
    return number, -1


@njit
def _list(records, found):
    taken = 0
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if not is_record(records.content, first, last):
            continue
        sweeps, _, position = _begin(records.content, first, last)
        while position < last:
            root, uses, shared, start, position = _next(records.content, position, last)
            weight = expected_uses(uses, sweeps, shared)
            if weight > 0:
                found.pairs[taken] = pair
                found.roots[taken] = root
                found.starts[taken] = start
                found.ends[taken] = position
                found.weights[taken] = weight
                found.variances[taken] = error_variance(weight, sweeps)
                taken += 1
    return taken


def fragments_of(records: Blobs) -> Fragments:
    """The fragments that count, of all records; raises `DerivationError` where a record is cut short."""
    number, cut_short = _count(records)
    if cut_short >= 0:
        raise DerivationError(f"the averages of pair number {cut_short} of the batch are cut short")
    columns = [np.empty(number, np.int64) for _ in range(6)]
    taken = _list(records, Fragments(records.content, *columns))
    return Fragments(records.content, *(column[:taken] for column in columns))


@njit
def _same(fragments, k, others, j):
    size = fragments.ends[k] - fragments.starts[k]
    if fragments.roots[k] != others.roots[j] or others.ends[j] - others.starts[j] != size:
        return False
    same = 0
    while same < size and fragments.content[fragments.starts[k] + same] == others.content[others.starts[j] + same]:
        same += 1
    return same == size


@njit
def _move(before, after):
    """Take from the weights of `after` what the same fragments had before, and make that 0 there.

    A pair's entries keep their order from one record to the next, so each is looked for behind the one found last.
    """
    here = 0
    for k in range(len(after.pairs)):
        pair = after.pairs[k]
        while here < len(before.pairs) and before.pairs[here] < pair:
            here += 1
        j = here
        while j < len(before.pairs) and before.pairs[j] == pair and not _same(after, k, before, j):
            j += 1
        if j < len(before.pairs) and before.pairs[j] == pair:
            after.weights[k] -= before.weights[j]
            after.variances[k] -= before.variances[j]
            before.weights[j] = 0
            before.variances[j] = 0
            here = j + 1


def moved(before: Fragments, after: Fragments) -> Fragments:
    """By how much the weights of fragments change; those whose weights stay as they are, are left out."""
    before = before._replace(weights=before.weights.copy(), variances=before.variances.copy())
    after = after._replace(weights=after.weights.copy(), variances=after.variances.copy())
    _move(before, after)
    gone, come = (np.flatnonzero((part.weights != 0) | (part.variances != 0)) for part in (before, after))
    return Fragments(
        np.concatenate((before.content, after.content)),
        np.concatenate((before.pairs[gone], after.pairs[come])),
        np.concatenate((before.roots[gone], after.roots[come])),
        np.concatenate((before.starts[gone], after.starts[come] + len(before.content))),
        np.concatenate((before.ends[gone], after.ends[come] + len(before.content))),
        np.concatenate((-before.weights[gone], after.weights[come])),
        np.concatenate((-before.variances[gone], after.variances[come])),
    )


@njit
def _write(averages, content, offsets):
    position = 0
    for pair in range(len(averages.sweeps)):
        if averages.sweeps[pair] > 0:
            content[position] = 0
            content[position + 1] = 0
            content[position + 2] = _MARK
            position = put_number(content, position + _MARK_BYTES, averages.sweeps[pair])
            position = put_number(content, position, averages.total[pair])
        for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
            entry = averages.entry[k]
            position = put_number(content, position, np.int64(entry["root"]))
            position = put_number(content, position, 2 * entry["uses"] + np.int64(entry["shared"]))
            position = put_number(content, position, np.int64(entry["size"]))
            start = averages.room[pair] + np.int64(entry["start"])
            for byte in range(entry["size"]):
                content[position + byte] = averages.content[start + byte]
            position += np.int64(entry["size"])
        offsets[pair + 1] = position
    return position


def write_averages(averages: Averages) -> Blobs:
    """Each pair's record; nothing for pairs that have not averaged over anything."""
    bound = int(averages.filled.sum() + (2 + _NUMBER_BYTES + 2) * averages.taken.sum())
    content = np.empty(bound + (_MARK_BYTES + 2 * _NUMBER_BYTES) * len(averages.sweeps), np.uint8)
    offsets = np.zeros(len(averages.sweeps) + 1, np.int64)
    size = _write(averages, content, offsets)
    return Blobs(content[:size].copy(), offsets)


@njit
def _read(averages, batch, state, records, stack, work):
    """Fill the averages from the records; the first pair whose record does not fit its forest, or -1."""
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if not is_record(records.content, first, last):
            continue
        view = view_pair(batch, state, pair)
        sweeps, total, position = _begin(records.content, first, last)
        averages.sweeps[pair] = sweeps
        averages.total[pair] = total
        while 0 <= position < last:
            root, uses, shared, start, position = _next(records.content, position, last)
            if position < 0 or not decode_fragment(root, view, stack, records.content, start, position):
                return pair
            work.registers[0]["epoch"] += 1
            make_summary(root, view, work)
            hashes = work.summary[root]["source_hash"], work.summary[root]["target_hash"]
            append_entry(averages, pair, hashes, root, uses, shared, records.content[start:position])
        if position < 0:
            return pair
    return -1


@njit
def _which(records, chosen):
    for pair in range(len(chosen)):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        chosen[pair] = last > first and not is_record(records.content, first, last)


def trees_among(records: Blobs) -> Blobs:
    """The strings that are retained trees, as earlier versions kept them; the others are empty."""
    chosen = np.zeros(records.size, np.bool_)
    _which(records, chosen)
    sizes = np.where(chosen, np.diff(records.offsets), 0)
    kept = np.repeat(chosen, np.diff(records.offsets))
    return Blobs(records.content[kept], np.concatenate(([0], np.cumsum(sizes))))


def read_averages(batch: Batch, records: Blobs) -> Averages:
    """Inverse of `write_averages`; a pair whose record is one of retained trees has averaged over these.

    Raises `DerivationError` where bytes do not fit their pair's forest.
    """
    averages = empty_averages(batch)
    forests = batch.forests
    stack = np.empty(most_nodes(forests) + 1, np.int64)
    wrong = _read(averages, batch, empty_state(forests), records, stack, walk_space(batch))
    if wrong >= 0:
        raise DerivationError(f"the averages of pair number {wrong} of the batch do not fit its forest")
    trees = samples_of(trees_among(records))
    rank = 0
    while len((of_rank := trees.of_rank(rank)).pairs):
        due = np.zeros(batch.size, np.bool_)
        due[of_rank.pairs] = True
        add_trees(averages, batch, decode_trees(forests, of_rank), due)
        rank += 1
    return averages
