"""Slice sampling follows a density, also if it is much narrower or wider than the step."""

import math

import numpy as np
import pytest

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.streams import slice_sample, stream


@njit
def log_normal_density(x, parameters):
    """Return the log of a normal density, up to a constant. `parameters` are mean and standard deviation."""
    distance = (x - parameters[0]) / parameters[1]
    return -0.5 * distance * distance


@njit
def log_density_of_half(x, parameters):
    """Return the log of a normal density, up to a constant, for x above 0, and minus infinity for other x."""
    return log_normal_density(x, parameters) if x > 0.0 else -math.inf


@njit
def fill(log_density_is_half, mean, deviation, start, drawn):
    state = stream(5, 0, 0)
    x = start
    for k in range(len(drawn)):
        if log_density_is_half:
            x, state = slice_sample(log_density_of_half, (mean, deviation), x, state)
        else:
            x, state = slice_sample(log_normal_density, (mean, deviation), x, state)
        drawn[k] = x


def share_below(x: float, mean: float, deviation: float) -> float:
    return (1 + math.erf((x - mean) / deviation / math.sqrt(2))) / 2


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (3.0, 0.05), (-2.0, 20.0)])
def test_slice_samples_follow_the_density(mean: float, deviation: float) -> None:
    drawn = np.zeros(60_000)
    fill(False, mean, deviation, mean + deviation, drawn)
    for at in (-1.5, -0.5, 0.0, 0.5, 1.5):
        x = mean + at * deviation
        assert (drawn < x).mean() == pytest.approx(share_below(x, mean, deviation), abs=0.02)


def test_values_of_zero_density_are_never_drawn() -> None:
    drawn = np.zeros(40_000)
    fill(True, 0.0, 1.0, 0.1, drawn)
    assert drawn.min() > 0
    assert (drawn < 1).mean() == pytest.approx(2 * share_below(1, 0, 1) - 1, abs=0.02)
