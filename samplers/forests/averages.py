"""Averages: for each pair, how often it expects to use which rules, with the fragments that make these rules.

A fragment is kept as bytes: the variables of its nodes as `hierogram.samplers.forests.derivations` writes them,
top-down in source order, the number 1 for each node at which another rule begins. Uses are in units of 1/`ONE_USE`.
Rules are let go by [Manku & Motwani 2002] and [Metwally, Agrawal & El Abbadi 2005]; docs/model.md, section 4.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.forests.batch import Batch, State
from hierogram.samplers.forests.derivations import get_number, put_number
from hierogram.samplers.forests.forest import push_tails, view_pair
from hierogram.samplers.forests.walk import begin_walk, next_rule, walk_space
from hierogram.samplers.grammar.numbers import (
    CLASSES,
    LEAST_KEPT,
    LEAST_SHOWN,
    MOST_SWEEPS,
    ONE_USE,
    SHARED_SWEEPS,
    SWEEPS_A_DRAW,
)

ENTRY = np.dtype(
    [
        ("source_hash", np.uint64),
        ("target_hash", np.uint64),
        ("uses", np.uint32),
        ("missed", np.uint32),
        ("start", np.uint32),
        ("size", np.uint16),
        ("root", np.uint16),
        ("shared", np.uint32),
    ]
)
"""A rule that a pair expects to use: hashes of both sides; its uses in the sweeps since it was entered, and the most
that it can have had before; where its fragment lies in the bytes of the pair, how many it has, the node at which it
begins; whether it was used twice at least in a sweep since then: bit 0 of the present `SHARED_SWEEPS`, bit 1 of those
before them."""

SWEEPS_A_PRUNING = 16
BYTES_A_SLOT = 10
_SLOTS, _SLOTS_A_RULE = 16, 4
"""A pair has so many slots, and so many more for each rule that its derivation can have; an entry takes one for each
`BYTES_A_SLOT` bytes of its fragment."""


class Averages(NamedTuple):
    """The expected uses of a batch of P pairs; all that grows has a bound, and is allocated at the start.

    Pair p has the slots `first[p]` to before `first[p + 1]`, of which `filled[p]` are taken. Its entries are
    `first[p]` to `first[p] + taken[p]` of `entry` ENTRY; slot k has the bytes from `BYTES_A_SLOT` k on of `content`
    uint8. `sweeps` are the sweeps that it has averaged over, `total` int64[P, CLASSES] the uses that they had in all,
    by number of nonterminals and also of rules without an entry; a rule without an entry can have had `floor` of them
    at most. Uses are sums over sweeps in units of 1/`ONE_USE`. All others int64[P] or [P + 1].
    """

    entry: NDArray[np.void]
    first: NDArray[np.int64]
    taken: NDArray[np.int64]
    content: NDArray[np.uint8]
    filled: NDArray[np.int64]
    sweeps: NDArray[np.int64]
    total: NDArray[np.int64]
    floor: NDArray[np.int64]


def empty_averages(batch: Batch, slots: NDArray[np.int64] | None = None) -> Averages:
    """Nothing averaged yet; `slots` int64[P] of the pairs, where not as many as they should have."""
    if slots is None:
        slots = _SLOTS + _SLOTS_A_RULE * np.diff(batch.derivation_rules)
    first = np.concatenate(([0], np.cumsum(slots)))
    taken, filled, sweeps, floor = (np.zeros(batch.size, np.int64) for _ in range(4))
    total = np.zeros((batch.size, CLASSES), np.int64)
    content = np.zeros(BYTES_A_SLOT * int(first[-1]), np.uint8)
    return Averages(np.zeros(int(first[-1]), ENTRY), first, taken, content, filled, sweeps, total, floor)


_NONE = np.zeros(0, np.int64)
NO_AVERAGES = Averages(
    np.zeros(0, ENTRY), np.zeros(1, np.int64), _NONE, np.zeros(0, np.uint8), _NONE, _NONE,
    np.zeros((0, CLASSES), np.int64), _NONE,
)  # fmt: skip
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
            if value != 1:
                return False
            continue
        if not view.node[x]["free"]:
            return False
        view.edge[x] = value >> 1
        depth = push_tails(x, view, stack, depth)
    return position == last


@njit_inline
def mean_uses(uses, sweeps):
    """Uses a sweep, rounded to the next whole unit."""
    return (2 * np.int64(uses) + sweeps) // (2 * max(sweeps, 1))


@njit_inline
def expected_uses(uses, sweeps, shared):
    """Return what an entry counts for, in units of 1/`ONE_USE`; 0 where it is not counted."""
    mean = mean_uses(uses, sweeps)
    return mean if mean >= (LEAST_KEPT if shared else LEAST_SHOWN) else 0


@njit_inline
def error_variance(mean, sweeps):
    """Squared Monte-Carlo standard error of a pair's expected uses, in units of 1/`ONE_SQUARE`, rounded to the next."""
    return (SWEEPS_A_DRAW * mean * (2 * ONE_USE - min(mean, ONE_USE)) + sweeps) // (2 * max(sweeps, 1))


