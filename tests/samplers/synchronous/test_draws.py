"""Scaled products, whose exponent is the number of factors `SCALE` that were removed from the value, and draws."""

from collections import Counter
from math import log

import numpy as np
import pytest

from hierogram.samplers.synchronous.draws import (
    LOG_SCALE,
    SCALE,
    SCALED,
    Scaled,
    draw,
    log_product,
    multiply,
    raise_product,
    rescaled,
    value_at_scale,
)


def logarithm(product: Scaled) -> float:
    return log(product.value) + product.exponent * LOG_SCALE


@pytest.mark.parametrize("first", [Scaled(3.0, 2), Scaled(1e60, -1), Scaled(1e-40, 0)])
@pytest.mark.parametrize("second", [Scaled(5.0, -3), Scaled(1e70, 4)])
def test_the_logarithm_of_a_scaled_product_is_the_sum_of_logarithms(first: Scaled, second: Scaled) -> None:
    product = Scaled(*rescaled(multiply(first, second)))
    assert logarithm(product) == pytest.approx(logarithm(first) + logarithm(second), rel=1e-12)
    assert log_product(product) == pytest.approx(logarithm(product), rel=1e-12)
    assert product.value <= SCALE


@pytest.mark.parametrize("power", [0.2, 1.0, 2.5])
@pytest.mark.parametrize("product", [Scaled(3.0, 2), Scaled(1e-60, 0), Scaled(0.25, -7), Scaled(1.0, 0)])
def test_powers_of_products_are_normalized(product: Scaled, power: float) -> None:
    found = Scaled(*raise_product(product, power))
    assert logarithm(found) == pytest.approx(power * logarithm(product), rel=1e-12, abs=1e-12)
    assert 1.0 <= found.value <= SCALE


def test_products_of_many_factors_stay_in_range() -> None:
    product = Scaled(1.0, 0)
    for _ in range(1000):
        product = Scaled(*rescaled(multiply(product, Scaled(1e9, 0))))
    assert log_product(product) == pytest.approx(9000 * log(10), rel=1e-12)
    assert product.exponent > 100


def test_scaled_values_are_converted_to_the_scale_of_another() -> None:
    assert value_at_scale(Scaled(3.0, 5), Scaled(1.0, 5)) == 3.0
    assert value_at_scale(Scaled(3.0, 4), Scaled(1.0, 5)) == 3.0 / SCALE
    assert value_at_scale(Scaled(3.0, 6), Scaled(1.0, 5)) == 3.0 * SCALE
    assert value_at_scale(Scaled(3.0, -6), Scaled(1.0, 5)) == 0.0


def draw_shares(options: list[tuple[float, int]], draws: int = 400) -> list[float]:
    """Return the frequency of each option for evenly spaced u."""
    found: Counter[int] = Counter()
    for k in range(draws):
        weights = np.array(options, SCALED)
        found[int(draw(weights, len(options), (k + 0.5) / draws))] += 1
    return [found[k] / draws for k in range(len(options))]


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ([(1.0, 0), (3.0, 0)], [0.25, 0.75]),
        ([(SCALE, 6), (3.0, 7)], [0.25, 0.75]),
        ([(3.0, -2), (SCALE, -3)], [0.75, 0.25]),
        ([(2.0 / SCALE, 1), (6.0, 0)], [0.25, 0.75]),
        ([(1.0, 3), (5.0, 4), (1.0, 3)], [0.0, 1.0, 0.0]),
        ([(1e-200, 2), (1e-200, 2)], [0.5, 0.5]),
        ([(1.0, -40), (1.0, 0), (1.0, -80)], [0.0, 1.0, 0.0]),
    ],
)
def test_draws_follow_the_weights_at_any_scale(options: list[tuple[float, int]], shares: list[float]) -> None:
    assert draw_shares(options) == pytest.approx(shares, abs=0.01)
