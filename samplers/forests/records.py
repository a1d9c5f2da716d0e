"""Byte encoding of averages in a store: one byte string, a *record*, per pair.

A record consists of LEB128 varints: the number of sweeps and the floor; then the entries in order. An entry is the
root node of the fragment, 4 · uses + the two `shared` bits, the upper bound on earlier uses (`missed`), the `draw`, the
size of the fragment in bytes, and these bytes. The record of a pair without averaged sweeps is empty.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.averages import (
    BYTES_PER_SLOT,
    Averages,
    decode_fragment,
    empty_averages,
    put_entry,
    round_uses,
    slots_of,
    slots_of_pairs,
    step_of,
)
from hierogram.samplers.forests.derivations import (
    Batch,
    empty_state,
    get_number,
    make_summary,
    misfit,
    put_number,
    walk_space,
)
from hierogram.samplers.forests.forest import view_pair
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.numbers import DRAWS, MAX_SWEEPS, ONE_USE

_NUMBER_BYTES = 9
_MAX_STORED, _MAX_BYTES = 0xFFFFFFFF, 0xFFFF
"""Maximum of `uses` and `missed`, and of the size of a fragment in bytes, in an entry."""
_ENTRY_BYTES = 18
"""Maximal bytes of an entry's numbers: `root` and `size` have 16 bits, `uses` and `missed` 32, `draw` 8."""


class Fragments(NamedTuple):
    """m encoded fragments: fragment k is `content[starts[k] : ends[k]]`."""

    # uint8
    content: NDArray[np.uint8]
    # int64[m]: pair and root node of each fragment.
    pairs: NDArray[np.int64]
    roots: NDArray[np.int64]
    # int64[m]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    # int64[m]: expected uses in units of 1/`ONE_USE`, and their error variances in units of 1/`ONE_SQUARE`.
    weights: NDArray[np.int64]
    variances: NDArray[np.int64]


@njit
def _begin(content, first, last):
    """Return sweeps, floor and the position of the entries; position -1 if the bytes are not a record."""
    sweeps, position = get_number(content, first, last)
    floor, position = get_number(content, position, last)
    return sweeps, floor, position if sweeps > 0 and floor >= 0 else -1


@njit
def _next(content, position, last):
    """Return root, (uses, missed), (shared, draw), fragment start and end of an entry; end -1 if truncated."""
    root, position = get_number(content, position, last)
    uses, position = get_number(content, position, last)
    missed, position = get_number(content, position, last)
    draw, position = get_number(content, position, last)
    size, position = get_number(content, position, last)
    end = position + size
    if root < 0 or uses < 0 or missed < 0 or draw < 0 or draw >= DRAWS or size < 1 or end > last:
        return root, (uses, missed), (uses & 3, draw), position, -1
    return root, (uses >> 2, missed), (uses & 3, draw), position, end


@njit
def _count(records):
    """Return the number of entries in all records, and the first pair with a truncated record, or -1."""
    number = 0
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if first == last:
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
    listed = 0
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if first == last:
            continue
        sweeps, _, position = _begin(records.content, first, last)
        while position < last:
            root, sums, marks, start, position = _next(records.content, position, last)
            weight, variance = round_uses(sums[0], sums[1], sweeps, step_of(marks[0]), marks[1])
            if weight > 0:
                found.pairs[listed] = pair
                found.roots[listed] = root
                found.starts[listed] = start
                found.ends[listed] = position
                found.weights[listed] = weight
                found.variances[listed] = variance
                listed += 1
    return listed


def list_fragments(records: Blobs) -> Fragments:
    """Return the fragments with nonzero expected uses. Raises `DerivationError` if a record is truncated."""
    number, cut_short = _count(records)
    if cut_short >= 0:
        raise DerivationError(f"the averages of pair {cut_short} of the batch are truncated")
    columns = [np.empty(number, np.int64) for _ in range(6)]
    listed = _list(records, Fragments(records.content, *columns))
    return Fragments(records.content, *(column[:listed] for column in columns))


@njit
def _same(fragments, k, others, j):
    size = fragments.ends[k] - fragments.starts[k]
    if fragments.roots[k] != others.roots[j] or others.ends[j] - others.starts[j] != size:
        return False
    prefix = 0
    while (
        prefix < size and fragments.content[fragments.starts[k] + prefix] == others.content[others.starts[j] + prefix]
    ):
        prefix += 1
    return prefix == size


@njit
def _move(before, after):
    """Subtract the weights of equal fragments in `before` from `after`, and set them to 0 in `before`.

    A pair's entries keep their order between records, so each search starts after the previous match.
    """
    search_start = 0
    for k in range(len(after.pairs)):
        pair = after.pairs[k]
        while search_start < len(before.pairs) and before.pairs[search_start] < pair:
            search_start += 1
        j = search_start
        while j < len(before.pairs) and before.pairs[j] == pair and not _same(after, k, before, j):
            j += 1
        if j < len(before.pairs) and before.pairs[j] == pair:
            after.weights[k] -= before.weights[j]
            after.variances[k] -= before.variances[j]
            before.weights[j] = 0
            before.variances[j] = 0
            search_start = j + 1


