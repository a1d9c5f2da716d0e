"""Weighted means over masks, and the share of derivations covered by the masks of one selection."""

import numpy as np
import pytest

from hierogram.samplers.charts.pruning.chain import MaskResult, heaviest_selection, weighted_mean

A, B, C = (np.array(bits, bool) for bits in ([1, 1, 0], [1, 0, 1], [0, 1, 1]))
"""Selections of three variables."""


def mask(value: float, weight: float, selection: np.ndarray, positive: list[int], drawn: list[list[int]]) -> MaskResult:
    """Return a step with one mask and one feature."""
    values = np.array(positive, bool) & selection
    drawn_values = np.array(drawn, bool).reshape(-1, 3)
    return MaskResult(np.array([value]), np.log(weight), selection.tobytes(), values.tobytes(), drawn_values)


def some_steps() -> list[MaskResult]:
    """Return steps of three selections.

    After the first step, A occurs four times, with two masks of weights 1 and 3; B and C occur once each. In these
    steps, masks of A cover five of the seven derivations drawn from the charts of B and C.
    """
    first = mask(1.0, 1, A, [1, 1, 0], [[1, 1, 1], [1, 1, 0]])
    return [
        mask(50.0, 1, B, [0, 0, 0], [[0, 0, 0]]),
        first,
        mask(2.0, 3, A, [1, 0, 0], [[1, 0, 1]]),
        mask(9.0, 2, B, [1, 0, 1], [[1, 1, 1], [1, 0, 1], [0, 1, 1]]),
        first,
        mask(5.0, 1, C, [0, 1, 1], [[1, 1, 1], [1, 0, 1], [0, 0, 1], [1, 0, 0]]),
        first,
    ]


def test_covered_share_is_estimated_from_draws_of_other_selections() -> None:
    assert heaviest_selection(some_steps()) == pytest.approx((np.log(4), 5.5 / 8))


def test_with_one_selection_the_covered_share_follows_from_the_number_of_steps() -> None:
    steps = [step for step in some_steps() if step.selection == A.tobytes()]
    assert heaviest_selection(steps) == pytest.approx((np.log(4), 4.5 / 5))
    assert weighted_mean(steps) == pytest.approx([1 / 4 + 2 * 3 / 4])


def test_selections_are_weighted_by_the_inverse_square_of_the_share_they_omit() -> None:
    """The shares covered by A, B and C are in the ratio 4 : 3 : 1."""
    steps = some_steps()
    share = 5.5 / 8 * np.array([1, 3 / 4, 1 / 4])
    weight = np.array([4, 2, 1]) / (1 - share) ** 2
    weight /= weight.sum()
    values = np.array([1 / 4 + 2 * 3 / 4, (50 + 2 * 9) / 3, 5])
    assert weighted_mean(steps) == pytest.approx([weight @ values])
