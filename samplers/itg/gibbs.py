"""Local Gibbs sampler of ITG derivations [BC10 §3; Blunsom et al. 2009] (docs/model.md, section 7).

A move selects up to three subtrees (*pieces*) below a node: one child of the node, and both children of the other
child. It resamples the rules above the pieces among all derivations of the pieces. Words of a piece that is a leaf may
then be emitted differently, as single words or in phrases. If the node is a leaf, it is the only piece.

The move draws from a full chart of *items*: the words of leaves, and the other pieces. Rule weights are frozen during
the draw, and a Metropolis–Hastings step corrects this.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.itg.batch import first_pair_rule, phrase_offset, phrase_type
from hierogram.samplers.itg.charts import (
    RuleWeights,
    SampledDerivation,
    draw_derivation,
    make_sampled_derivation,
    make_weights,
    split_cell,
    sum_inside,
)
from hierogram.samplers.itg.derivations import (
    INVERTED,
    NODE,
    PAIR,
    SOURCE_NULL,
    STRAIGHT,
    TARGET_NULL,
    build_nodes,
    source_words,
    target_words,
)
from hierogram.samplers.itg.model import (
    PAIR_STRENGTH,
    SOURCE_NULL_STRENGTH,
    TARGET_NULL_STRENGTH,
    TYPE_PRIOR,
    add_rule,
    count_rule,
    emission_mass,
    frozen_weight,
    rule_mass,
    rule_number,
)

PIECES = 3
"""Maximum number of pieces of a move."""

_WORD = -1
"""Value of column 0 of `LocalMove.source` and `LocalMove.target` if the item is a single word."""


class LocalMove(NamedTuple):
    """Scratch memory of the local sampler."""

    # Rule weights of the items, their full chart (`itg.charts.sum_inside`), and their sampled derivation.
    items: RuleWeights
    chart: NDArray[np.float64]
    drawn: SampledDerivation
    # int32[3]: root node of each piece, in source order.
    pieces: NDArray[np.int32]
    # int32[3 L, 2]: items of each side, for phrases of up to L words. An item is a word of a leaf, or a piece that is
    # not a leaf. Column 0: root node of the piece, or `_WORD`. Column 1: position of the first word.
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    # int32[8, 3]: rules that the move removes. Columns: rule code, first source word, first target word.
    old: NDArray[np.int32]
    # NODE[nodes], uint8[nodes + 1]: nodes of the current derivation, and rule codes of the new subtree.
    nodes: NDArray[np.void]
    rules: NDArray[np.uint8]


def make_local_move(longest: int, longest_phrase: int) -> LocalMove:
    """Allocate memory for up to `longest` rules per derivation and `longest_phrase` words per phrase."""
    items = PIECES * longest_phrase
    return LocalMove(
        make_weights(items, items, longest_phrase),
        np.zeros((items + 1) * (items + 2) // 2 * (items + 1) ** 2),
        make_sampled_derivation(items, items),
        np.zeros(PIECES, np.int32),
        np.zeros((items, 2), np.int32),
        np.zeros((items, 2), np.int32),
        np.zeros((8, 3), np.int32),
        np.zeros(longest, NODE),
        np.zeros(longest + 1, np.uint8),
    )


@njit
def _select_pieces(local, at, side):
    """Select the pieces of a move at node `at`. Returns their number.

    A leaf is its only piece. Otherwise the pieces are a child of the node, and the children of the other child: the
    left child if `side` is 0, or else the right one. If this child is a leaf, it is a piece itself.
    """
    nodes, pieces = local.nodes, local.pieces
    if nodes[at]["rule"] >= PAIR:
        pieces[0] = at
        return 1
    left, right = at + 1, np.int64(nodes[at]["right"])
    opened = left if side == 0 else right
    number = 0
    for child in (left, right):
        if child == opened and nodes[child]["rule"] < PAIR:
            pieces[number], pieces[number + 1] = child + 1, nodes[child]["right"]
            number += 2
        else:
            pieces[number] = child
            number += 1
    return number


@njit
def _list_items(local, pieces):
    """List the items of the pieces by position. Returns the numbers of source items and target items."""
    sources = targets = 0
    for number in range(pieces):
        piece = local.pieces[number]
        node = local.nodes[piece]
        i, j, x, y = np.int64(node["i"]), np.int64(node["j"]), np.int64(node["x"]), np.int64(node["y"])
        item = _WORD
        if node["rule"] < PAIR:
            # A piece that is not a leaf is one item on each side on which it has words.
            item, j, y = piece, min(j, i + 1), min(y, x + 1)
        for word in range(i, j):
            local.source[sources, 0], local.source[sources, 1] = item, word
            sources += 1
        for word in range(x, y):
            to = targets
            while to > 0 and local.target[to - 1, 1] > word:
                local.target[to, 0], local.target[to, 1] = local.target[to - 1, 0], local.target[to - 1, 1]
                to -= 1
            local.target[to, 0], local.target[to, 1] = item, word
            targets += 1
    return sources, targets


@njit
def _list_rules(local, at, pieces):
    nodes = local.nodes
    number = 0
    position, last = at, at + nodes[at]["size"]
    while position < last:
        node = nodes[position]
        is_piece = False
        for k in range(pieces):
            is_piece |= local.pieces[k] == position
        if is_piece and node["rule"] < PAIR:
            position += np.int64(node["size"])
            continue
        local.old[number, 0], local.old[number, 1], local.old[number, 2] = node["rule"], node["i"], node["x"]
        number += 1
        position += 1
    return number


@njit
def _weigh_pairs_at(batch, pair, base, counts, local, p, q, scale):
    items, source, target = local.items, local.source, local.target
    longest = items.size[2]
    items.pairs[p, q] = 0.0
    if source[p, 0] != _WORD or target[q, 0] != _WORD:
        items.pairs[p, q, 0] = 1.0 if source[p, 0] == target[q, 0] else 0.0
        return
    for s in range(1, min(longest, items.size[0] - p) + 1):
        if source[p + s - 1, 0] != _WORD:
            break
        for t in range(1, min(longest, items.size[1] - q) + 1):
            if target[q + t - 1, 0] != _WORD:
                break
            number = first_pair_rule(batch) + np.int64(phrase_type(batch, pair, source[p, 1], target[q, 1], s, t))
            mass = emission_mass(batch, base, PAIR, number)
            items.pairs[p, q, phrase_offset(longest, s, t)] = scale * (counts.uses[number] + mass)


@njit
def _weigh_items(batch, pair, base, counts, local):
    items, source, target = local.items, local.source, local.target
    n, m = items.size[0], items.size[1]
    total = rule_mass(counts)
    for rule in (STRAIGHT, INVERTED):
        items.rules[rule] = (counts.rules[rule] + TYPE_PRIOR) / total
    scale = (counts.rules[PAIR] + TYPE_PRIOR) / total / (counts.rules[PAIR] + base.strengths[PAIR_STRENGTH])
    for p in range(n):
        for q in range(m):
            _weigh_pairs_at(batch, pair, base, counts, local, p, q, scale)
    strength = base.strengths[SOURCE_NULL_STRENGTH]
    scale = (counts.rules[SOURCE_NULL] + TYPE_PRIOR) / total / (counts.rules[SOURCE_NULL] + strength)
    for p in range(n):
        piece = source[p, 0]
        if piece == _WORD:
            number = rule_number(batch, pair, SOURCE_NULL, source[p, 1], 0)
            items.source_nulls[p] = scale * (counts.uses[number] + emission_mass(batch, base, SOURCE_NULL, number))
        else:
            items.source_nulls[p] = 1.0 if local.nodes[piece]["x"] == local.nodes[piece]["y"] else 0.0
    strength = base.strengths[TARGET_NULL_STRENGTH]
    scale = (counts.rules[TARGET_NULL] + TYPE_PRIOR) / total / (counts.rules[TARGET_NULL] + strength)
    for q in range(m):
        piece = target[q, 0]
        if piece == _WORD:
            number = rule_number(batch, pair, TARGET_NULL, 0, target[q, 1])
            items.target_nulls[q] = scale * (counts.uses[number] + emission_mass(batch, base, TARGET_NULL, number))
        else:
            items.target_nulls[q] = 1.0 if local.nodes[piece]["i"] == local.nodes[piece]["j"] else 0.0


@njit_inline
def _old_weight(local, k):
    rule, i, x = local.old[k, 0], local.old[k, 1], local.old[k, 2]
    p = q = 0
    while rule >= PAIR and source_words(rule) > 0 and (local.source[p, 0] != _WORD or local.source[p, 1] != i):
        p += 1
    while rule >= PAIR and target_words(rule) > 0 and (local.target[q, 0] != _WORD or local.target[q, 1] != x):
        q += 1
    return frozen_weight(local.items, rule, p, q)


@njit
def _add_old(batch, pair, base, counts, local, number):
    """Count the removed rules one by one. Returns the product of their probability / frozen weight."""
    ratio = 1.0
    for k in range(number):
        p = add_rule(batch, pair, base, counts, local.old[k, 0], local.old[k, 1], local.old[k, 2])
        ratio *= p / _old_weight(local, k)
    return ratio


@njit
def _add_new(batch, pair, base, counts, local, length, change):
    """Count the drawn rules if `change` is 1, or remove them from the counts if it is -1."""
    drawn = local.drawn
    ratio = 1.0
    for k in range(length):
        rule, p, q = np.int64(drawn.rules[k]), drawn.source[k], drawn.target[k]
        if _is_piece(local, rule, p, q):
            continue
        # Read only the words of emitted items, since the indices of other items may be past the end.
        i = local.source[p, 1] if rule >= PAIR and source_words(rule) > 0 else 0
        x = local.target[q, 1] if rule >= PAIR and target_words(rule) > 0 else 0
        if change < 0:
            count_rule(batch, pair, counts, rule, i, x, -1)
        else:
            ratio *= add_rule(batch, pair, base, counts, rule, i, x) / frozen_weight(local.items, rule, p, q)
    return ratio


@njit_inline
def _is_piece(local, rule, p, q):
    """Check if a sampled leaf represents a piece that is not a leaf. The move does not change such pieces."""
    if rule == TARGET_NULL:
        return local.target[q, 0] != _WORD
    return rule >= PAIR and local.source[p, 0] != _WORD


@njit
def _reverse_probability(local, length):
    """Return the probability that the reverse move selects the same pieces, or 0 if no move can."""
    leaves = 0
    has_piece = False
    for k in range(length):
        rule = np.int64(local.drawn.rules[k])
        if rule >= PAIR:
            leaves += 1
            has_piece |= _is_piece(local, rule, local.drawn.source[k], local.drawn.target[k])
    if leaves > PIECES:
        return 0.0
    return 1.0 if leaves < PIECES and not has_piece else 0.5


@njit
def _replace(local, rules, length, at, sampled_length):
    end = at + local.nodes[at]["size"]
    to = 0
    for k in range(sampled_length):
        rule, p, q = np.int64(local.drawn.rules[k]), local.drawn.source[k], local.drawn.target[k]
        if _is_piece(local, rule, p, q):
            piece = local.target[q, 0] if rule == TARGET_NULL else local.source[p, 0]
            for position in range(piece, piece + local.nodes[piece]["size"]):
                local.rules[to] = rules[position]
                to += 1
        else:
            local.rules[to] = rule
            to += 1
    moved = to - (end - at)
    if moved > 0:
        for position in range(length - 1, end - 1, -1):
            rules[position + moved] = rules[position]
    elif moved < 0:
        for position in range(end, length):
            rules[position + moved] = rules[position]
    for position in range(to):
        rules[at + position] = local.rules[position]
    return length + moved


@njit
def _move(batch, pair, base, counts, local, at, side, stream_state):
    """Resample the rules above a node's pieces, and update the counts."""
    pieces = _select_pieces(local, at, side)
    size = _list_items(local, pieces)
    local.items.size[0], local.items.size[1] = size
    number = _list_rules(local, at, pieces)
    for k in range(number):
        count_rule(batch, pair, counts, local.old[k, 0], local.old[k, 1], local.old[k, 2], -1)
    _weigh_items(batch, pair, base, counts, local)
    sum_inside(local.chart, local.items)
    chart = local.chart, local.items
    sampled_length, stream_state = draw_derivation(split_cell, chart, size, stream_state, local.drawn)
    choices = _reverse_probability(local, sampled_length)
    ratio = 0.0
    if choices > 0.0:
        ratio = choices * _add_new(batch, pair, base, counts, local, sampled_length, 1)
        _add_new(batch, pair, base, counts, local, sampled_length, -1)
    # A leaf, and a node with two leaves, have the same pieces on both sides.
    selection_probability = 1.0 if local.nodes[at]["size"] <= 3 else 0.5
    before = selection_probability * _add_old(batch, pair, base, counts, local, number)
    stream_state = advance(stream_state)
    if uniform(stream_state) * before >= ratio:
        return 0, stream_state
    for k in range(number):
        count_rule(batch, pair, counts, local.old[k, 0], local.old[k, 1], local.old[k, 2], -1)
    _add_new(batch, pair, base, counts, local, sampled_length, 1)
    return sampled_length, stream_state


@njit
def resample_locally(batch, pair, state, local, stream_state):
    """Try one move per rule slot of the pair, at random nodes. Returns the number of accepted moves."""
    derivations, counts, base = state
    rules = derivations.rules[derivations.offset[pair] : derivations.offset[pair + 1]]
    length = np.int64(derivations.length[pair])
    moves = len(rules)
    accepted = 0
    build_nodes(rules, length, local.nodes)
    for _ in range(moves):
        stream_state = advance(stream_state)
        node = np.int64(uniform(stream_state) * moves)
        stream_state = advance(stream_state)
        side = 0 if uniform(stream_state) < 0.5 else 1
        # Skip nodes past the end, since the number of moves must not depend on the derivation. Also skip nulls, which
        # have no alternative.
        if node < length and local.nodes[node]["rule"] not in (SOURCE_NULL, TARGET_NULL):
            sampled_length, stream_state = _move(batch, pair, base, counts, local, node, side, stream_state)
            if sampled_length > 0:
                accepted += 1
                length = _replace(local, rules, length, node, sampled_length)
                build_nodes(rules, length, local.nodes)
    derivations.length[pair] = length
    return accepted
