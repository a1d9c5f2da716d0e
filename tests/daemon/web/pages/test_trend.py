"""The trend of a log-likelihood: rising, falling or flat."""

import numpy as np
import pytest

from hierogram.daemon.web.pages.activity import FALLING, FLAT, RISING, SHORT, estimate_trend


def points(values: list[float], every: int = 10) -> list[tuple[int, float]]:
    return [(every * n, value) for n, value in enumerate(values, 1)]


@pytest.mark.parametrize("number", [8, 12, 40])
def test_rising_falling_and_flat_values_are_distinguished(number: int) -> None:
    noise = np.random.default_rng(number).normal(size=number)
    for slope, verdict in ((5.0, RISING), (-5.0, FALLING), (0.0, FLAT)):
        trend = estimate_trend(points((slope * np.arange(number) + noise).tolist()))
        assert trend.verdict == verdict
        assert trend.change == pytest.approx(slope / 10, abs=0.15)


def test_noise_alone_is_usually_flat() -> None:
    random = np.random.default_rng(7)
    verdicts = [estimate_trend(points(random.normal(size=40).tolist())).verdict for _ in range(200)]
    assert verdicts.count(FLAT) > 170


def test_warmup_is_excluded_if_enough_remains() -> None:
    values = [*np.linspace(-1000, 0, 20), *np.random.default_rng(3).normal(size=20)]
    trend = estimate_trend(points(values))
    assert (trend.verdict, trend.values, trend.first, trend.last) == (FLAT, 20, 210, 400)


def test_few_values_have_no_trend() -> None:
    assert estimate_trend([]) == (SHORT, 0, None, None, None, None)
    assert estimate_trend(points([1.0] * 5)).verdict == SHORT
    assert estimate_trend(points([1.0] * 9)).verdict == FLAT
