"""Random streams keyed by (seed, pair, sweep): the same numbers for any order of work and any number of threads.

A stream is a splitmix64 counter [Steele, Lea & Flood 2014] that starts at a hash of its key. A draw takes a few
multiplications, and the state is one 64-bit word.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit_inline

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
    """Return the first state of the stream for a pair in a sweep. Sweep 0 is the initialization of the chain."""
    key = mix(np.uint64(seed) + GOLDEN)
    key = mix(key + np.uint64(pair) * GOLDEN + _ONE)
    return mix(key + np.uint64(sweep) * GOLDEN + _TWO)


@njit_inline
def advance(state: np.uint64) -> np.uint64:
    """Return the next state of a stream. `uniform` converts a state to a draw."""
    return np.uint64(state) + GOLDEN


@njit_inline
def uniform(state: np.uint64) -> float:
    """Convert a stream state to a uniform number in [0, 1) with 53 random bits."""
    return np.float64(mix(state) >> _S11) * _UNIT