def fragment_changes(before: Fragments, after: Fragments) -> Fragments:
    """Return the weight changes of fragments from `before` to `after`, without unchanged fragments."""
    before = before._replace(weights=before.weights.copy(), variances=before.variances.copy())
    after = after._replace(weights=after.weights.copy(), variances=after.variances.copy())
    _move(before, after)
    removed, added = (np.flatnonzero((part.weights != 0) | (part.variances != 0)) for part in (before, after))
    return Fragments(
        np.concatenate((before.content, after.content)),
        np.concatenate((before.pairs[removed], after.pairs[added])),
        np.concatenate((before.roots[removed], after.roots[added])),
        np.concatenate((before.starts[removed], after.starts[added] + len(before.content))),
        np.concatenate((before.ends[removed], after.ends[added] + len(before.content))),
        np.concatenate((-before.weights[removed], after.weights[added])),
        np.concatenate((-before.variances[removed], after.variances[added])),
    )


@njit
def _write(averages, content, offsets):
    position = 0
    for pair in range(len(averages.sweeps)):
        if averages.sweeps[pair] > 0:
            position = put_number(content, position, averages.sweeps[pair])
            position = put_number(content, position, averages.floor[pair])
        for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
            entry = averages.entry[k]
            position = put_number(content, position, np.int64(entry["root"]))
            position = put_number(content, position, 4 * np.int64(entry["uses"]) + np.int64(entry["shared"]))
            position = put_number(content, position, np.int64(entry["missed"]))
            position = put_number(content, position, np.int64(entry["draw"]))
            position = put_number(content, position, np.int64(entry["size"]))
            start = BYTES_PER_SLOT * averages.first[pair] + np.int64(entry["start"])
            for byte in range(entry["size"]):
                content[position + byte] = averages.content[start + byte]
            position += np.int64(entry["size"])
        offsets[pair + 1] = position
    return position


def write_averages(averages: Averages) -> Blobs:
    """Encode the record of each pair; empty for pairs without averaged sweeps."""
    taken = int(averages.taken.sum())
    bound = BYTES_PER_SLOT * int(averages.filled.sum()) + _ENTRY_BYTES * taken
    content = np.empty(bound + 2 * _NUMBER_BYTES * len(averages.sweeps), np.uint8)
    offsets = np.zeros(len(averages.sweeps) + 1, np.int64)
    size = _write(averages, content, offsets)
    return Blobs(content[:size].copy(), offsets)


@njit
def _begin_record(view, content, first, last):
    """Return sweeps, floor, the position of the entries of a record, and the largest sum of their uses.

    The position is -1 if the bytes are not a record. A sweep credits each node of a tree with up to one use.
    """
    sweeps, floor, position = _begin(content, first, last)
    if position < 0 or sweeps >= MAX_SWEEPS or floor > _MAX_STORED:
        return sweeps, floor, -1, 0
    return sweeps, floor, position, np.int64(view.node[len(view.node) - 1]["level"]) * ONE_USE * sweeps


@njit
def _next_fitting(view, content, position, last, left, stack):
    """Return the entry as `_next` does, decoded into the variables; end -1 if it does not fit or exceeds `left`."""
    root, sums, marks, start, end = _next(content, position, last)
    if end < 0 or sums[0] > min(left, _MAX_STORED) or sums[1] > _MAX_STORED or end - start > _MAX_BYTES:
        return root, sums, marks, start, -1
    if not decode_fragment(root, view, stack, content, start, end):
        return root, sums, marks, start, -1
    return root, sums, marks, start, end


@njit
def _check(batch, state, slots, records, stack, wrong):
    """Mark the pairs whose records do not match their forest, or have no room in their slots, in `wrong`."""
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if first == last:
            continue
        view = view_pair(batch, state, pair)
        _, _, position, left = _begin_record(view, records.content, first, last)
        room = slots[pair]
        while 0 <= position < last:
            _, sums, _, start, position = _next_fitting(view, records.content, position, last, left, stack)
            left -= sums[0]
            room -= slots_of(position - start)
            if room < 0:
                position = -1
        wrong[pair] = position < 0


@njit
def _read(averages, batch, state, records, stack, work, wrong):
    """Fill the averages from the records, and mark the pairs as `_check` does."""
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if first == last:
            continue
        view = view_pair(batch, state, pair)
        sweeps, floor, position, left = _begin_record(view, records.content, first, last)
        averages.sweeps[pair] = sweeps
        averages.floor[pair] = floor
        while 0 <= position < last:
            root, sums, marks, start, position = _next_fitting(view, records.content, position, last, left, stack)
            if position < 0:
                break
            left -= sums[0]
            work.registers[0]["epoch"] += 1
            make_summary(root, view, work)
            hashes = work.summary[root]["source_hash"], work.summary[root]["target_hash"]
            if not put_entry(averages, pair, hashes, root, sums, marks, records.content[start:position]):
                position = -1
        wrong[pair] = position < 0


def check_records(batch: Batch, records: Blobs) -> None:
    """Raise `DerivationError` if bytes differ from the record that `write_averages` would write."""
    wrong = np.zeros(batch.size, np.bool_)
    stack = np.empty(batch.max_nodes + 1, np.int64)
    _check(batch, empty_state(batch.forests), slots_of_pairs(batch), records, stack, wrong)
    if wrong.any():
        raise misfit("averages", "do not match its forest", wrong)


def read_averages(batch: Batch, records: Blobs) -> Averages:
    """Decode the output of `write_averages`. Raises `DerivationError` if bytes do not match their pair's forest."""
    wrong = np.zeros(batch.size, np.bool_)
    averages = empty_averages(batch)
    stack = np.empty(batch.max_nodes + 1, np.int64)
    _read(averages, batch, empty_state(batch.forests), records, stack, walk_space(batch), wrong)
    if wrong.any():
        raise misfit("averages", "do not match its forest", wrong)
    return averages
