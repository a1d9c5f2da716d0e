"""Averages: for each pair, how often it expects to use which rules, with the fragments that make these rules.

A fragment is kept as bytes: the variables of its nodes as `hierogram.samplers.forests.derivations` writes them,
top-down in source order, the number 1 for each node at which another rule begins. Uses are in units of 1/`ONE_USE`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.derivations import get_number, put_number
from hierogram.samplers.forests.views import push_tails, view_pair
from hierogram.samplers.forests.walk import begin_walk, next_rule, walk_space
from hierogram.samplers.grammar.uses import LEAST_KEPT, LEAST_SHOWN, MOST_SWEEPS, ONE_USE, SWEEPS_A_DRAW

ENTRY = np.dtype(
    [
        ("source_hash", np.uint64),
        ("target_hash", np.uint64),
        ("uses", np.uint32),
        ("start", np.uint32),
        ("size", np.uint16),
        ("root", np.uint16),
        ("shared", np.uint32),
    ]
)
"""A rule that a pair expects to use: hashes of both sides; its uses in all sweeps; where its fragment lies in the bytes
of the pair, how many it has, the node at which it begins; 1 where it was used twice at least in a sweep since then."""

_SWEEPS_A_PRUNING = 16
_BYTES_AN_ENTRY = 10
_ENTRIES, _ENTRIES_A_RULE = 16, 4
"""A pair has room for so many entries, and for so many more for each rule that its derivation can have."""


class Averages(NamedTuple):
    """The expected uses of a batch of P pairs; all that grows has a bound, and is allocated at the start.

    Pair p has the entries `first[p]` to `first[p] + taken[p]` of `entry` ENTRY, with room up to `first[p + 1]`, and the
    bytes `room[p]` to `room[p] + filled[p]` of `content` uint8; `sweeps` and `total` are the sweeps that it has
    averaged over, and the uses that they had in all, also of rules without an entry. All others int64[P] or [P + 1].
    """

    entry: NDArray[np.void]
    first: NDArray[np.int64]
    taken: NDArray[np.int64]
    content: NDArray[np.uint8]
    room: NDArray[np.int64]
    filled: NDArray[np.int64]
    sweeps: NDArray[np.int64]
    total: NDArray[np.int64]


def empty_averages(batch: Batch) -> Averages:
    """Nothing averaged yet."""
    levels = np.diff(batch.derivation_rules)
    first = np.concatenate(([0], np.cumsum(_ENTRIES + _ENTRIES_A_RULE * levels)))
    room = _BYTES_AN_ENTRY * first
    none = [np.zeros(batch.size, np.int64) for _ in range(4)]
    return Averages(np.zeros(int(first[-1]), ENTRY), first, none[0], np.zeros(int(room[-1]), np.uint8), room, *none[1:])


def _no_averages() -> Averages:
    one, nothing = np.zeros(1, np.int64), np.zeros(0, np.int64)
    return Averages(np.zeros(0, ENTRY), one, nothing, np.zeros(0, np.uint8), one, nothing, nothing, nothing)


NO_AVERAGES = _no_averages()
"""Averages of no pair: for whom nothing is to be averaged."""


@njit
def encode_fragment(v, view, stack, content, position):
    """Write the variables of the fragment at v from `position` on; the position after it, or -1 if there is no room."""
    if position + 3 > len(content):
        return -1
    position = put_number(content, position, 2 * np.int64(view.edge[v]) + 1)
    depth = push_tails(v, view, stack, 0)
    while depth > 0:
        depth -= 1
        x = stack[depth]
        if position + 3 > len(content):
            return -1
        if view.cut[x]:
            position = put_number(content, position, 1)
        else:
            position = put_number(content, position, 2 * np.int64(view.edge[x]))
            depth = push_tails(x, view, stack, depth)
    return position


@njit
def decode_fragment(v, view, stack, content, first, last):
    """Set the variables of the fragment at v that the bytes hold; whether they fit the forest."""
    if v < 0 or v >= len(view.node):
        return False
    value, position = get_number(content, first, last)
    if value < 0 or not value & 1 or value >> 1 >= np.int64(view.node[v]["degree"]):
        return False
    view.edge[v] = value >> 1
    depth = push_tails(v, view, stack, 0)
    while depth > 0:
        depth -= 1
        x = stack[depth]
        value, position = get_number(content, position, last)
        if value < 0 or value >> 1 >= np.int64(view.node[x]["degree"]):
            return False
        view.cut[x] = value & 1
        if value & 1:
            continue
        if not view.node[x]["free"]:
            return False
        view.edge[x] = value >> 1
        depth = push_tails(x, view, stack, depth)
    return position == last


@njit_inline
def expected_uses(uses, sweeps, shared):
    """What an entry counts for, in units of 1/`ONE_USE`; 0 where it is not counted."""
    mean = uses // max(sweeps, 1)
    return mean if shared or mean >= LEAST_SHOWN else 0


@njit_inline
def error_variance(mean, sweeps):
    """Squared Monte-Carlo standard error of a pair's expected uses, in units of 1/`ONE_USE` squared uses."""
    return SWEEPS_A_DRAW * mean * (2 * ONE_USE - min(mean, ONE_USE)) // (2 * ONE_USE * max(sweeps, 1))


