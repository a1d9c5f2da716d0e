"""Averages: expected rule uses of each pair, with the fragments of these rules.

In a sweep, each rule gets uses by `enter_rule` or in its entry, then `end_sweep` counts the sweep. The mean over sweeps
estimates the expected uses. A fragment is encoded as bytes: the variables of its nodes, top-down in source order, in
the encoding of `hierogram.samplers.forests.derivations`. A node at which another rule begins is encoded as 1.

Uses are in units of 1/`ONE_USE`. Small uses are rounded at random [Duffield, Lund & Thorup 2005]. Entries of rules that
would be rounded to 0 are removed [Manku & Motwani 2002; Metwally, Agrawal & El Abbadi 2005] (docs/model.md, section 4).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import mix
from hierogram.samplers.forests.derivations import (
    Batch,
    State,
    begin_walk,
    get_varint,
    is_valid_value,
    next_rule,
    put_varint,
    walk_space,
)
from hierogram.samplers.forests.forest import push_tails, view_pair
from hierogram.samplers.grammar.numbers import (
    MAX_SWEEPS,
    ONE_USE,
    ROUNDING_DRAWS,
    ROUNDING_STEP,
    SHARED_PERIOD,
    SHARED_ROUNDING_STEP,
)

ENTRY = np.dtype(
    [(name, np.uint64) for name in ("source_hash", "target_hash")]
    + [(name, np.uint32) for name in ("uses", "missed", "start")]
    + [(name, np.uint16) for name in ("size", "root", "shared", "draw")]
)
"""Rule with expected uses in a pair.

`uses`: uses since the entry was added. `missed`: upper bound on earlier uses. Both are sums over sweeps. `start`,
`size`: position and number of the fragment's bytes among the pair's bytes. `root`: root node of the fragment. `shared`:
bit 0 is set if the rule's total count was at least 2 in some sweep of the current period of `SHARED_PERIOD` sweeps, and
bit 1 likewise for the previous period. `draw`: random number below `ROUNDING_DRAWS`, which decides if `uses` are
rounded up or down.
"""

_CHAIN_ERROR = 0.28
"""Measured factor c: m expected uses have squared error c m (1 - min(m, 1)/2) / √T in T sweeps."""
SWEEPS_PER_PRUNING = 16
"""Sweeps between two deletions of the entries whose uses would be rounded to 0."""
BYTES_PER_SLOT = 10
"""Number of bytes in a slot. The fragment of an entry occupies whole slots."""
_SLOTS, _SLOTS_PER_RULE = 16, 4
"""Slots of a pair: `_SLOTS`, plus `_SLOTS_PER_RULE` for each rule that its derivation can have."""


class Averages(NamedTuple):
    """Expected uses in a batch of P pairs, in arrays of fixed size. Uses are sums over sweeps."""

    # ENTRY[slots], int64[P + 1], int64[P]: pair p has the entries `entry[first[p] : first[p] + entry_counts[p]]`.
    entry: NDArray[np.void]
    first: NDArray[np.int64]
    entry_counts: NDArray[np.int64]
    # uint8[bytes]: encoded fragments. Slot k starts at byte `BYTES_PER_SLOT` * k.
    content: NDArray[np.uint8]
    # int64[P]: number of used slots of each pair. Pair p has the slots `first[p]` to `first[p + 1]` - 1.
    slots_used: NDArray[np.int64]
    # int64[P]: number of averaged sweeps of each pair.
    sweeps: NDArray[np.int64]
    # int64[P]: a rule without an entry has had up to `floor` uses plus its threshold at the last pruning.
    floor: NDArray[np.int64]
    # int64[P]: permanent number of each pair.
    pairs: NDArray[np.int64]


def slots_of_pairs(batch: Batch) -> NDArray[np.int64]:
    """Return the number of slots that `empty_averages` allocates for each pair, int64[P]."""
    return _SLOTS + _SLOTS_PER_RULE * np.diff(batch.derivation_rules)


def empty_averages(batch: Batch) -> Averages:
    """Allocate averages of a batch's pairs, with 0 sweeps and no entries."""
    first = np.concatenate(([0], np.cumsum(slots_of_pairs(batch))))
    entry_counts, slots_used, sweeps, floor = (np.zeros(batch.size, np.int64) for _ in range(4))
    content = np.zeros(BYTES_PER_SLOT * int(first[-1]), np.uint8)
    entries = np.zeros(int(first[-1]), ENTRY)
    return Averages(entries, first, entry_counts, content, slots_used, sweeps, floor, batch.pairs)


