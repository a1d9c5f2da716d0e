"""The Gibbs sampler over one tree's derivation [CGB09 §4], and over a parse forest's [CFGŠ14 §2].

A sweep takes the nodes in random order. At each node of the present tree it draws the edge, where there are several,
and then the cut; each from its exact conditional given everything else, to the power 1/T while annealing. Variables
off the present tree keep their values, which is a draw that leaves their uniform distribution as it is.

All of a tree's nodes are summed up when its turn comes, from the leaves up; from then on a change of a variable
makes again only the summaries that lie between it and the root of its fragment. Counts are read from and written
to the rule table itself, where the place of a rule's length is taken by the label of its root.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.counts.table import COUNT, RuleTable, add, find
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.forest import PairView, push_tails, tails_of, view_pair
from hierogram.samplers.forests.fragments import SUMMARY, compose, key_of, make_summaries, powers_of_base
from hierogram.samplers.trees.models import TreeModel, log_base

STATISTICS = np.dtype(
    [
        ("edges_sampled", np.int64),
        ("edges_changed", np.int64),
        ("cuts_sampled", np.int64),
        ("cuts_changed", np.int64),
    ]
)
"""Variables sampled and changed."""

FRAGMENT = np.dtype([("high", np.uint64), ("low", np.uint64), ("label", np.uint64), ("log_base", np.float64)])
"""A fragment of an option: key, root label, ln P0."""


class TreeSpace(NamedTuple):
    """Scratch memory for resampling a tree of at most n nodes; nothing is allocated during a sweep.

    By node: `summary` SUMMARY[n], `below` float64[n] ln P0 of the fragment below it, `parent` int32[n], `on_tree`
    uint8[n] (1 where the present tree has it). `order` int32[n] the tree's nodes, heads before tails; `turn` int32[n]
    the nodes in the order in which they are sampled; `saved`, `saved_below` a path's summaries; `option` FRAGMENT[n+1]
    the fragments of an option; `subtree` int32[n]; `stack` int32[n+1]; `powers` uint64 of the hash's base; `scratch`
    int64[2, n+1]; `weight` float64[edges]; `statistics` STATISTICS[1].
    """

    summary: NDArray[np.void]
    below: NDArray[np.float64]
    parent: NDArray[np.int32]
    on_tree: NDArray[np.uint8]
    order: NDArray[np.int32]
    turn: NDArray[np.int32]
    saved: NDArray[np.void]
    saved_below: NDArray[np.float64]
    option: NDArray[np.void]
    subtree: NDArray[np.int32]
    stack: NDArray[np.int32]
    powers: NDArray[np.uint64]
    scratch: NDArray[np.int64]
    weight: NDArray[np.float64]
    statistics: NDArray[np.void]


class TreeResampling(NamedTuple):
    """A tree that is being resampled: its view, its first node's number in the batch, and all that this needs."""

    tree: PairView
    first_node: int
    table: RuleTable
    model: TreeModel
    space: TreeSpace
    key_mask: np.uint64


def tree_space(batch: Batch) -> TreeSpace:
    """The scratch memory for a batch of trees, made once for all sweeps."""
    nodes = batch.most_nodes
    return TreeSpace(
        summary=make_summaries(nodes),
        below=np.zeros(nodes),
        parent=np.zeros(nodes, np.int32),
        on_tree=np.zeros(nodes, np.uint8),
        order=np.zeros(nodes, np.int32),
        turn=np.zeros(nodes, np.int32),
        saved=np.zeros(nodes, SUMMARY),
        saved_below=np.zeros(nodes),
        option=np.zeros(nodes + 1, FRAGMENT),
        subtree=np.zeros(nodes, np.int32),
        stack=np.zeros(nodes + 1, np.int32),
        powers=powers_of_base(batch.longest_rule + 2),
        scratch=np.zeros((2, nodes + 1), np.int64),
        weight=np.zeros(max(2, batch.most_options)),
        statistics=np.zeros(1, STATISTICS),
    )


@njit_inline
def tree_at(batch, state, tree, model, space):
    """A tree of the batch whose turn it is; `state` is of the whole chain."""
    return TreeResampling(
        view_pair(batch, state.derivations, tree),
        batch.forests.node_offset[tree],
        state.table,
        model,
        space,
        batch.words.key_mask,
    )


