"""Random variates from a keyed stream. Functions take the stream state and return (draw, next state)."""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import advance, uniform


@njit
def draw_normal(state):
    """Draw a standard normal variate [Box & Muller 1958]; uses two numbers of the stream."""
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
def draw_beta(first, second, state):
    """Draw a beta variate with both parameters ≥ 1."""
    x, state = draw_gamma(np.float64(first), state)
    y, state = draw_gamma(np.float64(second), state)
    return x / (x + y), state