@njit
def encode_fragment(v, view, stack, content, position):
    """Write the fragment at node v to `content`. Returns the next position, or -1 if out of room."""
    if position + 3 > len(content):
        return -1
    position = put_varint(content, position, 2 * np.int64(view.edge[v]) + 1)
    depth = push_tails(v, view, stack, 0)
    while depth > 0:
        depth -= 1
        x = stack[depth]
        if position + 3 > len(content):
            return -1
        if view.cut[x]:
            position = put_varint(content, position, 1)
        else:
            position = put_varint(content, position, 2 * np.int64(view.edge[x]))
            depth = push_tails(x, view, stack, depth)
    return position


@njit
def decode_fragment(v, view, stack, content, first, last):
    """Set the variables of the fragment at v from bytes [first, last). Returns False on a mismatch."""
    if v < 0 or v >= len(view.node):
        return False
    value, position = get_varint(content, first, last)
    if value < 0 or not value & 1 or value >> 1 >= np.int64(view.node[v]["degree"]):
        return False
    view.edge[v] = value >> 1
    depth = push_tails(v, view, stack, 0)
    while depth > 0:
        depth -= 1
        x = stack[depth]
        value, position = get_varint(content, position, last)
        if not is_valid_value(value, view.node[x]):
            return False
        view.cut[x] = value & 1
        if value & 1:
            if value != 1:
                return False
            continue
        view.edge[x] = value >> 1
        depth = push_tails(x, view, stack, depth)
    return position == last


@njit_inline
def mean_uses(uses, sweeps):
    """Return the mean of summed uses per sweep, rounded to the nearest unit."""
    return (2 * np.int64(uses) + sweeps) // (2 * max(sweeps, 1))


@njit_inline
def draw_of_rule(pair, source_hash, target_hash):
    """Return a random number below `ROUNDING_DRAWS` for a rule and a pair. `pair` is its permanent number."""
    hashed = mix(mix(mix(np.uint64(pair)) + np.uint64(source_hash)) + np.uint64(target_hash))
    return np.int64(hashed % np.uint64(ROUNDING_DRAWS))


@njit_inline
def threshold(step, draw, sweeps):
    """Return the minimum sum of uses over `sweeps` sweeps that is not rounded to 0."""
    # The threshold of the mean is uniform between 0 and the step, so that rounding preserves the expectation.
    return (2 * np.int64(draw) + 1) * step * np.int64(sweeps) // (2 * ROUNDING_DRAWS)


@njit_inline
def round_uses(uses, missed, sweeps, step, draw):
    """Return a rule's expected uses and error variance, in units of 1/`ONE_USE` and 1/`ONE_SQUARE`.

    `uses` and `missed` are sums over `sweeps` averaged sweeps. A mean below the step is rounded to 0, with variance 0,
    or to the step, which adds variance. A third of the possibly missed uses is counted as uses to choose between 0 and
    the step.
    """
    if uses + missed // 3 < threshold(step, draw, sweeps):
        return np.int64(0), np.int64(0)
    mean = mean_uses(uses, sweeps)
    rounded = max(mean, np.int64(step))
    return rounded, error_variance(rounded, sweeps) + rounded * (rounded - mean)


@njit_inline
def error_variance(mean, sweeps):
    """Return the expected squared error (1/`ONE_SQUARE`) of mean uses (1/`ONE_USE`) over sweeps."""
    # The squared error falls only with the square root of the sweeps, because chains mix slowly (docs/model.md).
    root = np.sqrt(max(np.float64(sweeps), 1.0))
    squared_error = _CHAIN_ERROR * np.float64(mean) * (ONE_USE - min(mean, ONE_USE) / 2.0) / root
    return np.int64(squared_error + 0.5)


