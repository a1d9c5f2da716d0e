"""Batches of pairs and their derivations: variables, walks over the rules, and encoding as bytes.

The variables (edge, cut) of a node are encoded as 2·edge + cut in a LEB128 varint. An encoded state has all nodes in
order, so that sampling can resume exactly.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.forest import Bitext, Forests, push_tails, tail_range
from hierogram.samplers.forests.fragments import WordHashes, base_powers, compose, make_summaries
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.settings import CUT, JOINED, RANDOM, STARTS


class State(NamedTuple):
    """Variables of N nodes: chosen incoming `edge` uint16[N], and `cut` uint8[N], 1 if a rule begins."""

    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]

    def copy(self) -> "State":
        """Return a copy with its own arrays."""
        return State(self.edge.copy(), self.cut.copy())


class Batch(NamedTuple):
    """P pairs that are sampled together: their words, their forests, and bounds on array sizes."""

    bitext: Bitext
    word_hashes: WordHashes
    forests: Forests
    # int64[P]: permanent number of each pair, which is part of the keys of its random streams. In other places, a pair
    # is identified by its index in the batch.
    pairs: NDArray[np.int64]
    # uint64[P]: capacity - 1 of each pair's hash table of rules.
    slot_masks: NDArray[np.uint64]
    # int64[P+1]: cumulative sum of the maximum number of rules in a derivation of each pair, from 0.
    derivation_rules: NDArray[np.int64]
    # Maximum numbers of nodes of a pair, of its distinct rules in a sweep, of edges of a node, and of items in the rule
    # lists of a pair's nodes.
    max_nodes: int
    max_rules: int
    max_options: int
    max_listed: int
    # Upper bound on the length of a rule.
    longest_rule: int

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.pairs)


@njit
def _bound_rules(forests, distinct_rules, derivation_rules):
    """Bound each pair's distinct rules, and write `Batch.derivation_rules`. Returns `Batch.max_listed`."""
    max_listed = 1
    for pair in range(len(distinct_rules)):
        listed, bound = 0, 16
        for node in range(forests.node_offset[pair], forests.node_offset[pair + 1]):
            listed += np.int64(forests.node[node]["level"])
            # A node adds its own rule, two rules for its cut, and one rule for each edge. The edges of nodes that are
            # always cut need no room of their own, because a sweep visits only those in one derivation.
            bound += 4
            if forests.node[node]["free"]:
                bound += np.int64(forests.node[node]["degree"])
        max_listed = max(max_listed, listed)
        distinct_rules[pair] = bound
        last = forests.node_offset[pair + 1]
        derivation_rules[pair + 1] = derivation_rules[pair] + np.int64(forests.node[last - 1]["level"])
    return max_listed


def make_batch(
    bitext: Bitext, word_hashes: WordHashes, forests: Forests, pairs: NDArray[np.int64], longest_rule: int
) -> Batch:
    """Return a batch, with the array sizes that its forests require. See `Batch` for the arguments."""
    distinct_rules = np.empty(forests.pairs, np.int64)
    derivation_rules = np.zeros(forests.pairs + 1, np.int64)
    max_listed = _bound_rules(forests, distinct_rules, derivation_rules)
    slot_masks = np.array([capacity_for(n, 1) - 1 for n in distinct_rules.tolist()], np.uint64)
    return Batch(
        bitext,
        word_hashes,
        forests,
        np.asarray(pairs, np.int64),
        slot_masks,
        derivation_rules,
        max_nodes=int(np.diff(forests.node_offset).max(initial=1)),
        max_rules=int(distinct_rules.max(initial=16)),
        max_options=int(forests.node["degree"].max(initial=2)),
        max_listed=int(max_listed),
        longest_rule=longest_rule,
    )


@njit
def _draw_initial(key, batch, by_coin, state):
    node = batch.forests.node
    for pair in range(len(batch.pairs)):
        stream_state = stream(key, batch.pairs[pair], 0)
        for v in range(batch.forests.node_offset[pair], batch.forests.node_offset[pair + 1]):
            if node[v]["degree"] > 1:
                stream_state = advance(stream_state)
                state.edge[v] = np.int64(uniform(stream_state) * np.float64(node[v]["degree"]))
            if node[v]["free"] and by_coin:
                stream_state = advance(stream_state)
                state.cut[v] = 1 if uniform(stream_state) < 0.5 else 0


def initial_state(key: int, batch: Batch, start: str = CUT) -> State:
    """Return random edges, and cuts by `start` in `STARTS` [CFGŠ14 §5.4.2], or raise `ValueError`."""
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}, got {start!r}")
    state = minimal_state(batch.forests)
    if start == JOINED:
        state.cut[batch.forests.node["free"] == 1] = 0
    _draw_initial(key, batch, start == RANDOM, state)
    return state


REGISTERS = np.dtype([("epoch", np.int64)])
"""`epoch`: number of the current walk. Summaries from other walks are invalid.

Callers that change variables without `begin_walk` must add 1 to it before they call `make_summary`.
"""


class WalkSpace(NamedTuple):
    """Scratch memory for walks over derivations of up to n nodes."""

    # SUMMARY[n+1]: summary of each node.
    summary: NDArray[np.void]
    # int32[n+1]: stacks of nodes. `next_rule` uses `stack` during a walk, and `make_summary` overwrites `pending`.
    stack: NDArray[np.int32]
    walk: NDArray[np.int32]
    pending: NDArray[np.int32]
    # uint64[longest rule + 3]: powers of the hash base.
    powers: NDArray[np.uint64]
    # int64[2, n+1], REGISTERS[1]: scratch memory of `compose`, and number of the current walk.
    scratch: NDArray[np.int64]
    registers: NDArray[np.void]


