"""Products of many factors with a separate exponent, and random draws weighted by such products.

A product that could leave the range of a 64-bit float is stored as value * SCALE^exponent. A draw from a conditional
distribution is either independent of the current value or avoids it [Suwa & Todo 2010; Liu 1996] (docs/model.md,
section 4). Both leave the distribution invariant. `u` is a uniform number in [0, 1), and weights are linear.
"""

import math
from typing import NamedTuple

import numpy as np

from hierogram.samplers.compiled.jit import njit_inline

SCALE = 2.0**256
"""Factor that is moved from the value of a product to its exponent."""
UNSCALE = 1.0 / SCALE
LOG_SCALE = 256 * math.log(2.0)

SCALED = np.dtype([("value", np.float64), ("exponent", np.int64)])
"""Array item with the fields of `Scaled`."""


class Scaled(NamedTuple):
    """Number value * SCALE^exponent, with value > 0."""

    value: float
    exponent: int


@njit_inline
def multiply(product, factor):
    """Return the product of two scaled numbers, which is not rescaled. Its value must not overflow."""
    return Scaled(product.value * factor.value, product.exponent + factor.exponent)


@njit_inline
def rescaled(product):
    """Rescale a product with a value up to SCALE^2, so that the value is at most SCALE."""
    if product.value > SCALE:
        return Scaled(product.value * UNSCALE, product.exponent + 1)
    return product


@njit_inline
def value_at_scale(product, second):
    """Return the value of `product` if it is written with the exponent of `second`."""
    difference = product.exponent - second.exponent
    return product.value if difference == 0 else product.value * SCALE**difference


@njit_inline
def log_product(product):
    """Return the natural logarithm of a product."""
    return math.log(product.value) + product.exponent * LOG_SCALE


@njit_inline
def raise_product(product, power):
    """Return a product raised to a power, with a value from 1 to SCALE."""
    logarithm = power * log_product(product)
    exponent = math.floor(logarithm / LOG_SCALE)
    return Scaled(math.exp(logarithm - exponent * LOG_SCALE), np.int64(exponent))


@njit_inline
def _cumulate(weights, size):
    """Replace the values of the first `size` SCALED weights by cumulative sums at one scale."""
    max_exponent = np.int64(-1 << 62)
    for k in range(size):
        weight = weights[k]
        while weight["value"] < 1.0:
            weight["value"] *= SCALE
            weight["exponent"] -= 1
        max_exponent = max(max_exponent, weight["exponent"])
    total = 0.0
    for k in range(size):
        weight = weights[k]
        if weight["exponent"] == max_exponent:
            total += weight["value"]
        elif weight["exponent"] == max_exponent - 1:
            total += weight["value"] / SCALE
        weight["value"] = total
    return total


@njit_inline
def _first_above(weights, size, threshold):
    for k in range(size):
        if weights[k]["value"] > threshold:
            return k
    return size - 1


@njit_inline
def draw(weights, size, u):
    """Draw one of the first `size` weights SCALED, in proportion to the weight. Overwrites `weights`."""
    total = _cumulate(weights, size)
    return _first_above(weights, size, u * total)


INDEPENDENT_SHARE = 0.1
"""Share of independent draws with `avoid_current`, so that variables do not change in lockstep."""


@njit_inline
def _draw_avoiding(weights, size, current, u):
    """Move a point on the current option by the largest weight, on a circle [Suwa & Todo 2010]."""
    total = _cumulate(weights, size)
    below = 0.0
    largest = 0.0
    start = 0.0
    for k in range(size):
        sum_ = weights[k]["value"]
        largest = max(largest, sum_ - below)
        if k == current:
            start = below + u * (sum_ - below)
        below = sum_
    threshold = start + largest
    if threshold >= total:
        threshold -= total
    return _first_above(weights, size, threshold)


@njit_inline
def draw_option(weights, size, current, u, avoid_current):
    """Draw an option like `draw`. With `avoid_current`, the draw tends to differ from option `current`."""
    if not avoid_current:
        return draw(weights, size, u)
    if u < INDEPENDENT_SHARE:
        return draw(weights, size, u / INDEPENDENT_SHARE)
    return _draw_avoiding(weights, size, current, (u - INDEPENDENT_SHARE) / (1.0 - INDEPENDENT_SHARE))


@njit_inline
def draw_binary(first, total, current, u, avoid_current):
    """Draw 0 (weight `first`) or 1 (weight `total` - `first`). `avoid_current` is as in `draw_option`."""
    if not avoid_current:
        return 0 if first > u * total else 1
    if u < INDEPENDENT_SHARE:
        return 0 if first > u / INDEPENDENT_SHARE * total else 1
    current_weight = total - first if current else first
    switch = (u - INDEPENDENT_SHARE) / (1.0 - INDEPENDENT_SHARE) * current_weight < total - current_weight
    return 1 - current if switch else current