@njit_inline
def step_of(shared):
    """Return the rounding step of a rule. `shared` is nonzero if other pairs also use the rule."""
    return SHARED_ROUNDING_STEP if shared else ROUNDING_STEP


@njit_inline
def slots_of(size):
    """Return the number of slots of a fragment of `size` bytes."""
    return (np.int64(size) + BYTES_PER_SLOT - 1) // BYTES_PER_SLOT


@njit_inline
def _max_uses(entry):
    return np.int64(entry["uses"]) + np.int64(entry["missed"])


@njit_inline
def _has_room(averages, pair, slots):
    return averages.first[pair] + averages.slots_used[pair] + slots <= averages.first[pair + 1]


@njit
def put_entry(averages, pair, hashes, root, sums, marks, fragment):
    """Append an entry with `sums` (uses, missed) and `marks` (shared, draw). Returns False if out of room."""
    slots = slots_of(len(fragment))
    if not _has_room(averages, pair, slots):
        return False
    entry = averages.entry[averages.first[pair] + averages.entry_counts[pair]]
    start = BYTES_PER_SLOT * averages.slots_used[pair]
    entry["source_hash"] = hashes[0]
    entry["target_hash"] = hashes[1]
    entry["uses"] = sums[0]
    entry["missed"] = sums[1]
    entry["start"] = start
    entry["size"] = len(fragment)
    entry["root"] = root
    entry["shared"] = marks[0]
    entry["draw"] = marks[1]
    position = BYTES_PER_SLOT * averages.first[pair] + start
    for k in range(len(fragment)):
        averages.content[position + k] = fragment[k]
    averages.slots_used[pair] += slots
    averages.entry_counts[pair] += 1
    return True


@njit_inline
def _bound_without_entry(averages, pair, draw):
    """Return an upper bound on the uses of a rule without an entry: floor plus last pruning threshold."""
    # The rule may be shared or not. Use `ROUNDING_STEP`, because the threshold is larger for rules that are not shared.
    pruned = averages.sweeps[pair] // SWEEPS_PER_PRUNING * SWEEPS_PER_PRUNING
    return averages.floor[pair] + threshold(ROUNDING_STEP, draw, pruned)


@njit_inline
def _excess(averages, pair, entry):
    return _max_uses(entry) - _bound_without_entry(averages, pair, entry["draw"])


@njit
def _compact(averages, pair):
    first = averages.first[pair]
    begin = BYTES_PER_SLOT * first
    kept = 0
    filled = 0
    for k in range(averages.entry_counts[pair]):
        entry = averages.entry[first + k]
        if entry["size"] == 0:
            continue
        if kept != k:
            start = BYTES_PER_SLOT * filled
            for byte in range(entry["size"]):
                averages.content[begin + start + byte] = averages.content[begin + entry["start"] + byte]
            entry["start"] = start
            averages.entry[first + kept] = entry
        filled += slots_of(entry["size"])
        kept += 1
    averages.entry_counts[pair] = kept
    averages.slots_used[pair] = filled


@njit
def _prune(averages, pair):
    deleted = False
    for k in range(averages.first[pair], averages.first[pair] + averages.entry_counts[pair]):
        entry = averages.entry[k]
        if _max_uses(entry) < threshold(step_of(entry["shared"]), entry["draw"], averages.sweeps[pair]):
            entry["size"] = 0
            deleted = True
    if deleted:
        _compact(averages, pair)


@njit
def _evict_least_used(averages, pair):
    first = averages.first[pair]
    least, excess = first, _excess(averages, pair, averages.entry[first])
    for k in range(first + 1, first + averages.entry_counts[pair]):
        other = _excess(averages, pair, averages.entry[k])
        if other < excess:
            least, excess = k, other
    averages.floor[pair] += max(excess, 0)
    averages.entry[least]["size"] = 0
    _compact(averages, pair)