@njit_inline
def class_of(nonterminals):
    """The class of a rule with so many nonterminals."""
    return min(np.int64(nonterminals), CLASSES - 1)


@njit_inline
def _slots_of(size):
    return (np.int64(size) + BYTES_A_SLOT - 1) // BYTES_A_SLOT


@njit_inline
def _most_uses(entry):
    """The most uses that an entry's rule can have had, those before it was entered included."""
    return np.int64(entry["uses"]) + np.int64(entry["missed"])


@njit_inline
def _has_room(averages, pair, slots):
    return averages.first[pair] + averages.filled[pair] + slots <= averages.first[pair + 1]


@njit
def put_entry(averages, pair, hashes, root, sums, shared, fragment):
    """One more entry, `sums` its uses and those that it may have missed, `fragment` uint8; whether it has room."""
    slots = _slots_of(len(fragment))
    if not _has_room(averages, pair, slots):
        return False
    entry = averages.entry[averages.first[pair] + averages.taken[pair]]
    start = BYTES_A_SLOT * averages.filled[pair]
    entry["source_hash"] = hashes[0]
    entry["target_hash"] = hashes[1]
    entry["uses"] = sums[0]
    entry["missed"] = sums[1]
    entry["start"] = start
    entry["size"] = len(fragment)
    entry["root"] = root
    entry["shared"] = shared
    position = BYTES_A_SLOT * averages.first[pair] + start
    for k in range(len(fragment)):
        averages.content[position + k] = fragment[k]
    averages.filled[pair] += slots
    averages.taken[pair] += 1
    return True


@njit_inline
def _let_go(averages, pair, entry):
    """Mark an entry as gone; what its rule can have had, any rule without an entry can have had from now on."""
    averages.floor[pair] = max(averages.floor[pair], _most_uses(entry))
    entry["size"] = 0


@njit
def _close_up(averages, pair):
    """Move the entries together that are not gone."""
    first = averages.first[pair]
    begin = BYTES_A_SLOT * first
    kept = 0
    filled = 0
    for k in range(averages.taken[pair]):
        entry = averages.entry[first + k]
        if entry["size"] == 0:
            continue
        if kept != k:
            start = BYTES_A_SLOT * filled
            for byte in range(entry["size"]):
                averages.content[begin + start + byte] = averages.content[begin + entry["start"] + byte]
            entry["start"] = start
            averages.entry[first + kept] = entry
        filled += _slots_of(entry["size"])
        kept += 1
    averages.taken[pair] = kept
    averages.filled[pair] = filled


@njit
def _prune(averages, pair):
    """Let go of the entries that could be counted no longer, whatever their rules had before they were entered."""
    least = LEAST_KEPT * averages.sweeps[pair]
    gone = False
    for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
        entry = averages.entry[k]
        if _most_uses(entry) < least:
            _let_go(averages, pair, entry)
            gone = True
    if gone:
        _close_up(averages, pair)