def walk_space(batch: Batch) -> WalkSpace:
    """Return scratch memory for walks over a batch's derivations."""
    nodes = batch.max_nodes
    stack, walk, pending = np.zeros((3, nodes + 1), np.int32)
    powers, scratch = base_powers(batch.longest_rule + 2), np.zeros((2, nodes + 1), np.int64)
    return WalkSpace(make_summaries(nodes), stack, walk, pending, powers, scratch, np.zeros(1, REGISTERS))


@njit
def make_summary(v, view, work):
    """Compute the summaries of v and of the uncut nodes of its rule, if not valid in the current walk."""
    epoch = np.uint32(work.registers[0]["epoch"])
    if work.summary[v]["epoch"] == epoch:
        return
    work.pending[0] = v
    depth = 1
    while depth > 0:
        x = np.int64(work.pending[depth - 1])
        first, last = tail_range(x, view)
        above = depth
        for i in range(first, last):
            t = view.tails[i]
            if view.cut[t] == 0 and work.summary[t]["epoch"] != epoch:
                work.pending[depth] = t
                depth += 1
        if depth == above:
            compose(x, view, work.summary, work.powers, work.scratch)
            work.summary[x]["epoch"] = epoch
            depth -= 1


@njit_inline
def begin_walk(view, work):
    """Start a walk from the root. Invalidates earlier summaries. Returns the stack depth for `next_rule`."""
    work.registers[0]["epoch"] += 1
    work.stack[0] = len(view.node) - 1
    return 1


@njit_inline
def next_rule(view, work, depth):
    """Return (root node of the next rule or -1, new stack depth). Computes the root's summary."""
    root = len(view.node) - 1
    while depth > 0:
        depth -= 1
        v = np.int64(work.stack[depth])
        depth = push_tails(v, view, work.stack, depth)
        if v == root or view.cut[v]:
            make_summary(v, view, work)
            return v, depth
    return np.int64(-1), depth


_MORE = 0x80
_MAX_BITS = 56


@njit
def put_varint(buffer, position, value):
    """Write a nonnegative number as a LEB128 varint. Returns the position after it."""
    while value >= _MORE:
        buffer[position] = (value & 0x7F) | _MORE
        value >>= 7
        position += 1
    buffer[position] = value
    return position + 1


@njit
def get_varint(buffer, position, end):
    """Return the varint at `position` and the position after it. An invalid varint has the value -1."""
    value = 0
    shift = 0
    while position < end and shift < _MAX_BITS:
        byte = np.int64(buffer[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value if byte > 0 or shift == 0 else -1, position
        shift += 7
    return -1, position


@njit
def same_slices(first, a, a_end, second, b, b_end):
    """Check if `first[a:a_end]` equals `second[b:b_end]`."""
    if a_end - a != b_end - b:
        return False
    while a < a_end and first[a] == second[b]:
        a += 1
        b += 1
    return a == a_end


@njit_inline
def is_valid_value(value, node):
    """Check if `value`, 2·edge + cut, is valid for a node, which is a NODE record."""
    # A node that is not free, such as the root, must be cut, because samplers search upward for the next cut node.
    return 0 <= value < 2 * np.int64(node["degree"]) and (value & 1 == 1 or node["free"] == 1)


@njit_allocating
def encode_states(forests: Forests, state: State) -> Blobs:
    """Encode the variables of each pair as a byte string. Inverse of `decode_states`."""
    offsets = np.zeros(len(forests.node_offset), np.int64)
    content = np.empty(3 * len(forests.node), np.uint8)
    position = 0
    for pair in range(len(forests.node_offset) - 1):
        for v in range(forests.node_offset[pair], forests.node_offset[pair + 1]):
            position = put_varint(content, position, 2 * np.int64(state.edge[v]) + np.int64(state.cut[v]))
        offsets[pair + 1] = position
    return Blobs(content[:position].copy(), offsets)


@njit
def _decode_states(forests, blobs, state, mismatched):
    for pair in range(len(forests.node_offset) - 1):
        position = blobs.offsets[pair]
        end = blobs.offsets[pair + 1]
        v = forests.node_offset[pair]
        last = forests.node_offset[pair + 1]
        while v < last:
            value, position = get_varint(blobs.content, position, end)
            if not is_valid_value(value, forests.node[v]):
                break
            state.edge[v] = value >> 1
            state.cut[v] = value & 1
            v += 1
        mismatched[pair] = v < last or position != end


def decode_states(forests: Forests, blobs: Blobs) -> State:
    """Decode the output of `encode_states`. Raises `DerivationError` if bytes do not match their forest."""
    state = empty_state(forests)
    mismatched = np.zeros(forests.pairs, np.bool_)
    _decode_states(forests, blobs, state, mismatched)
    if mismatched.any():
        raise mismatch_error("derivation", "does not match its forest", np.flatnonzero(mismatched).tolist())
    return state


def mismatch_error(data: str, reason: str, pairs: Sequence[int]) -> DerivationError:
    """Return the error for invalid `data` of pairs with these indices. The message names the first pair."""
    return DerivationError(f"the {data} of pair number {pairs[0]} of the batch {reason}", pairs, f"its {data} {reason}")


def empty_state(forests: Forests) -> State:
    """Return a state with all variables 0: first edges, no cuts. Decoders and compositions overwrite it."""
    return State(np.zeros(forests.nodes, np.uint16), np.zeros(forests.nodes, np.uint8))


def minimal_state(forests: Forests) -> State:
    """Return the state of minimal derivations: all nodes cut, with their first edges."""
    return State(np.zeros(forests.nodes, np.uint16), np.ones(forests.nodes, np.uint8))