@njit_inline
def has_room(averages, pair, size):
    """Whether the pair has room for one more entry, its fragment of so many bytes."""
    return (
        averages.first[pair] + averages.taken[pair] < averages.first[pair + 1]
        and averages.room[pair] + averages.filled[pair] + size <= averages.room[pair + 1]
    )


@njit
def append_entry(averages, pair, hashes, root, uses, shared, fragment):
    """One more entry, if there is room; `fragment` uint8 its bytes."""
    if not has_room(averages, pair, len(fragment)):
        return
    entry = averages.entry[averages.first[pair] + averages.taken[pair]]
    entry["source_hash"] = hashes[0]
    entry["target_hash"] = hashes[1]
    entry["uses"] = uses
    entry["start"] = averages.filled[pair]
    entry["size"] = len(fragment)
    entry["root"] = root
    entry["shared"] = shared
    position = averages.room[pair] + averages.filled[pair]
    for k in range(len(fragment)):
        averages.content[position + k] = fragment[k]
    averages.filled[pair] += len(fragment)
    averages.taken[pair] += 1


@njit
def _prune(averages, pair):
    """Drop the entries whose average is below the least that is kept; close up the others."""
    first, start = averages.first[pair], averages.room[pair]
    least = LEAST_KEPT * averages.sweeps[pair]
    kept = 0
    filled = 0
    for k in range(averages.taken[pair]):
        entry = averages.entry[first + k]
        if entry["uses"] < least:
            continue
        for byte in range(entry["size"]):
            averages.content[start + filled + byte] = averages.content[start + entry["start"] + byte]
        entry["start"] = filled
        filled += entry["size"]
        if kept != k:
            averages.entry[first + kept] = entry
        kept += 1
    averages.taken[pair] = kept
    averages.filled[pair] = filled


@njit
def end_sweep(averages, pair, uses):
    """Count one more sweep of a pair, in which its derivation had so many uses in all; forget what is negligible."""
    averages.sweeps[pair] += 1
    averages.total[pair] += uses
    if averages.sweeps[pair] == MOST_SWEEPS:
        averages.sweeps[pair] //= 2
        averages.total[pair] //= 2
        for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
            averages.entry[k]["uses"] //= 2
    if averages.sweeps[pair] % _SWEEPS_A_PRUNING == 0:
        _prune(averages, pair)


@njit
def _find(averages, pair, source_hash, target_hash):
    """The number of the pair's entry for the rule with these hashes, or -1."""
    for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
        entry = averages.entry[k]
        if entry["source_hash"] == source_hash and entry["target_hash"] == target_hash:
            return k
    return -1


@njit
def add_tree(averages, pair, view, space, scratch):
    """Average over the pair's present derivation too: each of its rules has one use more.

    `space` is a `WalkSpace`, or what has its fields; `scratch` uint8 has room for the largest fragment.
    """
    uses = 0
    depth = begin_walk(view, space)
    while True:
        v, depth = next_rule(view, space, depth)
        if v < 0:
            break
        uses += ONE_USE
        hashes = space.summary[v]["source_hash"], space.summary[v]["target_hash"]
        known = _find(averages, pair, *hashes)
        if known >= 0:
            averages.entry[known]["uses"] += ONE_USE
            continue
        end = encode_fragment(v, view, space.pending, scratch, 0)
        if end >= 0:
            append_entry(averages, pair, hashes, v, ONE_USE, 0, scratch[:end])
    end_sweep(averages, pair, uses)


@njit
def _add_trees(averages, batch, state, due, space, scratch):
    for pair in range(len(due)):
        if due[pair]:
            add_tree(averages, pair, view_pair(batch, state, pair), space, scratch)


def add_trees(averages: Averages, batch: Batch, state: State, due: NDArray[np.bool_]) -> None:
    """Average over the present derivations of the pairs that are due, too; changes the averages in place."""
    _add_trees(averages, batch, state, due, walk_space(batch), np.empty(3 * batch.most_nodes + 3, np.uint8))
