"""Random variates from a keyed stream.

Functions return (draw, state of the last number used). They call `advance` before they use a number, and callers that
use the next number of the stream themselves must also call it.

Slice sampling of one real variable steps out to find an interval, then shrinks it [Neal 2003].
"""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, uniform


@njit
def draw_normal(state):
    """Draw a standard normal variate with two numbers of the stream [Box & Muller 1958]."""
    state = advance(state)
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    state = advance(state)
    return radius * math.cos(2.0 * math.pi * uniform(state)), state


@njit
def draw_gamma(shape, state):
    """Draw a gamma variate of scale 1 and shape ≥ 1 [Marsaglia & Tsang 2000]."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x, state = draw_normal(state)
        v = (1.0 + c * x) ** 3
        state = advance(state)
        u = uniform(state)
        if v > 0.0 and math.log(1.0 - u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v, state


@njit
def draw_beta(a, b, state):
    """Draw a variate of Beta(a, b), with a ≥ 1 and b ≥ 1."""
    x, state = draw_gamma(np.float64(a), state)
    y, state = draw_gamma(np.float64(b), state)
    return x / (x + y), state


_WIDTH = 1.0
_MAX_STEPS = 40


@njit_inline
def slice_sample(log_density, parameters, x, state):
    """Slice-sample a new value given the current value x. Returns (value, stream state).

    `log_density(x, parameters)` is a compiled function that returns the natural log of the density up to a constant.
    Steps have width 1, which is efficient if the variable varies by about 1. For a scale parameter, sample its
    logarithm.
    """
    state = advance(state)
    level = log_density(x, parameters) + math.log(1.0 - uniform(state))
    state = advance(state)
    low = x - _WIDTH * uniform(state)
    high = low + _WIDTH
    # Split the limited number of steps at random between both ends, as in [Neal 2003], to keep the search reversible.
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
