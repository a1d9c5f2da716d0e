"""Draws of a variable from its conditional distribution: independent of its present value, or leaving it.

A draw that leaves the present value keeps it as seldom as it can [Suwa & Todo 2010]. The options lie on a circle, each
as long as its weight. A point is drawn within the present option and moved on by the largest weight; where it comes to
lie is the new value. So the conditional distribution stays as it is. Of two options this is the rule of [Liu 1996].
"""

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.counts.products import cumulate, draw, first_above

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
