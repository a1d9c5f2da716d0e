"""One visit to a tree or parse forest: its fragments summed up, and the options of a variable scored.

All of a tree's nodes are summed up when its turn comes, from the leaves up; from then on a change of a variable
makes only the summaries anew that lie between it and the root of its fragment. Counts are read from and written
to the rule table itself, where the place of a rule's length is taken by the label of its root.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.counts.table import COUNT, add, find
from hierogram.samplers.forests.forest import NO_TAIL
from hierogram.samplers.forests.fragments import SUMMARY, compose, key_of, make_summaries, powers_of_base
from hierogram.samplers.trees.models import log_base

ON_TREE, EDGES_SAMPLED, EDGES_CHANGED, CUTS_SAMPLED, CUTS_CHANGED = 0, 1, 2, 3, 4
"""Registers: nodes of the present tree; variables sampled and changed."""


class TreeSpace(NamedTuple):
    """Scratch memory for one visit to a tree of at most n nodes; nothing is allocated during a sweep.

    By node: `summary` SUMMARY[n], `below` float64[n] ln P0 of the fragment below it, `parent` int32[n], `on_tree`
    uint8[n] (1 where the present tree has it). `order` int32[n] the tree's nodes, heads before tails; `turn` int32[n]
    the nodes in the order in which they are sampled; `saved`, `saved_below` a path's summaries; `option` uint64[n+1, 3]
    the fragments of an option: key and root label; `option_base` float64[n+1] their ln P0; `subtree` int32[n];
    `stack` int32[n+1]; `powers` uint64 of the hash's base; `scratch` int64[2, n+1]; `weight` float64[edges];
    `registers` int64[8], names above.
    """

    summary: NDArray[np.void]
    below: NDArray[np.float64]
    parent: NDArray[np.int32]
    on_tree: NDArray[np.uint8]
    order: NDArray[np.int32]
    turn: NDArray[np.int32]
    saved: NDArray[np.void]
    saved_below: NDArray[np.float64]
    option: NDArray[np.uint64]
    option_base: NDArray[np.float64]
    subtree: NDArray[np.int32]
    stack: NDArray[np.int32]
    powers: NDArray[np.uint64]
    scratch: NDArray[np.int64]
    weight: NDArray[np.float64]
    registers: NDArray[np.int64]


def make_tree_space(most_nodes: int, most_edges: int, longest_rule: int) -> TreeSpace:
    """Scratch memory for forests of so many nodes, so many edges a node, and fragments of so many symbols."""
    return TreeSpace(
        make_summaries(most_nodes),
        np.zeros(most_nodes),
        np.zeros(most_nodes, np.int32),
        np.zeros(most_nodes, np.uint8),
        np.zeros(most_nodes, np.int32),
        np.zeros(most_nodes, np.int32),
        np.zeros(most_nodes, SUMMARY),
        np.zeros(most_nodes),
        np.zeros((most_nodes + 1, 3), np.uint64),
        np.zeros(most_nodes + 1),
        np.zeros(most_nodes, np.int32),
        np.zeros(most_nodes + 1, np.int32),
        powers_of_base(longest_rule + 2),
        np.zeros((2, most_nodes + 1), np.int64),
        np.zeros(max(2, most_edges)),
        np.zeros(8, np.int64),
    )


@njit_inline
def sum_up(v, first_node, view, model, space):
    """Make the summary of v, those of its uncut tails being valid."""
    compose(v, view, space.summary, space.powers, space.scratch)
    space.below[v] = log_base(v, first_node, view, model, space.below)


@njit
def lay_out(first_node, view, model, space):
    """Find the present tree of a forest, and sum up the fragments below all of its nodes."""
    root = len(view.node) - 1
    space.on_tree[: root + 1] = 0
    space.stack[0] = root
    space.parent[root] = -1
    depth = 1
    size = 0
    while depth > 0:
        depth -= 1
        v = np.int64(space.stack[depth])
        space.on_tree[v] = 1
        space.order[size] = v
        size += 1
        arity = np.int64(view.node[v]["arity"])
        first = np.int64(view.node[v]["tail_offset"]) + np.int64(view.edge[v]) * arity
        for i in range(arity - 1, -1, -1):
            t = view.tails[first + i]
            if t != NO_TAIL:
                space.stack[depth] = t
                space.parent[t] = v
                depth += 1
    space.registers[ON_TREE] = size
    for k in range(size - 1, -1, -1):
        sum_up(np.int64(space.order[k]), first_node, view, model, space)


@njit_inline
def head_of(v, view, space):
    """The root of the fragment that v, a node other than the root of its tree, is part of or a frontier of."""
    x = np.int64(space.parent[v])
    while view.cut[x] == 0:
        x = np.int64(space.parent[x])
    return x


@njit_inline
def log_mass(count, log_fresh):
    """ln (n + e^log_fresh), also where e^log_fresh underflows and n = 0."""
    if count <= 0:
        return log_fresh
    return math.log(count + math.exp(log_fresh))


@njit
def count_tree(first_node, view, table, model, space, key_mask, change):
    """Add `change` to the count of each fragment of the present tree; False: a count fell below 0."""
    lay_out(first_node, view, model, space)
    root = len(view.node) - 1
    sound = True
    for k in range(space.registers[ON_TREE]):
        v = np.int64(space.order[k])
        if v == root or view.cut[v]:
            high, low = key_of(space.summary, v, key_mask)
            sound &= add(table, model, high, low, np.uint64(view.node[v]["label"]), change)
    return sound


@njit
def add_option(size, table, model, space, change):
    """Add `change` to the counts of the first `size` fragments of the option; False: a count fell below 0."""
    sound = True
    for k in range(size):
        sound &= add(table, model, space.option[k, 0], space.option[k, 1], space.option[k, 2], change)
    return sound


@njit
def list_option(v, head, first_node, view, model, space, key_mask):
    """List the fragments of the tree that v's present edge leads to: that of `head`, and those rooted below v.

    Summaries below v and on the way up to `head` are made anew. Returns (fragments, log_factor): the density factor is
    the product of the numbers of values of the variables of nodes strictly below v [CFGŠ14 eq. 6], natural-log.
    """
    space.subtree[0] = v
    size = 1
    done = 0
    log_factor = 0.0
    while done < size:
        x = np.int64(space.subtree[done])
        done += 1
        if x != v:
            log_factor += math.log(np.float64(np.int64(view.node[x]["degree"]) << np.int64(view.node[x]["free"])))
        arity = np.int64(view.node[x]["arity"])
        first = np.int64(view.node[x]["tail_offset"]) + np.int64(view.edge[x]) * arity
        for i in range(arity):
            t = view.tails[first + i]
            if t == NO_TAIL:
                break
            space.subtree[size] = t
            size += 1
    fragments = 1
    for k in range(size - 1, 0, -1):
        x = np.int64(space.subtree[k])
        sum_up(x, first_node, view, model, space)
        if view.cut[x]:
            high, low = key_of(space.summary, x, key_mask)
            space.option[fragments, 0] = high
            space.option[fragments, 1] = low
            space.option[fragments, 2] = np.uint64(view.node[x]["label"])
            space.option_base[fragments] = space.below[x]
            fragments += 1
    x = v
    sum_up(x, first_node, view, model, space)
    while x != head:
        x = np.int64(space.parent[x])
        sum_up(x, first_node, view, model, space)
    high, low = key_of(space.summary, head, key_mask)
    space.option[0, 0] = high
    space.option[0, 1] = low
    space.option[0, 2] = np.uint64(view.node[head]["label"])
    space.option_base[0] = space.below[head]
    return fragments, log_factor


@njit
def score_option(size, table, model, space):
    """ln ∏ P(fragment | rest and the fragments before it) of the option's first `size` fragments."""
    total = 0.0
    for k in range(size):
        label = np.int64(space.option[k, 2])
        count = np.int64(table.rows[find(table.rows, space.option[k, 0], space.option[k, 1]), COUNT])
        tokens = table.by_length[label]["tokens"]
        for j in range(k):
            if space.option[j, 2] == space.option[k, 2]:
                tokens += 1
                if space.option[j, 0] == space.option[k, 0] and space.option[j, 1] == space.option[k, 1]:
                    count += 1
        total += log_mass(count, model.log_strength[label] + space.option_base[k])
        total -= math.log(tokens + model.strength[label])
    return total
