"""Initial derivations without phrases [BC10 §3]: left-branching (LB), by Model 1 (M1), by links (M4).

Left-branching derivations pair words in order. M1 draws a derivation with Model 1 as weights. M4 follows given links.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_allocating
from hierogram.samplers.compiled.streams import advance, stream, uniform
from hierogram.samplers.itg.batch import BINARY_TYPES, first_pair_rule
from hierogram.samplers.itg.derivations import INVERTED, PAIR, SOURCE_NULL, STRAIGHT, TARGET_NULL
from hierogram.samplers.itg.slices import NO_ROOM, draw_from_emissions

LEFT_BRANCHING, MODEL1 = "lb", "m1"
"""Names of starts. M4 has no name, because links are given instead."""

_BEAM = 3.0
"""Maximum distance of links from the diagonal for M1, in words of the longer side."""
_STRAIGHT_WEIGHT, _INVERTED_WEIGHT, _NULL_FACTOR = 0.8, 0.2, 0.01
"""Weights of rules with children for M1, and factor of null emissions."""


@njit
def _start_left_branching(n, m, rules, stream_state):
    """Write a left-branching derivation with random nulls on the longer side. Returns its length."""
    longer, shorter = max(n, m), min(n, m)
    nulls = longer - shorter
    for k in range(longer - 1):
        rules[k] = STRAIGHT
    for k in range(longer):
        stream_state = advance(stream_state)
        if uniform(stream_state) * (longer - k) < nulls:
            nulls -= 1
            rules[longer - 1 + k] = SOURCE_NULL if n > m else TARGET_NULL
        else:
            rules[longer - 1 + k] = PAIR
    return 2 * longer - 1


@njit
def _weigh_by_model1(batch, pair, base, weights):
    """Set `weights` for M1, which allows word pairs near the diagonal and nulls of the longer side."""
    s, t = batch.source_offset[pair], batch.target_offset[pair]
    n, m = batch.source_offset[pair + 1] - s, batch.target_offset[pair + 1] - t
    cell = batch.cell_offset[pair]
    longer = max(n, m)
    for i in range(n):
        for x in range(m):
            near_diagonal = abs((i + 0.5) / n - (x + 0.5) / m) * longer <= _BEAM
            weights.pairs[i, x] = 0.0
            weights.pairs[i, x, 0] = base.lexical[first_pair_rule(batch) + batch.types[cell]] if near_diagonal else 0.0
            cell += 1
        weights.source_nulls[i] = _NULL_FACTOR * base.lexical[BINARY_TYPES + batch.source[s + i]] if n > m else 0.0
    for x in range(m):
        number = BINARY_TYPES + batch.source_words + batch.target[t + x]
        weights.target_nulls[x] = _NULL_FACTOR * base.lexical[number] if m > n else 0.0
    weights.rules[STRAIGHT], weights.rules[INVERTED] = _STRAIGHT_WEIGHT, _INVERTED_WEIGHT


@njit
def _reduce(ranks, n, stack, tree):
    """Build trees of links by shift-reduce parsing [Zhang et al. 2006].

    Returns the number of trees on the stack. It is 1 if the links have an ITG derivation. `ranks` int32[n] has the
    target rank of each source word, as from `_rank`. A row of `stack` int32[n, 5] has source words [i, j), ranks [x, y)
    and the root node of a tree. A row of `tree` int32[2n, 3] has rule, left child and right child. The first n nodes
    are source words, and internal nodes follow.
    """
    depth = 0
    nodes = n
    for i in range(n):
        if ranks[i] < 0:
            continue
        stack[depth, 0], stack[depth, 1], stack[depth, 4] = i, i + 1, i
        stack[depth, 2], stack[depth, 3] = ranks[i], ranks[i] + 1
        depth += 1
        while depth > 1:
            left, right = stack[depth - 2], stack[depth - 1]
            if left[3] == right[2]:
                tree[nodes, 0] = STRAIGHT
            elif right[3] == left[2]:
                tree[nodes, 0] = INVERTED
            else:
                break
            tree[nodes, 1], tree[nodes, 2] = left[4], right[4]
            left[1], left[4] = right[1], nodes
            left[2], left[3] = min(left[2], right[2]), max(left[3], right[3])
            nodes += 1
            depth -= 1
    return depth


@njit
def _rank(links, n, m, ranks):
    number = 0
    ranks[:n] = -1
    for x in range(m):
        for i in range(n):
            if links[i] == x:
                ranks[i] = number
                number += 1
    return number


@njit
def _write_leaf(links, ranks, i, size, rules, length):
    """Write the rules of linked source word i and adjacent unlinked words. Returns the new length."""
    n, m = size
    before, after = i, 0
    for k in range(i):
        if links[k] >= 0:
            before = 0
    while i + after + 1 < n and links[i + after + 1] < 0:
        after += 1
    above = links[i] if ranks[i] == 0 else 0
    below = m - links[i] - 1
    for other in range(n):
        if ranks[other] == ranks[i] + 1:
            below = links[other] - links[i] - 1
    leaves = before + after + above + below + 1
    for _ in range(leaves - 1):
        rules[length] = STRAIGHT
        length += 1
    for nulls, rule in (
        (before, SOURCE_NULL),
        (above, TARGET_NULL),
        (1, PAIR),
        (after, SOURCE_NULL),
        (below, TARGET_NULL),
    ):
        for _ in range(nulls):
            rules[length] = rule
            length += 1
    return length


@njit_allocating
def _start_from_links(links, n, m, rules, stream_state):
    """Write the M4 derivation of one-to-one `links`, int32[n]: target positions or -1. Returns its length.

    As long as the links have no ITG derivation, the links of the smallest tree are dropped from `links`. Without links,
    the derivation is left-branching.
    """
    stack, tree = np.zeros((n, 5), np.int32), np.zeros((2 * n, 3), np.int32)
    ranks, pending = np.zeros(n, np.int32), np.zeros(2 * n, np.int32)
    while True:
        number = _rank(links, n, m, ranks)
        if number == 0:
            return _start_left_branching(n, m, rules, stream_state)
        depth = _reduce(ranks, n, stack, tree)
        if depth == 1:
            break
        least = 0
        for k in range(1, depth):
            if stack[k, 3] - stack[k, 2] < stack[least, 3] - stack[least, 2]:
                least = k
        for i in range(stack[least, 0], stack[least, 1]):
            links[i] = -1
    pending[0] = stack[0, 4]
    waiting, length = 1, 0
    while waiting > 0:
        waiting -= 1
        node = pending[waiting]
        if node < n:
            length = _write_leaf(links, ranks, node, (n, m), rules, length)
        else:
            rules[length] = tree[node, 0]
            length += 1
            pending[waiting], pending[waiting + 1] = tree[node, 2], tree[node, 1]
            waiting += 2
    return length


@njit_allocating
def start_pairs(first, batch, base, derivations, chart, by_model1, links, due, key):
    """Write initial derivations of the pairs from `first` on that are `due`, bool[P].

    Returns the pair that needs a larger `chart`, or P. `links` int32[N] has target positions for M4 or -1, and is empty
    for M1 (if `by_model1`) and LB. Pairs without an M1 or M4 derivation get a left-branching one.
    """
    for pair in range(first, len(batch.pairs)):
        s = batch.source_offset[pair]
        n, m = batch.source_offset[pair + 1] - s, batch.target_offset[pair + 1] - batch.target_offset[pair]
        if n + m == 0 or not due[pair]:
            continue
        rules = derivations.rules[derivations.offset[pair] : derivations.offset[pair + 1]]
        stream_state = stream(key, batch.pairs[pair], 0)
        length = 0
        if by_model1 and n > 0 and m > 0:
            _weigh_by_model1(batch, pair, base, chart.emissions)
            length = draw_from_emissions(chart, chart.emissions, n, m, stream_state)
            if length == NO_ROOM:
                return pair
            for at in range(max(length, 0)):
                rules[at] = chart.drawn.rules[at]
        elif len(links) > 0 and n > 0 and m > 0:
            length = _start_from_links(links[s : s + n].copy(), n, m, rules, stream_state)
        if length <= 0:
            length = _start_left_branching(n, m, rules, stream_state)
        derivations.length[pair] = length
    return len(batch.pairs)