@njit_inline
def sum_up(v, at):
    """Make the summary of v, those of its uncut tails being valid."""
    space = at.space
    compose(v, at.tree, space.summary, space.powers, space.scratch)
    space.below[v] = log_base(v, at)


@njit
def lay_out(at):
    """Find the present tree of a forest, and sum up the fragments below all of its nodes; how many nodes it has."""
    view, space = at.tree, at.space
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
        above = depth
        depth = push_tails(v, view, space.stack, depth)
        for k in range(above, depth):
            space.parent[space.stack[k]] = v
    for k in range(size - 1, -1, -1):
        sum_up(np.int64(space.order[k]), at)
    return size


@njit_inline
def head_of(v, at):
    """The root of the fragment that v, a node other than the root of its tree, is part of or a frontier of."""
    x = np.int64(at.space.parent[v])
    while at.tree.cut[x] == 0:
        x = np.int64(at.space.parent[x])
    return x


@njit_inline
def log_mass(count, log_fresh):
    """ln (n + e^log_fresh), also where e^log_fresh underflows and n = 0."""
    if count <= 0:
        return log_fresh
    return math.log(count + math.exp(log_fresh))


@njit
def count_tree(at, change):
    """Add `change` to the count of each fragment of the present tree; False: a count fell below 0."""
    view, space = at.tree, at.space
    size = lay_out(at)
    root = len(view.node) - 1
    sound = True
    for k in range(size):
        v = np.int64(space.order[k])
        if v == root or view.cut[v]:
            high, low = key_of(space.summary, v, at.key_mask)
            sound &= add(at.table, at.model, high, low, np.uint64(view.node[v]["label"]), change)
    return sound


@njit
def add_option(size, at, change):
    """Add `change` to the counts of the first `size` fragments of the option; False: a count fell below 0."""
    sound = True
    for k in range(size):
        fragment = at.space.option[k]
        sound &= add(at.table, at.model, fragment["high"], fragment["low"], fragment["label"], change)
    return sound


@njit_inline
def _enter_fragment(k, v, at):
    """Make the fragment that is summed up at v number k of the option."""
    fragment = at.space.option[k]
    high, low = key_of(at.space.summary, v, at.key_mask)
    fragment["high"] = high
    fragment["low"] = low
    fragment["label"] = np.uint64(at.tree.node[v]["label"])
    fragment["log_base"] = at.space.below[v]


@njit
def list_option(v, head, at):
    """List the fragments of the tree that v's present edge leads to: that of `head`, and those rooted below v.

    Summaries below v and on the way up to `head` are made anew. Returns (fragments, log_factor): the density factor is
    the product of the numbers of values of the variables of nodes strictly below v [CFGŠ14 eq. 6], natural-log.
    """
    view, space = at.tree, at.space
    space.subtree[0] = v
    size = 1
    done = 0
    log_factor = 0.0
    while done < size:
        x = np.int64(space.subtree[done])
        done += 1
        if x != v:
            log_factor += math.log(np.float64(np.int64(view.node[x]["degree"]) << np.int64(view.node[x]["free"])))
        first, last = tails_of(x, view)
        for i in range(first, last):
            space.subtree[size] = view.tails[i]
            size += 1
    fragments = 1
    for k in range(size - 1, 0, -1):
        x = np.int64(space.subtree[k])
        sum_up(x, at)
        if view.cut[x]:
            _enter_fragment(fragments, x, at)
            fragments += 1
    x = v
    sum_up(x, at)
    while x != head:
        x = np.int64(space.parent[x])
        sum_up(x, at)
    _enter_fragment(0, head, at)
    return fragments, log_factor


@njit
def score_option(size, at):
    """ln ∏ P(fragment | rest and the fragments before it) of the option's first `size` fragments."""
    table, option, labels = at.table, at.space.option, at.model.labels
    total = 0.0
    for k in range(size):
        fragment = option[k]
        label = np.int64(fragment["label"])
        count = np.int64(table.rows[find(table.rows, fragment["high"], fragment["low"]), COUNT])
        tokens = table.by_length[label]["tokens"]
        for j in range(k):
            if option[j]["label"] == fragment["label"]:
                tokens += 1
                if option[j]["high"] == fragment["high"] and option[j]["low"] == fragment["low"]:
                    count += 1
        total += log_mass(count, labels.log_strength[label] + fragment["log_base"])
        total -= math.log(tokens + labels.strength[label])
    return total


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
    """Return how often a fragment is used in all derivations."""
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
