"""Slice sampling of one real variable [Neal 2003]: stepping out, then shrinkage."""

import math

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.streams import advance, uniform

_WIDTH = 1.0
_MAX_STEPS = 40


@njit_inline
def slice_sample(log_density, parameters, x, state):
    """Slice-sample a new value given the current value x; returns (value, stream state).

    `log_density(x, parameters)` is a kernel: the natural log of the density up to a constant. The slice is found by
    stepping out in steps of width 1. Any width leaves the density invariant; the variable should vary by about 1, so
    sample the logarithm of a scale.
    """
    state = advance(state)
    level = log_density(x, parameters) + math.log(1.0 - uniform(state))
    state = advance(state)
    low = x - _WIDTH * uniform(state)
    high = low + _WIDTH
    # Neal's random split of the steps between both ends keeps the bounded search reversible.
    state = advance(state)
    left = int(uniform(state) * _MAX_STEPS)
    right = _MAX_STEPS - 1 - left
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