@njit
def enter_rule(averages, pair, hashes, root, uses, shared, fragment):
    """Add the first uses of a rule, evicting other entries if needed. Raises the floor if it never fits."""
    slots = slots_of(len(fragment))
    draw = draw_of_rule(averages.pairs[pair], hashes[0], hashes[1])
    while not _has_room(averages, pair, slots) and averages.entry_counts[pair] > 0:
        _evict_least_used(averages, pair)
    missed = _bound_without_entry(averages, pair, draw)
    if not put_entry(averages, pair, hashes, root, (uses, missed), (shared, draw), fragment):
        averages.floor[pair] += uses


@njit
def add_missed_uses(averages, pair, uses):
    """Add uses of unknown rules by raising the upper bound of every rule by `uses`."""
    averages.floor[pair] += uses
    for k in range(averages.first[pair], averages.first[pair] + averages.entry_counts[pair]):
        averages.entry[k]["missed"] += uses


@njit
def _halve(averages, pair):
    """Halve the weight of all past sweeps. Rounds `uses` down, and upper bounds on uses up."""
    averages.sweeps[pair] //= 2
    averages.floor[pair] = (averages.floor[pair] + 1) // 2
    for k in range(averages.first[pair], averages.first[pair] + averages.entry_counts[pair]):
        entry = averages.entry[k]
        most = (_max_uses(entry) + 1) // 2
        entry["uses"] //= 2
        entry["missed"] = most - entry["uses"]


@njit
def end_sweep(averages, pair):
    """Count a sweep after its uses were added. Periodically halves old sweeps and deletes rare rules."""
    averages.sweeps[pair] += 1
    if averages.sweeps[pair] % SHARED_PERIOD == 0:
        # A new period begins, so bit 0 of `shared` becomes bit 1.
        for k in range(averages.first[pair], averages.first[pair] + averages.entry_counts[pair]):
            entry = averages.entry[k]
            entry["shared"] = (entry["shared"] & 1) << 1
    if averages.sweeps[pair] == MAX_SWEEPS:
        _halve(averages, pair)
    if averages.sweeps[pair] % SWEEPS_PER_PRUNING == 0:
        _prune(averages, pair)


@njit
def find_entry(averages, pair, source_hash, target_hash):
    """Return the index in `Averages.entry` of the pair's entry for the rule with these hashes, or -1."""
    for k in range(averages.first[pair], averages.first[pair] + averages.entry_counts[pair]):
        entry = averages.entry[k]
        if entry["source_hash"] == source_hash and entry["target_hash"] == target_hash:
            return k
    return -1


@njit
def add_tree(averages, pair, view, space, fragment):
    """Add one use per rule of the derivation, and end the sweep. `fragment` uint8 is scratch memory."""
    depth = begin_walk(view, space)
    while True:
        v, depth = next_rule(view, space, depth)
        if v < 0:
            break
        hashes = space.summary[v]["source_hash"], space.summary[v]["target_hash"]
        index = find_entry(averages, pair, *hashes)
        if index >= 0:
            averages.entry[index]["uses"] += ONE_USE
            continue
        end = encode_fragment(v, view, space.pending, fragment, 0)
        if end >= 0:
            enter_rule(averages, pair, hashes, v, ONE_USE, 0, fragment[:end])
        else:
            add_missed_uses(averages, pair, ONE_USE)
    end_sweep(averages, pair)


@njit
def _add_trees(averages, batch, state, due, space, fragment):
    for pair in range(len(due)):
        if due[pair]:
            add_tree(averages, pair, view_pair(batch, state, pair), space, fragment)


def add_trees(averages: Averages, batch: Batch, state: State, due: NDArray[np.bool_]) -> None:
    """Add the current derivations of the pairs in `due` bool[P] to their averages, in place."""
    _add_trees(averages, batch, state, due, walk_space(batch), np.empty(3 * batch.max_nodes + 3, np.uint8))
