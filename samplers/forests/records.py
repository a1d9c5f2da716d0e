"""Byte encoding of averages in a store: one byte string, a *record*, per pair.

A record has LEB128 varints for the number of sweeps and the floor, then the entries in order. An entry has varints for
the root node of the fragment, 4 · uses + the two `shared` bits, the upper bound on earlier uses (`missed`), the `draw`
and the size of the fragment in bytes, then these bytes. The record of a pair without averaged sweeps is empty. Columns
of records (`Blobs`) have the pairs in the order of the batch.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
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
    get_varint,
    make_summary,
    mismatch_error,
    put_varint,
    same_slices,
    walk_space,
)
from hierogram.samplers.forests.forest import view_pair
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.numbers import MAX_SWEEPS, ONE_USE, ROUNDING_DRAWS

_NUMBER_BYTES = 9
"""Maximum number of bytes of a varint."""
_MAX_STORED, _MAX_BYTES = 0xFFFFFFFF, 0xFFFF
"""Maximum of `uses` and of `missed` in an entry, and maximum number of bytes of its fragment."""
_MIN_ENTRY_BYTES = 6
"""Minimum size of an entry in bytes: five numbers, and a fragment of one byte."""
_ENTRY_BYTES = 18
"""Maximum bytes of an entry's numbers: `root`, `size` (16 bits), `uses`, `missed` (32), `draw` (8)."""


class Fragments(NamedTuple):
    """m encoded fragments of a batch: fragment k is `content[starts[k] : ends[k]]`."""

    content: NDArray[np.uint8]
    # int64[m]: index of each fragment's pair in the batch, its root node, and its range in `content`.
    pairs: NDArray[np.int64]
    roots: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    # int64[m]: expected uses of each fragment's rule and their error variance, in units of 1/`ONE_USE` and
    # 1/`ONE_SQUARE`.
    weights: NDArray[np.int64]
    variances: NDArray[np.int64]

    def select(self, rows: slice | NDArray[np.bool_]) -> "Fragments":
        """Return the fragments of a slice or mask. The content is shared, not copied."""
        return Fragments(self.content, *(column[rows] for column in self[1:]))


@njit
def _read_header(content, first, last):
    """Return (sweeps, floor, position of the entries). The position is -1 if the bytes are not a record."""
    sweeps, position = get_varint(content, first, last)
    floor, position = get_varint(content, position, last)
    return sweeps, floor, position if sweeps > 0 and floor >= 0 else -1


@njit
def _read_entry(content, position, last):
    """Return (root, (uses, missed), (shared, draw), fragment start, fragment end or -1 if invalid)."""
    root, position = get_varint(content, position, last)
    uses, position = get_varint(content, position, last)
    missed, position = get_varint(content, position, last)
    draw, position = get_varint(content, position, last)
    size, position = get_varint(content, position, last)
    end = position + size
    if root < 0 or uses < 0 or missed < 0 or draw < 0 or draw >= ROUNDING_DRAWS or size < 1 or end > last:
        return root, (uses, missed), (uses & 3, draw), position, -1
    return root, (uses >> 2, missed), (uses & 3, draw), position, end