@njit
def _let_go_of_least(averages, pair):
    """Let go of the first entry whose rule can have had the fewest uses."""
    first = averages.first[pair]
    least = first
    for k in range(first + 1, first + averages.taken[pair]):
        if _most_uses(averages.entry[k]) < _most_uses(averages.entry[least]):
            least = k
    _let_go(averages, pair, averages.entry[least])
    _close_up(averages, pair)


@njit
def enter_rule(averages, pair, hashes, root, uses, shared, fragment):
    """Enter a rule with its first uses; where there is no room, in the place of those with the fewest uses.

    It can have had before what any rule without an entry can have had.
    """
    slots = _slots_of(len(fragment))
    if not _has_room(averages, pair, slots):
        _prune(averages, pair)
    while not _has_room(averages, pair, slots) and averages.taken[pair] > 0:
        _let_go_of_least(averages, pair)
    if not put_entry(averages, pair, hashes, root, (uses, averages.floor[pair]), shared, fragment):
        averages.floor[pair] += uses


@njit
def lose_uses(averages, pair, uses):
    """Note that so many uses were credited to rules that are not known: each rule can have had them."""
    averages.floor[pair] += uses
    for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
        averages.entry[k]["missed"] += uses


@njit
def _halve(averages, pair):
    """Let a sweep so far weigh half of one to come; what rules have at least is rounded down, at most up."""
    averages.sweeps[pair] //= 2
    averages.floor[pair] = (averages.floor[pair] + 1) // 2
    for k in range(CLASSES):
        averages.total[pair, k] = (averages.total[pair, k] + 1) // 2
    for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
        entry = averages.entry[k]
        most = (_most_uses(entry) + 1) // 2
        entry["uses"] //= 2
        entry["missed"] = most - entry["uses"]


@njit
def _turn_shared(averages, pair):
    """Begin other `SHARED_SWEEPS`: forget who used a rule before the last ones."""
    for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
        entry = averages.entry[k]
        entry["shared"] = (entry["shared"] & 1) << 1


@njit
def end_sweep(averages, pair):
    """Count one more sweep of a pair, whose uses are in its total; forget what is long ago, let go of what is rare."""
    averages.sweeps[pair] += 1
    if averages.sweeps[pair] % SHARED_SWEEPS == 0:
        _turn_shared(averages, pair)
    if averages.sweeps[pair] == MOST_SWEEPS:
        _halve(averages, pair)
    if averages.sweeps[pair] % SWEEPS_A_PRUNING == 0:
        _prune(averages, pair)


@njit
def find_entry(averages, pair, source_hash, target_hash):
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
    depth = begin_walk(view, space)
    while True:
        v, depth = next_rule(view, space, depth)
        if v < 0:
            break
        averages.total[pair, class_of(space.summary[v]["nonterminals"])] += ONE_USE
        hashes = space.summary[v]["source_hash"], space.summary[v]["target_hash"]
        known = find_entry(averages, pair, *hashes)
        if known >= 0:
            averages.entry[known]["uses"] += ONE_USE
            continue
        end = encode_fragment(v, view, space.pending, scratch, 0)
        if end >= 0:
            enter_rule(averages, pair, hashes, v, ONE_USE, 0, scratch[:end])
        else:
            lose_uses(averages, pair, ONE_USE)
    end_sweep(averages, pair)


@njit
def _add_trees(averages, batch, state, due, space, scratch):
    for pair in range(len(due)):
        if due[pair]:
            add_tree(averages, pair, view_pair(batch, state, pair), space, scratch)


def add_trees(averages: Averages, batch: Batch, state: State, due: NDArray[np.bool_]) -> None:
    """Average over the present derivations of the pairs that are due, too; changes the averages in place."""
    _add_trees(averages, batch, state, due, walk_space(batch), np.empty(3 * batch.most_nodes + 3, np.uint8))
