"""Random streams keyed by (seed, pair, sweep), independent of the order of work and the threads.

A stream is a splitmix64 counter [Steele, Lea & Flood 2014] that starts at a hash of its key. A draw takes a few
multiplications, and the state is one 64-bit word. Functions that draw variates call `advance` before they use a
number, and return (variate, state of the last number used). Callers must also call `advance` before they use a number.
"""

import math

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_ONE, _TWO = np.uint64(1), np.uint64(2)
_UNIT = 2.0**-53


@njit_inline
def mix(x: np.uint64) -> np.uint64:
    """Apply the finalizer of splitmix64 to a 64-bit word."""
    x = np.uint64(x)
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@njit_inline
def stream(seed: int, pair: int, sweep: int) -> np.uint64:
    """Return the first state of a pair's stream in a sweep. Sweep 0 is the initialization of the chain."""
    key = mix(np.uint64(seed) + GOLDEN)
    key = mix(key + np.uint64(pair) * GOLDEN + _ONE)
    return mix(key + np.uint64(sweep) * GOLDEN + _TWO)


@njit_inline
def advance(state: np.uint64) -> np.uint64:
    """Return the next state of a stream, which `uniform` converts to a number."""
    return np.uint64(state) + GOLDEN


@njit_inline
def uniform(state: np.uint64) -> float:
    """Convert a stream state to a uniform number in [0, 1) with 53 random bits."""
    return np.float64(mix(state) >> _S11) * _UNIT


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


@njit_inline
def draw_tables(count, mass, state):
    """Draw the table count of `count` customers (Chinese restaurant process). `mass` is α P0, linear."""
    tables = 1 if count > 0 else 0
    for seated in range(1, count):
        state = advance(state)
        if uniform(state) * (seated + mass) < mass:
            tables += 1
    return tables, state


_WIDTH = 1.0
_MAX_STEPS = 40


@njit_inline
def slice_sample(log_density, parameters, x, state):
    """Slice-sample a new value given the current value x [Neal 2003]. Returns (value, stream state).

    `log_density(x, parameters)` is a compiled function that returns the natural log of the density up to a constant.
    Steps have width 1, which is efficient if the variable varies by about 1. For a scale parameter, sample its
    logarithm.
    """
    state = advance(state)
    level = log_density(x, parameters) + math.log(1.0 - uniform(state))
    state = advance(state)
    low = x - _WIDTH * uniform(state)
    high = low + _WIDTH
    # Split the limited number of steps at random between both ends, as in the paper, to keep the search reversible.
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
