"""Doubt of a pair: deviations from a baseline that outliers hardly change."""

from statistics import NormalDist

import pytest

from hierogram.tools.scores.scoring import ScoreBaseline, doubt, make_baseline

USUAL = ScoreBaseline((1.0, 0.5), (-3.0, 0.25))


def test_the_baseline_estimates_mean_and_deviation_despite_outliers() -> None:
    normal = NormalDist(2.0, 0.3)
    values = [normal.inv_cdf((k + 0.5) / 999) for k in range(999)]
    twice = [2.0 + 2 * (value - 2.0) for value in values]
    usual = make_baseline(values, twice)
    assert usual.evidence == pytest.approx((2.0, 0.3), rel=0.01)
    assert usual.log_probability == pytest.approx((2.0, 0.6), rel=0.01)
    # A few noisy pairs hardly change the baseline.
    spoiled = make_baseline([*values, *[-50.0] * 20], twice)
    assert spoiled.evidence == pytest.approx(usual.evidence, rel=0.05)


def test_nearly_equal_values_have_a_minimum_deviation() -> None:
    usual = make_baseline([1.0] * 9 + [4.0], [1.0, 1.01, 0.99])
    assert usual == ((1.0, 0.05), (1.0, 0.05))


@pytest.mark.parametrize(
    ("evidence", "log_probability", "expected"),
    [(1.0, -3.0, 0.0), (0.0, -3.0, 2.0), (1.0, -3.5, 2.0), (0.0, -4.0, 4.0), (2.0, -2.0, -2.0), (2.0, -3.0, 0.0)],
)
def test_the_lower_score_determines_the_doubt(evidence: float, log_probability: float, expected: float) -> None:
    assert doubt(USUAL, evidence, log_probability, ["un", "mot"], ["a", "word"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("le 12 mai", "May 12", 0.0),
        ("le 12 mai", "May 13", 4.0),
        ("le 1 234", "the 1,234", 4.0),
        ("le 1.234", "the 1,234", 0.0),
        ("le", "the 7", 4.0),
        ("Paris est là", "paris is there now", 4 / 3),
        ("one two", "one two three", 4.0),
        ("one one two", "one three", 2.0),
        ("... !", "... !", 0.0),
    ],
)
def test_different_numbers_and_copied_words_are_doubted(source: str, target: str, expected: float) -> None:
    assert doubt(USUAL, 1.0, -3.0, source.split(), target.split()) == pytest.approx(expected)
