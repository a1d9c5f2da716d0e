"""Rising powers, and powers of many numbers with one exponent.

Tables make powers with one exponent several times faster than the C library.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline

_CELLS, _HALVINGS = 256, 64
_TERMS = 6
_MAX_EXPONENT = 20.0
"""Maximum exponent for which the series is accurate. The C library raises to larger exponents."""

# Bits of the fraction of a float64, and bits of the number 1.
_FRACTION, _ONE = (1 << 52) - 1, 1023 << 52
_CELL_SHIFT, _CELL_MASK = 44, _CELLS - 1


class Powers(NamedTuple):
    """Tables of x^`exponent`."""

    exponent: float
    # float64[64]: power of 2^-k for each k.
    halves: NDArray[np.float64]
    # float64[256, 2]: inverse and power of the midpoint of each of 256 equal cells of [1, 2).
    cells: NDArray[np.float64]
    # float64[6]: coefficients of the binomial series of (1 + r)^`exponent`, |r| < 2^-9.
    terms: NDArray[np.float64]


def make_powers(exponent: float) -> Powers:
    """Return the tables of an exponent ≥ 0."""
    middles = 1.0 + (np.arange(_CELLS) + 0.5) / _CELLS
    terms = np.cumprod((exponent - np.arange(_TERMS)) / np.arange(1, _TERMS + 1), dtype=np.float64)
    halves = np.exp2(-exponent * np.arange(_HALVINGS, dtype=np.float64))
    return Powers(exponent, halves, np.stack([1.0 / middles, middles**exponent], axis=1), terms)


@njit_inline
def raise_to_power(powers, base):
    """Return base^exponent for 2^-63 ≤ base ≤ 1, with a relative error of 1e-14."""
    if powers.exponent > _MAX_EXPONENT:
        return base**powers.exponent
    bits = np.float64(base).view(np.int64)
    cell = (bits >> _CELL_SHIFT) & _CELL_MASK
    r = np.int64((bits & _FRACTION) | _ONE).view(np.float64) * powers.cells[cell, 0] - 1.0
    terms, square = powers.terms, r * r
    low = 1.0 + r * terms[0] + square * (terms[1] + r * terms[2])
    series = low + square * square * (terms[3] + r * (terms[4] + r * terms[5]))
    return powers.halves[1023 - (bits >> 52)] * powers.cells[cell, 1] * series


@njit
def log_rising(x, log_x, n):
    """Return ln(x (x+1) … (x+n-1)), or 0 if n = 0. `log_x` is ln x, because x may underflow to 0."""
    if n == 0:
        return 0.0
    if x < 1e-8:
        return log_x + math.lgamma(x + n) - math.lgamma(x + 1.0)
    return math.lgamma(x + n) - math.lgamma(x)
