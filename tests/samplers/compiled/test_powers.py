"""Powers from tables, compared with powers of the C library."""

import numpy as np
import pytest

from hierogram.samplers.compiled.powers import make_powers, raise_to_power


@pytest.mark.parametrize("exponent", [0.0, 0.15, 1.0, 3.0, 17 / 3, 9.0, 20.0, 99.0])
def test_powers_match_the_c_library(exponent: float) -> None:
    powers = make_powers(exponent)
    random = np.random.default_rng(1).random(2_000)
    edges = 1 + np.arange(257) / 256
    # The bases are random numbers, the edges of all cells in [1/2, 1], the next smaller number of each edge, and powers
    # of two.
    bases = [*1 - random, *random**20 + 2.0**-53, *edges / 2, *np.nextafter(edges / 2, 0), *2.0 ** -np.arange(64)]
    bases = np.array([base for base in bases if 2.0**-63 <= base <= 1])
    found, expected = np.array([raise_to_power(powers, base) for base in bases]), bases**exponent
    assert (abs(found - expected) <= np.maximum(1e-13 * expected, 1e-300)).all()
