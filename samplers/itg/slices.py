"""Slice variables of a visit, and the chart of those cells alone whose slice variables let a rule live [BC10 §2].

Every cell (i, j, x, y) with words on both sides has a slice variable u, every word one for its null emission, wherever
the null stands: a derivation uses none of them twice. Rules with children over an empty span keep their probability
as a factor. A cell's u is a function of the visit's key and of the cell, so it is the same however often it is met
[BC10 eq. 1]. Flat slice variables are another distribution in the place of Beta: those of emissions alone, uniform
below p with probability p^a.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.powers import Powers, power_of
from hierogram.samplers.compiled.streams import mix, uniform
from hierogram.samplers.itg.derivations import PAIR, SOURCE_NULL, STRAIGHT, TARGET_NULL

UNSLICED = 0.0
"""In place of a: rules keep their weights, and no cell is pruned but by its emissions."""

_NOWHERE = 0xFFFF
_16, _32, _48 = np.uint64(16), np.uint64(32), np.uint64(48)
_ONE = np.uint64(1)
_FRACTION, _EXPONENT_OF_ONE, _ABOVE_LINE = 2.0**-52, 1023, 0.0862
"""Of float64: the bits of a number ≥ 0, read as an integer times 2^-52, are its exponent + 1023 and its fraction."""


class Own(NamedTuple):
    """The cells of the present derivation: `first` int32[spans] is 1 + the first node with a source span, 0 for none,
    `next` int32[nodes] 1 + the next with the same source span; `nodes` NODE are those of the derivation.
    """

    first: NDArray[np.int32]
    next: NDArray[np.int32]
    nodes: NDArray[np.void]


class Slices(NamedTuple):
    """All that decides on slice variables: `shape` is a of Beta(a, 1), `powers` are those by 1/a - 1; `key` names the
    visit; the pair's numbers of words; the probabilities of the two rules with children, and these to the power of a;
    what the present derivation uses, and the probabilities of word pairs float64[n, m].
    """

    shape: float
    powers: Powers
    key: np.uint64
    height: int
    width: int
    straight: float
    inverted: float
    straight_survives: float
    inverted_survives: float
    own: Own
    pairs: NDArray[np.float64]


@njit_inline
def span_of(i, j):
    """The number of a source span [i, j), i ≤ j."""
    return j * (j + 1) // 2 + i


@njit_inline
def _cell_key(i, j, x, y):
    return np.uint64(i) << _48 | np.uint64(j) << _32 | np.uint64(x) << _16 | np.uint64(y)


@njit_inline
def unit_of(visit, i, j, x, y):
    """The uniform number in (0, 1] of a cell's slice variable in a visit."""
    return 1.0 - uniform(visit + mix(_cell_key(i, j, x, y) + _ONE))


@njit_inline
def may_survive(unit, p, shape):
    """Return whether unit ≤ p^shape may hold: false for most for which it does not, at a fraction of a power's time.

    Between powers of two, log2 p is at most 0.0861 above the line through them, and 2^s below that through its own.
    """
    log2 = np.float64(p).view(np.int64) * _FRACTION - _EXPONENT_OF_ONE + _ABOVE_LINE
    return unit <= np.int64((shape * log2 + _EXPONENT_OF_ONE) / _FRACTION).view(np.float64)


@njit_inline
def weight_of(u, shape):
    """1 / Beta(u; a, 1): what every rule weighs that lives in a cell."""
    return u ** (1.0 - shape) / shape


@njit_inline
def _weight_off(slices, unit):
    """The weight of a cell that the derivation does not use, from its uniform number: u is unit^(1/a) [BC10 eq. 4]."""
    return power_of(slices.powers, unit) / slices.shape


@njit
def enter_own(own, nodes, length, present):
    """Take in the present derivation's cells (present 1), or forget them (0)."""
    for at in range(length):
        node = nodes[at]
        if node["i"] < node["j"] and node["x"] < node["y"]:
            span = span_of(np.int64(node["i"]), np.int64(node["j"]))
            if present:
                own.next[at] = own.first[span]
                own.first[span] = at + 1
            else:
                own.first[span] = 0


@njit_inline
def _own_probability(slices, i, j, x, y):
    """The probability of the rule that the present derivation has in a cell; 0 where it does not use the cell."""
    at = slices.own.first[span_of(i, j)]
    while at > 0:
        node = slices.own.nodes[at - 1]
        if node["x"] == x and node["y"] == y:
            if node["rule"] == PAIR:
                return slices.pairs[i, x]
            return slices.straight if node["rule"] == STRAIGHT else slices.inverted
        at = slices.own.next[at - 1]
    return 0.0