@njit
def _list_fragments(records, found):
    """Write the fragments with nonzero weights to `found`. Returns their number."""
    listed = 0
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if first == last:
            continue
        sweeps, _, position = _read_header(records.content, first, last)
        while position < last:
            root, sums, marks, start, position = _read_entry(records.content, position, last)
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
    """Return the fragments with nonzero rounded uses, sorted by pair. The records must be valid."""
    # Allocate the maximum number of rows, because rows that are never written take no memory.
    columns = [np.empty(len(records.content) // _MIN_ENTRY_BYTES, np.int64) for _ in range(6)]
    fragments = Fragments(records.content, *columns)
    return fragments.select(slice(_list_fragments(records, fragments)))


@njit_inline
def _is_same(fragments, k, others, j):
    start, end = fragments.starts[k], fragments.ends[k]
    return fragments.roots[k] == others.roots[j] and same_slices(
        fragments.content, start, end, others.content, others.starts[j], others.ends[j]
    )


@njit
def _subtract_equal(before, after):
    """Subtract the weights in `before` from equal fragments in `after`, then set them to 0."""
    search_start = 0
    for k in range(len(after.pairs)):
        pair = after.pairs[k]
        while search_start < len(before.pairs) and before.pairs[search_start] < pair:
            search_start += 1
        j = search_start
        while j < len(before.pairs) and before.pairs[j] == pair and not _is_same(after, k, before, j):
            j += 1
        if j < len(before.pairs) and before.pairs[j] == pair:
            after.weights[k] -= before.weights[j]
            after.variances[k] -= before.variances[j]
            before.weights[j] = 0
            before.variances[j] = 0
            search_start = j + 1


def fragment_changes(before: Fragments, after: Fragments) -> Fragments:
    """Return the fragments whose weight or variance changed, with the changes as weights and variances."""
    before = before._replace(weights=before.weights.copy(), variances=before.variances.copy())
    after = after._replace(weights=after.weights.copy(), variances=after.variances.copy())
    _subtract_equal(before, after)
    removed, added = (np.flatnonzero((part.weights != 0) | (part.variances != 0)) for part in (before, after))
    before = before._replace(weights=-before.weights, variances=-before.variances)
    shift = len(before.content)
    after = after._replace(starts=after.starts + shift, ends=after.ends + shift)
    columns = zip(before[1:], after[1:], strict=True)
    return Fragments(
        np.concatenate((before.content, after.content)),
        *(np.concatenate((old[removed], new[added])) for old, new in columns),
    )


@njit_allocating
def write_averages(averages: Averages) -> Blobs:
    """Return the record of each pair."""
    bound = BYTES_PER_SLOT * averages.slots_used.sum() + _ENTRY_BYTES * averages.entry_counts.sum()
    content = np.empty(bound + 2 * _NUMBER_BYTES * len(averages.sweeps), np.uint8)
    offsets = np.zeros(len(averages.sweeps) + 1, np.int64)
    position = 0
    for pair in range(len(averages.sweeps)):
        if averages.sweeps[pair] > 0:
            position = put_varint(content, position, averages.sweeps[pair])
            position = put_varint(content, position, averages.floor[pair])
        for k in range(averages.first[pair], averages.first[pair] + averages.entry_counts[pair]):
            entry = averages.entry[k]
            position = put_varint(content, position, np.int64(entry["root"]))
            position = put_varint(content, position, 4 * np.int64(entry["uses"]) + np.int64(entry["shared"]))
            position = put_varint(content, position, np.int64(entry["missed"]))
            position = put_varint(content, position, np.int64(entry["draw"]))
            position = put_varint(content, position, np.int64(entry["size"]))
            start = BYTES_PER_SLOT * averages.first[pair] + np.int64(entry["start"])
            for byte in range(entry["size"]):
                content[position + byte] = averages.content[start + byte]
            position += np.int64(entry["size"])
        offsets[pair + 1] = position
    return Blobs(content[:position].copy(), offsets)


@njit
def _read_records(averages, batch, state, slots, records, stack, work, mismatched):
    """Set `mismatched` for records that do not match their pair. Also fill `averages`, unless it is None."""
    for pair in range(len(records.offsets) - 1):
        first, last = records.offsets[pair], records.offsets[pair + 1]
        if first == last:
            continue
        view = view_pair(batch, state, pair)
        sweeps, floor, position = _read_header(records.content, first, last)
        if sweeps >= MAX_SWEEPS or floor > _MAX_STORED:
            position = -1
        if averages is not None:
            averages.sweeps[pair] = sweeps
            averages.floor[pair] = floor
        # Each sweep adds up to one use per node of a tree.
        uses_left = np.int64(view.node[len(view.node) - 1]["level"]) * ONE_USE * sweeps
        slots_left = slots[pair]
        while 0 <= position < last:
            root, sums, marks, start, end = _read_entry(records.content, position, last)
            position = -1
            if end < 0 or sums[0] > min(uses_left, _MAX_STORED) or sums[1] > _MAX_STORED or end - start > _MAX_BYTES:
                break
            uses_left -= sums[0]
            slots_left -= slots_of(end - start)
            if slots_left < 0 or not decode_fragment(root, view, stack, records.content, start, end):
                break
            position = end
            if averages is not None:
                work.registers[0]["epoch"] += 1
                make_summary(root, view, work)
                hashes = work.summary[root]["source_hash"], work.summary[root]["target_hash"]
                put_entry(averages, pair, hashes, root, sums, marks, records.content[start:end])
        mismatched[pair] = position < 0


def _read_batch(averages: Averages | None, batch: Batch, records: Blobs) -> None:
    mismatched = np.zeros(batch.size, np.bool_)
    stack = np.empty(batch.max_nodes + 1, np.int64)
    work = None if averages is None else walk_space(batch)
    _read_records(averages, batch, empty_state(batch.forests), slots_of_pairs(batch), records, stack, work, mismatched)
    if mismatched.any():
        raise mismatch_error("averages", "do not match its forest", np.flatnonzero(mismatched).tolist())


def check_records(batch: Batch, records: Blobs) -> None:
    """Raise `DerivationError` with the pairs whose records do not match their forests."""
    _read_batch(None, batch, records)


def read_averages(batch: Batch, records: Blobs) -> Averages:
    """Decode the output of `write_averages`. Raises `DerivationError` like `check_records`."""
    averages = empty_averages(batch)
    _read_batch(averages, batch, records)
    return averages
