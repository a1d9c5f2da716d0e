"""Full ITG charts: inside sums of all cells, and sampled derivations [Wu 1997].

A chart has one matrix of target spans per source span. Sums over splits are products of upper triangular matrices.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform
from hierogram.samplers.itg.batch import phrase_offset
from hierogram.samplers.itg.derivations import (
    INVERTED,
    PAIR,
    RULE_TYPES,
    SOURCE_NULL,
    STRAIGHT,
    TARGET_NULL,
    phrase_rule,
)


class Weights(NamedTuple):
    """Linear rule weights of n source and m target words (or items of a local move). Pruned emissions have weight 0."""

    # float64[n, m]: weight of the emission of each word pair, including the weight of its rule type.
    pairs: NDArray[np.float64]
    # float64[n, m, L² - 1]: weight of each phrase pair that begins at a word pair, by `phrase_offset`.
    phrases: NDArray[np.float64]
    # float64[n]: weight of the null emission of each source word, including the weight of its rule type.
    source_nulls: NDArray[np.float64]
    # float64[m]: weight of the null emission of each target word, including the weight of its rule type.
    target_nulls: NDArray[np.float64]
    # float64[5]: weight of each rule type.
    rules: NDArray[np.float64]
    # int64[3]: n, m, and the maximum phrase length L.
    size: NDArray[np.int64]


class SampledDerivation(NamedTuple):
    """Sampled derivation in preorder, and scratch memory."""

    # uint8[nodes]: rules in preorder.
    rules: NDArray[np.uint8]
    # int32[nodes]: first source word and first target word of each rule.
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    # int32[nodes, 4]: stack of cells (i, j, x, y) that have no rule yet.
    stack: NDArray[np.int32]


def make_weights(longest_source: int, longest_target: int, longest_phrase: int = 1) -> Weights:
    """Allocate weights for pairs of up to the given lengths."""
    n, m, phrase = longest_source, longest_target, longest_phrase
    return Weights(
        np.zeros((n, m)), np.zeros((n, m, phrase * phrase - 1)), np.zeros(n), np.zeros(m), np.zeros(RULE_TYPES),
        np.array([0, 0, phrase]),
    )  # fmt: skip


@njit_inline
def is_phrase(longest, height, width):
    """Check if a cell of this size can be emitted as a phrase pair other than a word pair."""
    return longest > 1 and 0 < height <= longest and 0 < width <= longest and height + width > 2


@njit_inline
def phrase_weight(weights, i, x, height, width):
    """Return the weight of the phrase pair that begins at source word i and target word x."""
    return weights.phrases[i, x, phrase_offset(weights.size[2], height, width)]


def make_sampled_derivation(longest_source: int, longest_target: int) -> SampledDerivation:
    """Allocate a sampled derivation of pairs of up to the given lengths."""
    max_nodes = 2 * (longest_source + longest_target)
    return SampledDerivation(
        np.zeros(max_nodes, np.uint8),
        np.zeros(max_nodes, np.int32),
        np.zeros(max_nodes, np.int32),
        np.zeros((max_nodes, 4), np.int32),
    )


@njit_inline
def _matrix(i, j, m):
    return (j * (j + 1) // 2 + i) * (m + 1) * (m + 1)


@njit
def _multiply(chart, left, right, to, weight, m):
    """Add `weight` · left · right to matrix `to` of `chart`. Matrices are upper triangular, given by their offsets."""
    for x in range(m + 1):
        for z in range(x, m + 1):
            value = weight * chart[left + x * (m + 1) + z]
            if value != 0.0:
                row, out = right + z * (m + 1), to + x * (m + 1)
                for y in range(z, m + 1):
                    chart[out + y] += value * chart[row + y]


@njit
def _add_phrases(chart, weights, i, j):
    m, longest = weights.size[1], weights.size[2]
    matrix = _matrix(i, j, m)
    for x in range(m):
        for width in range(1, min(longest, m - x) + 1):
            if j - i + width > 2:
                chart[matrix + x * (m + 1) + x + width] += phrase_weight(weights, i, x, j - i, width)


@njit
def _add_words(chart, weights, i, j):
    """Add emissions of single words, and rules with a child of empty source span, to the sums of source span [i, j)."""
    m = weights.size[1]
    matrix, first, last = _matrix(i, j, m), _matrix(i, i, m), _matrix(j, j, m)
    straight, inverted = weights.rules[STRAIGHT], weights.rules[INVERTED]
    for size in range(m + 1):
        for x in range(m + 1 - size):
            y = x + size
            total = chart[matrix + x * (m + 1) + y]
            if j - i == 1 and size == 1:
                total += weights.pairs[i, x]
            elif j - i == 1 and size == 0:
                total += weights.source_nulls[i]
            elif i == j and size == 1:
                total += weights.target_nulls[x]
            if i == j:
                for z in range(x + 1, y):
                    total += (straight + inverted) * chart[matrix + x * (m + 1) + z] * chart[matrix + z * (m + 1) + y]
            else:
                for z in range(x + 1, y + 1):
                    remainder = chart[matrix + z * (m + 1) + y]
                    total += straight * chart[first + x * (m + 1) + z] * remainder
                    total += inverted * chart[last + x * (m + 1) + z] * remainder
                for z in range(x, y):
                    remainder = chart[matrix + x * (m + 1) + z]
                    total += straight * chart[last + z * (m + 1) + y] * remainder
                    total += inverted * chart[first + z * (m + 1) + y] * remainder
            chart[matrix + x * (m + 1) + y] = total


@njit
def sum_inside(chart, weights):
    """Compute the inside sums of all cells, in a matrix [x, y] per source span [i, j)."""
    n, m = weights.size[0], weights.size[1]
    for size in range(n + 1):
        for i in range(n + 1 - size):
            j = i + size
            matrix = _matrix(i, j, m)
            chart[matrix : matrix + (m + 1) * (m + 1)] = 0.0
            for k in range(i + 1, j):
                left, right = _matrix(i, k, m), _matrix(k, j, m)
                _multiply(chart, left, right, matrix, weights.rules[STRAIGHT], m)
                _multiply(chart, right, left, matrix, weights.rules[INVERTED], m)
            if 0 < size <= weights.size[2] and weights.size[2] > 1:
                _add_phrases(chart, weights, i, j)
            _add_words(chart, weights, i, j)


@njit_inline
def _inside(chart, weights, i, j, x, y):
    return chart[_matrix(i, j, weights.size[1]) + x * (weights.size[1] + 1) + y]


@njit
def _split(chart, weights, i, j, x, y, left):
    """Draw the rule and split (rule, k, z) of a cell. `left` is a uniform number times the inside sum of the cell.

    The candidates are the emission, then straight splits, then inverted splits by source and target position.
    """
    best = (PAIR, i, x)
    if j - i <= 1 and y - x <= 1:
        if i == j:
            p, best = weights.target_nulls[x], (TARGET_NULL, i, x)
        elif x == y:
            p, best = weights.source_nulls[i], (SOURCE_NULL, i, x)
        else:
            p = weights.pairs[i, x]
        left -= p
        if left < 0.0:
            return best
    elif is_phrase(weights.size[2], j - i, y - x):
        p = phrase_weight(weights, i, x, j - i, y - x)
        if p > 0.0:
            best = (phrase_rule(j - i, y - x), i, x)
            left -= p
            if left < 0.0:
                return best
    for rule in (STRAIGHT, INVERTED):
        for k in range(i, j + 1):
            for z in range(x, y + 1):
                if rule == STRAIGHT:
                    share = _inside(chart, weights, i, k, x, z) * _inside(chart, weights, k, j, z, y)
                else:
                    share = _inside(chart, weights, i, k, z, y) * _inside(chart, weights, k, j, x, z)
                share *= weights.rules[rule]
                if share > 0.0:
                    best = (rule, k, z)
                    left -= share
                    if left < 0.0:
                        return best
    return best


@njit_inline
def push_children(stack, depth, rule, cell, k, z):
    """Push the right child, then the left child, of a split at (k, z). Returns the height of the stack."""
    i, j, x, y = cell
    low, high = (z, y) if rule == STRAIGHT else (x, z)
    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = k, j, low, high
    low, high = (x, z) if rule == STRAIGHT else (z, y)
    depth += 1
    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = i, k, low, high
    return depth + 1


@njit
def draw_derivation(chart, weights, stream_state, nodes):
    """Sample a derivation top-down from inside sums. Returns its length and the stream state."""
    stack = nodes.stack
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, weights.size[0], 0, weights.size[1]
    depth, length = 1, 0
    while depth > 0:
        depth -= 1
        i, j = np.int64(stack[depth, 0]), np.int64(stack[depth, 1])
        x, y = np.int64(stack[depth, 2]), np.int64(stack[depth, 3])
        stream_state = advance(stream_state)
        u = uniform(stream_state) * _inside(chart, weights, i, j, x, y)
        rule, k, z = _split(chart, weights, i, j, x, y, u)
        nodes.rules[length], nodes.source[length], nodes.target[length] = rule, i, x
        length += 1
        if rule in (STRAIGHT, INVERTED):
            depth = push_children(stack, depth, rule, (i, j, x, y), k, z)
    return length, stream_state


@njit
def scale_emissions(emissions, n, m, scale):
    """Multiply each emission by the factors of its words in `scale` float64[n + m]."""
    for i in range(n):
        emissions.source_nulls[i] *= scale[i]
        for x in range(m):
            emissions.pairs[i, x] *= scale[i] * scale[n + x]
    for x in range(m):
        emissions.target_nulls[x] *= scale[n + x]
    longest = emissions.size[2]
    if longest == 1:
        return
    for i in range(n):
        by_source = 1.0
        for s in range(1, min(longest, n - i) + 1):
            by_source *= scale[i + s - 1]
            for x in range(m):
                by = by_source
                for t in range(1, min(longest, m - x) + 1):
                    by *= scale[n + x + t - 1]
                    if s + t > 2:
                        emissions.phrases[i, x, phrase_offset(longest, s, t)] *= by


@njit
def normalize_emissions(weights, scale):
    """Scale emissions so that the best of each word is about 1. `scale` float64[n + m] receives the factors."""
    n, m = weights.size[0], weights.size[1]
    for i in range(n):
        best = weights.source_nulls[i] * weights.source_nulls[i]
        for x in range(m):
            best = max(best, weights.pairs[i, x])
        scale[i] = 1.0 / np.sqrt(best)
    for x in range(m):
        best = weights.target_nulls[x] * weights.target_nulls[x]
        for i in range(n):
            best = max(best, weights.pairs[i, x])
        scale[n + x] = 1.0 / np.sqrt(best)
    scale_emissions(weights, n, m, scale)