@njit_inline
def rule_weights(slices, i, j, x, y):
    """The weights of straight and inverted rules in a cell, 0 where they are pruned."""
    if i == j or x == y or slices.shape == UNSLICED:
        return slices.straight, slices.inverted
    unit = unit_of(slices.key, i, j, x, y)
    p = _own_probability(slices, i, j, x, y)
    if p > 0.0:
        weight = weight_of(p * unit, slices.shape)
        return weight if p * unit <= slices.straight else 0.0, weight if p * unit <= slices.inverted else 0.0
    straight, inverted = unit <= slices.straight_survives, unit <= slices.inverted_survives
    if not (straight or inverted):
        return 0.0, 0.0
    weight = _weight_off(slices, unit)
    return weight if straight else 0.0, weight if inverted else 0.0


@njit
def _cut_own(to, slices, weights, length):
    """Weigh the emissions in the cells of the present derivation."""
    shape = slices.shape
    for at in range(length):
        node = slices.own.nodes[at]
        i, j, x, y = np.int64(node["i"]), np.int64(node["j"]), np.int64(node["x"]), np.int64(node["y"])
        if node["rule"] == SOURCE_NULL:
            u = weights.source_nulls[i] * unit_of(slices.key, i, j, _NOWHERE, _NOWHERE)
            to.source_nulls[i] = weight_of(u, shape)
        elif node["rule"] == TARGET_NULL:
            u = weights.target_nulls[x] * unit_of(slices.key, _NOWHERE, _NOWHERE, x, y)
            to.target_nulls[x] = weight_of(u, shape)
        elif j - i == 1 and y - x == 1:
            p = weights.pairs[i, x] if node["rule"] == PAIR else weights.rules[node["rule"]]
            u = p * unit_of(slices.key, i, j, x, y)
            to.pairs[i, x] = weight_of(u, shape) if u <= weights.pairs[i, x] else 0.0


@njit_inline
def _cut(slices, unit, p):
    """The weight of a rule of probability p that the derivation does not use, 0 where it is pruned."""
    shape = slices.shape
    if not may_survive(unit, p, shape):
        return 0.0
    return _weight_off(slices, unit) if unit <= p**shape else 0.0


@njit
def cut_emissions(to, slices, weights, length):
    """Draw the slice variables of all emissions; those above them live."""
    n, m = slices.height, slices.width
    to.pairs[:n, :m] = -1.0
    to.source_nulls[:n] = -1.0
    to.target_nulls[:m] = -1.0
    _cut_own(to, slices, weights, length)
    for i in range(n):
        for x in range(m):
            if to.pairs[i, x] < 0.0:
                to.pairs[i, x] = _cut(slices, unit_of(slices.key, i, i + 1, x, x + 1), weights.pairs[i, x])
        if to.source_nulls[i] < 0.0:
            unit = unit_of(slices.key, i, i + 1, _NOWHERE, _NOWHERE)
            to.source_nulls[i] = _cut(slices, unit, weights.source_nulls[i])
    for x in range(m):
        if to.target_nulls[x] < 0.0:
            unit = unit_of(slices.key, _NOWHERE, _NOWHERE, x, x + 1)
            to.target_nulls[x] = _cut(slices, unit, weights.target_nulls[x])


@njit_inline
def _keep(unit, p, shape):
    """The weight of an emission of probability p with a flat slice variable, 0 where it is pruned."""
    if not may_survive(unit, p, shape):
        return 0.0
    survives = p**shape
    return p / survives if unit <= survives else 0.0


@njit
def keep_emissions(to, weights, shape, nodes, length, key):
    """Draw flat slice variables of all emissions: one lives if the present derivation has it, else with probability
    p^a, and weighs p^(1 - a) in both cases.
    """
    n, m = np.int64(nodes[0]["j"]), np.int64(nodes[0]["y"])
    for i in range(n):
        for x in range(m):
            to.pairs[i, x] = _keep(unit_of(key, i, i + 1, x, x + 1), weights.pairs[i, x], shape)
        unit = unit_of(key, i, i + 1, _NOWHERE, _NOWHERE)
        to.source_nulls[i] = _keep(unit, weights.source_nulls[i], shape)
    for x in range(m):
        unit = unit_of(key, _NOWHERE, _NOWHERE, x, x + 1)
        to.target_nulls[x] = _keep(unit, weights.target_nulls[x], shape)
    for at in range(length):
        rule, i, x = nodes[at]["rule"], np.int64(nodes[at]["i"]), np.int64(nodes[at]["x"])
        if rule == PAIR:
            to.pairs[i, x] = _keep(0.0, weights.pairs[i, x], shape)
        elif rule == SOURCE_NULL:
            to.source_nulls[i] = _keep(0.0, weights.source_nulls[i], shape)
        elif rule == TARGET_NULL:
            to.target_nulls[x] = _keep(0.0, weights.target_nulls[x], shape)
