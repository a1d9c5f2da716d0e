"""Full ITG charts: inside sums of all cells, and sampled derivations [Wu 1997].

A cell is a source span [i, j) with a target span [x, y). Its inside sum is the total weight of its derivations. A chart
is a float64 array with one matrix of target spans per source span. Sums over splits are products of upper triangular
matrices.
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


class RuleWeights(NamedTuple):
    """Linear weights of rules for n by m words, or items of a local move. 0 for pruned emissions."""

    # float64[n, m, L²]: weight of the emission of each word pair and phrase pair that begins at a source word and a
    # target word, by `phrase_offset`, including the weight of its rule type.
    pairs: NDArray[np.float64]
    # float64[n], float64[m]: weight of the null emission of each word, including the weight of its rule type.
    source_nulls: NDArray[np.float64]
    target_nulls: NDArray[np.float64]
    # float64[5]: weight of each rule type. Derivations use only the weights of `STRAIGHT` and `INVERTED`.
    rules: NDArray[np.float64]
    # int64[3]: n, m, and the maximum phrase length L. n and m are only set for full charts.
    size: NDArray[np.int64]


class SampledDerivation(NamedTuple):
    """Sampled derivation, and scratch memory."""

    # uint8[nodes], int32[nodes]: rules in preorder, and first source word and first target word of each rule.
    rules: NDArray[np.uint8]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    # int32[nodes, 4]: stack of cells (i, j, x, y) that have no rule yet.
    stack: NDArray[np.int32]


def make_weights(n: int, m: int, longest_phrase: int) -> RuleWeights:
    """Allocate weights for pairs of up to n source and m target words. The caller sets n and m in `size`."""
    pairs, size = np.zeros((n, m, longest_phrase**2)), np.array([0, 0, longest_phrase])
    return RuleWeights(pairs, np.zeros(n), np.zeros(m), np.zeros(RULE_TYPES), size)


@njit_inline
def phrase_weight(weights, i, x, height, width):
    """Return the weight of the word or phrase pair that begins at source word i and target word x."""
    return weights.pairs[i, x, phrase_offset(weights.size[2], height, width)]


@njit_inline
def emission(weights, i, j, x, y):
    """Return the rule that emits a cell, and the rule's weight, which is 0 if the cell has no emission."""
    height, width = j - i, y - x
    if height == 0 and width == 1:
        return TARGET_NULL, weights.target_nulls[x]
    if height == 1 and width == 0:
        return SOURCE_NULL, weights.source_nulls[i]
    if 0 < height <= weights.size[2] and 0 < width <= weights.size[2]:
        return phrase_rule(height, width), phrase_weight(weights, i, x, height, width)
    return PAIR, 0.0


def make_sampled_derivation(longest_source: int, longest_target: int) -> SampledDerivation:
    """Allocate a sampled derivation of pairs of up to the given lengths."""
    max_nodes = 2 * (longest_source + longest_target)
    source, target = np.zeros((2, max_nodes), np.int32)
    return SampledDerivation(np.zeros(max_nodes, np.uint8), source, target, np.zeros((max_nodes, 4), np.int32))


@njit_inline
def _matrix(i, j, m):
    return (j * (j + 1) // 2 + i) * (m + 1) * (m + 1)


@njit
def _multiply(chart, left, right, to, weight, m):
    """Add `weight` · left · right to `to`. Arguments are offsets of upper triangular matrices in `chart`."""
    for x in range(m + 1):
        for z in range(x, m + 1):
            value = weight * chart[left + x * (m + 1) + z]
            if value != 0.0:
                row, out = right + z * (m + 1), to + x * (m + 1)
                for y in range(z, m + 1):
                    chart[out + y] += value * chart[row + y]


@njit
def _add_emissions(chart, weights, i, j):
    """Add emissions, and rules with a child of empty source span, to the sums of source span [i, j)."""
    m = weights.size[1]
    matrix, first, last = _matrix(i, j, m), _matrix(i, i, m), _matrix(j, j, m)
    straight, inverted = weights.rules[STRAIGHT], weights.rules[INVERTED]
    for size in range(m + 1):
        for x in range(m + 1 - size):
            y = x + size
            total = chart[matrix + x * (m + 1) + y] + emission(weights, i, j, x, y)[1]
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
            _add_emissions(chart, weights, i, j)


@njit_inline
def _inside(chart, weights, i, j, x, y):
    return chart[_matrix(i, j, weights.size[1]) + x * (weights.size[1] + 1) + y]


@njit
def split_cell(full_chart, cell, u):
    """Draw the rule and the split point (rule, k, z) of `cell` (i, j, x, y) with the uniform number u.

    `full_chart` is (chart, weights), with the sums of `sum_inside`. The candidates are the emission, for which (k, z)
    is (i, x), then straight splits, then inverted splits by source and target position. The inside sum must be above 0.
    """
    chart, weights = full_chart
    i, j, x, y = cell
    leaf, weight = emission(weights, i, j, x, y)
    best = (leaf, i, x)
    left = u * _inside(chart, weights, i, j, x, y) - weight
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
def draw_derivation(split, chart, size, stream_state, drawn):
    """Draw a derivation of `size` (n, m) by `split`, such as `split_cell`. Returns (length, state)."""
    stack = drawn.stack
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, size[0], 0, size[1]
    depth, length = 1, 0
    while depth > 0:
        depth -= 1
        i, j = np.int64(stack[depth, 0]), np.int64(stack[depth, 1])
        x, y = np.int64(stack[depth, 2]), np.int64(stack[depth, 3])
        stream_state = advance(stream_state)
        rule, k, z = split(chart, (i, j, x, y), uniform(stream_state))
        drawn.rules[length], drawn.source[length], drawn.target[length] = rule, i, x
        length += 1
        if rule in (STRAIGHT, INVERTED):
            # Push the right child first, because the left child is drawn first.
            low, high = (z, y) if rule == STRAIGHT else (x, z)
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = k, j, low, high
            low, high = (x, z) if rule == STRAIGHT else (z, y)
            depth += 1
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = i, k, low, high
            depth += 1
    return length, stream_state


@njit
def scale_emissions(emissions, n, m, scale):
    """Multiply each emission by the factors of its words in `scale` float64[n + m], source words first."""
    longest = emissions.size[2]
    for x in range(m):
        emissions.target_nulls[x] *= scale[n + x]
    for i in range(n):
        emissions.source_nulls[i] *= scale[i]
        by_source = 1.0
        for s in range(1, min(longest, n - i) + 1):
            by_source *= scale[i + s - 1]
            for x in range(m):
                by = by_source
                for t in range(1, min(longest, m - x) + 1):
                    by *= scale[n + x + t - 1]
                    emissions.pairs[i, x, phrase_offset(longest, s, t)] *= by
