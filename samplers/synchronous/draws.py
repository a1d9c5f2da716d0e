"""Products of many factors, and draws from options that such products weigh.

A product that would leave the range of a 64-bit float is value * SCALE^exponent. A draw of a variable from its
conditional distribution is independent of the present value, or leaves it [Suwa & Todo 2010; Liu 1996]; docs/model.md,
section 4.
"""

import math
from typing import NamedTuple

import numpy as np

from hierogram.samplers.compiled.jit import njit_inline

SCALE = 2.0**256
"""Numbers of this size are taken out of a value, and counted."""
UNSCALE = 1.0 / SCALE
LOG_SCALE = 256 * math.log(2.0)


SCALED = np.dtype([("value", np.float64), ("exponent", np.int64)])
"""As `Scaled`, in arrays."""


class Scaled(NamedTuple):
    """value * SCALE^exponent: the linear value of a product, and its scale exponent."""

    value: float
    exponent: int


@njit_inline
def times(product, other):
    """The product of two, as it is."""
    return Scaled(product.value * other.value, product.exponent + other.exponent)


@njit_inline
def scaled_down(product):
    """The same product with a value of at most SCALE, if it was at most SCALE^2."""
    if product.value > SCALE:
        return Scaled(product.value * UNSCALE, product.exponent + 1)
    return product


@njit_inline
def value_beside(product, other):
    """The value of a product in units of another's scale."""
    difference = product.exponent - other.exponent
    return product.value if difference == 0 else product.value * SCALE**difference


@njit_inline
def log_of(product):
    """Natural logarithm."""
    return math.log(product.value) + product.exponent * LOG_SCALE


@njit_inline
def raised(product, power):
    """The product to a power."""
    logarithm = power * log_of(product)
    exponent = math.floor(logarithm / LOG_SCALE)
    return Scaled(math.exp(logarithm - exponent * LOG_SCALE), np.int64(exponent))


@njit_inline
def cumulate(weights, size):
    """Overwrite the values of `size` weights SCALED by their sums up to each of them, at one scale; the whole sum."""
    most = np.int64(-1 << 62)
    for k in range(size):
        weight = weights[k]
        while weight["value"] < 1.0:
            weight["value"] *= SCALE
            weight["exponent"] -= 1
        most = max(most, weight["exponent"])
    total = 0.0
    for k in range(size):
        weight = weights[k]
        if weight["exponent"] == most:
            total += weight["value"]
        elif weight["exponent"] == most - 1:
            total += weight["value"] / SCALE
        weight["value"] = total
    return total


@njit_inline
def first_above(weights, size, threshold):
    """The first of `size` options whose cumulated weight exceeds a threshold; the last one where none does."""
    for k in range(size):
        if weights[k]["value"] > threshold:
            return k
    return size - 1


@njit_inline
def draw(weights, size, u):
    """The first of `size` options whose cumulated weight exceeds u of the sum; `weights` SCALED is overwritten."""
    total = cumulate(weights, size)
    return first_above(weights, size, u * total)


INDEPENDENT_SHARE = 0.1
"""So many of the draws do not depend on the present value: variables that only left it would go round in step."""


@njit_inline
def _leave(weights, size, present, u):
    """The value after `present`, its weights SCALED overwritten."""
    total = cumulate(weights, size)
    below = 0.0
    largest = 0.0
    start = 0.0
    for k in range(size):
        sum_ = weights[k]["value"]
        largest = max(largest, sum_ - below)
        if k == present:
            start = below + u * (sum_ - below)
        below = sum_
    place = start + largest
    if place >= total:
        place -= total
    return first_above(weights, size, place)


@njit_inline
def draw_option(weights, size, present, u, leaving):
    """One of `size` options by a uniform number; `weights` SCALED is overwritten."""
    if not leaving:
        return draw(weights, size, u)
    if u < INDEPENDENT_SHARE:
        return draw(weights, size, u / INDEPENDENT_SHARE)
    return _leave(weights, size, present, (u - INDEPENDENT_SHARE) / (1.0 - INDEPENDENT_SHARE))


@njit_inline
def _draw_either(first, total, u):
    return 0 if first > u * total else 1


@njit_inline
def draw_of_two(first, total, present, u, leaving):
    """0, which has the weight `first` of `total`, or 1, by a uniform number."""
    if not leaving:
        return _draw_either(first, total, u)
    if u < INDEPENDENT_SHARE:
        return _draw_either(first, total, u / INDEPENDENT_SHARE)
    own = total - first if present else first
    left = (u - INDEPENDENT_SHARE) / (1.0 - INDEPENDENT_SHARE) * own < total - own
    return 1 - present if left else present
