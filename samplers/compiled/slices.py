"""Slice sampling of one real variable [Neal 2003]: stepping out, then shrinkage."""

import math

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.streams import advance, uniform

_WIDTH = 1.0
_MOST_STEPS = 40


@njit_inline
def slice_sample(log_density, parameters, x, state):
    """Draw the variable anew from its present value x; the draw, and the stream's state after it.

    `log_density(x, parameters)` is a kernel too, the natural log of the density up to a constant. The slice is looked
    for in steps of width 1, so the variable should vary by about as much: take the logarithm of a scale. The draw
    leaves the density as it is whatever the width.
    """
    state = advance(state)
    level = log_density(x, parameters) + math.log(1.0 - uniform(state))
    state = advance(state)
    low = x - _WIDTH * uniform(state)
    high = low + _WIDTH
    # Neal's split of the steps between both ends keeps the draw reversible though they are bounded.
    state = advance(state)
    left = int(uniform(state) * _MOST_STEPS)
    right = _MOST_STEPS - 1 - left
    while left > 0 and log_density(low, parameters) > level:
        low -= _WIDTH
        left -= 1
    while right > 0 and log_density(high, parameters) > level:
        high += _WIDTH
        right -= 1
    while True:
        state = advance(state)
        proposed = low + (high - low) * uniform(state)
        if log_density(proposed, parameters) >= level:
            return proposed, state
        if proposed < x:
            low = proposed
        else:
            high = proposed
