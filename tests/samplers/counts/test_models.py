"""Rule models for counts beyond the precomputed table, and for probabilities that underflow a float."""

from math import exp, log

import numpy as np
import pytest

from hierogram.samplers.counts import models
from hierogram.samplers.counts.models import (
    TABLE_UNIT,
    Model,
    ModelSettings,
    build_model,
    discounted_count,
    estimate_tables,
    is_long,
    log_probability,
    more_tables,
    probability,
)

SMALL = 5
"""Number of precomputed counts."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """Model with default settings and only five precomputed counts."""
    monkeypatch.setattr(models, "_TABULATED_COUNTS", SMALL)
    return build_model(ModelSettings(), 30, 40, 200)


def units(tables: float) -> int:
    return round(tables * TABLE_UNIT)


def test_the_table_of_precomputed_counts_has_16384_entries() -> None:
    assert len(build_model(ModelSettings(), 30, 40, 20).by_count) == 1 << 14


@pytest.mark.parametrize("count", range(1, 3 * SMALL))
def test_estimated_tables_are_the_count_to_the_power_of_the_discount(model: Model, count: int) -> None:
    assert estimate_tables(model, count) == pytest.approx(units(count**0.5), abs=2)
    assert more_tables(model, count) == estimate_tables(model, count + 1) - estimate_tables(model, count)
    assert discounted_count(model, count) == pytest.approx(count - 0.5 * count**0.5, rel=1e-12)


def test_a_rule_without_customers_has_no_table(model: Model) -> None:
    assert (estimate_tables(model, 0), more_tables(model, 0), discounted_count(model, 0)) == (0, units(1.0), 0.0)


@pytest.mark.parametrize("count", [0, 1, 3, SMALL - 1, SMALL, 4 * SMALL, 20_000])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
def test_pitman_yor_probabilities_equal_the_closed_form(
    monkeypatch: pytest.MonkeyPatch, count: int, discount: float
) -> None:
    monkeypatch.setattr(models, "_TABULATED_COUNTS", SMALL)
    model = build_model(ModelSettings(discount=discount, strength=2.0, rate=3.0), 30, 40, 200)
    length, tokens, tables = 4, count + 7, count**discount + 3.5
    poisson = exp(length * log(3.0) - 3.0 - log(24))
    drawn = count - discount * count**discount if count else 0.0
    expected = poisson * (drawn + (2.0 + discount * tables) * poisson) / (tokens + 2.0)
    arguments = (model, count, length, 2, 1, tokens, units(tables), 1000)
    above, below = probability(*arguments)
    assert above / below == pytest.approx(expected, rel=1e-9)
    assert exp(log_probability(*arguments)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_probabilities_and_log_probabilities_of_a_dirichlet_process_equal_the_closed_form(count: int) -> None:
    model = build_model(ModelSettings("dirichlet", 100.0), 30, 40, 200)
    arguments = (model, count, 9, 3, 2, 0, 0, 12_345)
    expected = (count + 100.0 * 30.0**-3 * 40.0**-2) / (12_345 + 100.0)
    above, below = probability(*arguments)
    assert above / below == pytest.approx(expected, rel=1e-12)
    assert exp(log_probability(*arguments)) == pytest.approx(expected, rel=1e-12)


def test_rules_count_as_long_if_their_probability_may_underflow() -> None:
    model = build_model(ModelSettings(), 30, 40, 400)
    lengths = np.arange(401)
    long = [bool(is_long(model, int(length), 0, 0)) for length in lengths]
    first = long.index(True)
    assert all(long[first:])
    assert 2 * model.by_length[first]["log_poisson"] < -250.0 <= 2 * model.by_length[first - 1]["log_poisson"]
    process = build_model(ModelSettings("dirichlet", 100.0), 30, 40, 400)
    assert not is_long(process, 0, 30, 30)
    assert is_long(process, 0, 40, 40)
