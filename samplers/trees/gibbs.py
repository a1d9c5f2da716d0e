"""The Gibbs sampler over one tree's derivation [CGB09 §4], and over a parse forest's [CFGŠ14 §2].

A sweep takes the nodes in random order. At each node of the present tree it draws the edge, where there are several,
and then the cut; each from its exact conditional given everything else, to the power 1/T while annealing. Variables
off the present tree keep their values, which is a draw that leaves their uniform distribution as it is.
"""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.counts.table import COUNT, add, find
from hierogram.samplers.forests.fragments import key_of
from hierogram.samplers.trees.resampling import (
    CUTS_CHANGED,
    CUTS_SAMPLED,
    EDGES_CHANGED,
    EDGES_SAMPLED,
    add_option,
    head_of,
    lay_out,
    list_option,
    log_mass,
    score_option,
    sum_up,
)


@njit_inline
def sample_cut(v, u, temperature, first_node, view, table, model, space, key_mask):
    """Draw whether v roots a fragment of its own, by P of one joined fragment against two [CGB09 eq. 3 and 4].

    False: a count fell below 0.
    """
    present = np.int64(view.cut[v])
    head = head_of(v, view, space)
    now_high, now_low = key_of(space.summary, head, key_mask)
    now_base = space.below[head]
    steps = 0
    x = np.int64(space.parent[v])
    view.cut[v] = 1 - present
    while True:
        space.saved[steps] = space.summary[x]
        space.saved_below[steps] = space.below[x]
        steps += 1
        sum_up(x, first_node, view, model, space)
        if x == head:
            break
        x = np.int64(space.parent[x])
    high, low = key_of(space.summary, head, key_mask)
    base = space.below[head]
    if present:
        upper_high, upper_low, upper_base = now_high, now_low, now_base
        joined_high, joined_low, joined_base = high, low, base
    else:
        upper_high, upper_low, upper_base = high, low, base
        joined_high, joined_low, joined_base = now_high, now_low, now_base
    lower_high, lower_low = key_of(space.summary, v, key_mask)
    head_label = np.int64(view.node[head]["label"])
    label = np.int64(view.node[v]["label"])
    same = 1 if upper_low == lower_low and upper_high == lower_high else 0
    joined = np.int64(table.rows[find(table.rows, joined_high, joined_low), COUNT]) - (1 - present)
    upper = np.int64(table.rows[find(table.rows, upper_high, upper_low), COUNT]) - present * (1 + same)
    # The lower fragment sees the upper one, which was drawn before it.
    lower = np.int64(table.rows[find(table.rows, lower_high, lower_low), COUNT]) - present
    lower_tokens = np.int64(table.by_length[label]["tokens"]) - present
    if present == 0:
        lower += same
    joined_log = log_mass(joined, model.log_strength[head_label] + joined_base)
    split_log = log_mass(upper, model.log_strength[head_label] + upper_base)
    split_log += log_mass(lower, model.log_strength[label] + space.below[v])
    split_log -= math.log(lower_tokens + model.strength[label])
    choice = 0 if 1.0 / (1.0 + math.exp((split_log - joined_log) / temperature)) > u else 1
    space.registers[CUTS_SAMPLED] += 1
    if choice == present:
        view.cut[v] = present
        x = np.int64(space.parent[v])
        for k in range(steps):
            space.summary[x] = space.saved[k]
            space.below[x] = space.saved_below[k]
            x = np.int64(space.parent[x])
        return True
    space.registers[CUTS_CHANGED] += 1
    change = 1 - 2 * present
    sound = add(table, model, joined_high, joined_low, np.uint64(head_label), -change)
    sound &= add(table, model, upper_high, upper_low, np.uint64(head_label), change)
    sound &= add(table, model, lower_high, lower_low, np.uint64(label), change)
    return sound


@njit
def sample_edge(v, u, temperature, first_node, view, table, model, space, key_mask):
    """Draw the edge of v: an option weighs P of the fragments it leads to, times its density factor [CFGŠ14 eq. 6].

    False: a count fell below 0.
    """
    present = view.edge[v]
    degree = np.int64(view.node[v]["degree"])
    head = v
    if view.cut[v] == 0:
        head = head_of(v, view, space)
    size, _ = list_option(v, head, first_node, view, model, space, key_mask)
    sound = add_option(size, table, model, space, -1)
    most = -np.inf
    for j in range(degree):
        view.edge[v] = j
        size, log_factor = list_option(v, head, first_node, view, model, space, key_mask)
        space.weight[j] = score_option(size, table, model, space) / temperature + log_factor
        most = max(most, space.weight[j])
    total = 0.0
    for j in range(degree):
        total += math.exp(space.weight[j] - most)
        space.weight[j] = total
    choice = 0
    while choice < degree - 1 and space.weight[choice] <= u * total:
        choice += 1
    view.edge[v] = choice
    size, _ = list_option(v, head, first_node, view, model, space, key_mask)
    sound &= add_option(size, table, model, space, 1)
    space.registers[EDGES_SAMPLED] += 1
    if choice != present:
        space.registers[EDGES_CHANGED] += 1
        lay_out(first_node, view, model, space)
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
def sweep_tree(first_node, view, state, temperature, table, model, space, key_mask):
    """One sweep over a tree's nodes in random order; `state` is the tree's random stream.

    False: a count fell below 0.
    """
    nodes = len(view.node)
    lay_out(first_node, view, model, space)
    state = shuffle(state, nodes, space.turn)
    sound = True
    for k in range(nodes):
        v = np.int64(space.turn[k])
        if space.on_tree[v] == 0:
            continue
        if view.node[v]["degree"] > 1:
            state = advance(state)
            sound &= sample_edge(v, uniform(state), temperature, first_node, view, table, model, space, key_mask)
        if view.node[v]["free"]:
            state = advance(state)
            sound &= sample_cut(v, uniform(state), temperature, first_node, view, table, model, space, key_mask)
    return sound
