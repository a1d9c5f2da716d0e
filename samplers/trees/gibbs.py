"""The Gibbs sampler over one tree's derivation [CGB09 §4], and over a parse forest's [CFGŠ14 §2].

A sweep takes the nodes in random order. At each node of the present tree it draws the edge, where there are several,
and then the cut; each from its exact conditional given everything else, to the power 1/T while annealing. Variables
off the present tree keep their values, which is a draw that leaves their uniform distribution as it is.
"""

import math
from typing import NamedTuple

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.counts.table import COUNT, add, find
from hierogram.samplers.forests.fragments import key_of
from hierogram.samplers.trees.resampling import (
    add_option,
    head_of,
    lay_out,
    list_option,
    log_mass,
    score_option,
    sum_up,
)


class Fragment(NamedTuple):
    """A fragment at a cut: key, root label, ln P0."""

    high: np.uint64
    low: np.uint64
    label: int
    log_base: float


@njit_inline
def _fragment_at(v, at):
    """The fragment summed up at v."""
    high, low = key_of(at.space.summary, v, at.key_mask)
    return Fragment(high, low, np.int64(at.tree.node[v]["label"]), at.space.below[v])


@njit_inline
def _count_of(fragment, table):
    """How often a fragment is used in all derivations."""
    return np.int64(table.rows[find(table.rows, fragment.high, fragment.low), COUNT])


@njit_inline
def _add_fragment(fragment, at, change):
    """Add `change` to a fragment's count; False: it fell below 0."""
    return add(at.table, at.model, fragment.high, fragment.low, np.uint64(fragment.label), change)


@njit_inline
def _sum_up_to(v, head, at):
    """Make the summaries anew above v up to and with `head`, and save the old ones; how many there are."""
    space = at.space
    steps = 0
    x = np.int64(space.parent[v])
    while True:
        space.saved[steps] = space.summary[x]
        space.saved_below[steps] = space.below[x]
        steps += 1
        sum_up(x, at)
        if x == head:
            return steps
        x = np.int64(space.parent[x])


@njit_inline
def _restore(v, steps, space):
    """Put the summaries back that `_sum_up_to` saved."""
    x = np.int64(space.parent[v])
    for k in range(steps):
        space.summary[x] = space.saved[k]
        space.below[x] = space.saved_below[k]
        x = np.int64(space.parent[x])


@njit_inline
def _log_odds(joined, upper, lower, present, at):
    """ln of P of the upper and the lower fragment over P of the joined one, the present ones being taken out."""
    labels, table = at.model.labels, at.table
    same = 1 if upper.low == lower.low and upper.high == lower.high else 0
    joined_count = _count_of(joined, table) - (1 - present)
    upper_count = _count_of(upper, table) - present * (1 + same)
    # The lower fragment sees the upper one, which was drawn before it.
    lower_count = _count_of(lower, table) - present
    lower_tokens = np.int64(table.by_length[lower.label]["tokens"]) - present
    if present == 0:
        lower_count += same
    joined_log = log_mass(joined_count, labels.log_strength[joined.label] + joined.log_base)
    split_log = log_mass(upper_count, labels.log_strength[upper.label] + upper.log_base)
    split_log += log_mass(lower_count, labels.log_strength[lower.label] + lower.log_base)
    split_log -= math.log(lower_tokens + labels.strength[lower.label])
    return split_log - joined_log


@njit_inline
def sample_cut(v, u, temperature, at):
    """Draw whether v roots a fragment of its own, by P of one joined fragment against two [CGB09 eq. 3 and 4].

    False: a count fell below 0.
    """
    view, space = at.tree, at.space
    present = np.int64(view.cut[v])
    head = head_of(v, at)
    now = _fragment_at(head, at)
    view.cut[v] = 1 - present
    steps = _sum_up_to(v, head, at)
    other = _fragment_at(head, at)
    lower = _fragment_at(v, at)
    upper, joined = (now, other) if present else (other, now)
    log_odds = _log_odds(joined, upper, lower, present, at)
    choice = 0 if 1.0 / (1.0 + math.exp(log_odds / temperature)) > u else 1
    space.statistics[0]["cuts_sampled"] += 1
    if choice == present:
        view.cut[v] = present
        _restore(v, steps, space)
        return True
    space.statistics[0]["cuts_changed"] += 1
    change = 1 - 2 * present
    sound = _add_fragment(joined, at, -change)
    sound &= _add_fragment(upper, at, change)
    sound &= _add_fragment(lower, at, change)
    return sound


@njit
def _draw(log_weights, size, u):
    """The first option whose cumulated weight exceeds u of the sum; the weights are overwritten."""
    most = -np.inf
    for j in range(size):
        most = max(most, log_weights[j])
    total = 0.0
    for j in range(size):
        total += math.exp(log_weights[j] - most)
        log_weights[j] = total
    choice = 0
    while choice < size - 1 and log_weights[choice] <= u * total:
        choice += 1
    return choice


@njit
def sample_edge(v, u, temperature, at):
    """Draw the edge of v: an option weighs P of the fragments it leads to, times its density factor [CFGŠ14 eq. 6].

    False: a count fell below 0.
    """
    view, space = at.tree, at.space
    present = view.edge[v]
    degree = np.int64(view.node[v]["degree"])
    head = v if view.cut[v] else head_of(v, at)
    size, _ = list_option(v, head, at)
    sound = add_option(size, at, -1)
    for j in range(degree):
        view.edge[v] = j
        size, log_factor = list_option(v, head, at)
        space.weight[j] = score_option(size, at) / temperature + log_factor
    choice = _draw(space.weight, degree, u)
    view.edge[v] = choice
    size, _ = list_option(v, head, at)
    sound &= add_option(size, at, 1)
    space.statistics[0]["edges_sampled"] += 1
    if choice != present:
        space.statistics[0]["edges_changed"] += 1
        lay_out(at)
    return sound


@njit
def shuffle(state, size, turn):
    """Fill `turn` with 0..size-1 in random order; returns the stream's state."""
    for k in range(size):
        turn[k] = k
    for k in range(size - 1, 0, -1):
        state = advance(state)
        j = np.int64(uniform(state) * (k + 1))
        turn[k], turn[j] = turn[j], turn[k]
    return state


@njit
def sweep_tree(at, random, temperature):
    """One sweep over a tree's nodes in random order; `random` is the tree's stream.

    False: a count fell below 0.
    """
    view, space = at.tree, at.space
    nodes = len(view.node)
    lay_out(at)
    random = shuffle(random, nodes, space.turn)
    sound = True
    for k in range(nodes):
        v = np.int64(space.turn[k])
        if space.on_tree[v] == 0:
            continue
        if view.node[v]["degree"] > 1:
            random = advance(random)
            sound &= sample_edge(v, uniform(random), temperature, at)
        if view.node[v]["free"]:
            random = advance(random)
            sound &= sample_cut(v, uniform(random), temperature, at)
    return sound
