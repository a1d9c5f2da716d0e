"""Statistics of masks: the mean, its error, and the share covered by the masks of one selection."""

import numpy as np
import pytest
from tests.samplers.charts.chains import charts

from hierogram.samplers.charts.pruning.chain import (
    Pruned,
    PruningKernel,
    averages,
    batch_error,
    chained,
    cover,
    weighed_mean,
)

A, B, C = (np.array(bits, bool) for bits in ([1, 1, 0], [1, 0, 1], [0, 1, 1]))
"""Selections of three variables."""


def mask(value: float, weight: float, selection: np.ndarray, positive: list[int], drawn: list[list[int]]) -> Pruned:
    """Return one mask with one feature."""
    values = np.array(positive, bool) & selection
    drawn_values = np.array(drawn, bool).reshape(-1, 3)
    return Pruned(np.array([value]), np.log(weight), 1, selection.tobytes(), values.tobytes(), drawn_values)


def some_steps() -> list[Pruned]:
    """Return steps of three selections.

    Selection A occurs four times, with two masks of weights 1 and 3; B and C once each. Five of the seven derivations
    drawn from the charts of B and C after the first step are covered by masks of A.
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


def test_the_share_of_a_selection_is_estimated_from_derivations_drawn_elsewhere() -> None:
    found = cover(some_steps())
    assert found.log_total == pytest.approx(np.log(4))
    assert found.share == pytest.approx(5.5 / 8)
    # Two steps remain: batches of one.
    assert found.error == pytest.approx(np.hypot(1 / 8, np.std([2 / 3, 3 / 4], ddof=1) / np.sqrt(2)))


def test_without_another_selection_each_step_counts_once() -> None:
    steps = [step for step in some_steps() if step.selection == A.tobytes()]
    found = cover(steps)
    assert found.log_total == pytest.approx(np.log(4))
    assert (found.share, found.error) == (pytest.approx(4.5 / 5), pytest.approx(1 / 5))
    assert weighed_mean(steps) == pytest.approx([1 / 4 + 2 * 3 / 4])
    assert np.isnan(averages(steps)[1]).all()


def test_selections_are_weighted_by_the_share_they_omit() -> None:
    """B covers 3 for every 4 that A covers, C covers 1."""
    steps = some_steps()
    share = 5.5 / 8 * np.array([1, 3 / 4, 1 / 4])
    weight = np.array([4, 2, 1]) / (1 - share) ** 2
    weight /= weight.sum()
    values = np.array([1 / 4 + 2 * 3 / 4, (50 + 2 * 9) / 3, 5])
    mean, error = averages(steps)
    assert mean == pytest.approx([weight @ values])
    assert weighed_mean(steps) == pytest.approx(mean)
    spread = weight @ (values - weight @ values) ** 2
    kept = weight @ share
    chance = batch_error(np.array([step.features for step in steps]))[0] ** 2
    assert error == pytest.approx([np.sqrt(kept * spread + (1 - kept) * chance)])


def test_errors_of_steps_are_batch_errors() -> None:
    rows = np.random.default_rng(1).normal(size=(10_000, 2))
    assert batch_error(rows) == pytest.approx(0.01, rel=0.3)
    assert np.isnan(batch_error(rows[:1])).all()


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize("number", [0, 1, 3], ids=["ITG", "mixed rules with empty sides", "sentence"])
def test_reported_errors_are_close_to_the_real_ones(number: int, chains: int) -> None:
    """Over 60 runs, compare the actual errors of the means and the total weight with the reported ones."""
    known = charts()[number]
    exact = known.expected(np.arange(len(known.weights)))
    total = np.log(known.weights.sum()) + known.system.log_scale
    means, totals = [], []
    for seed in range(60):
        # With more masks, two chains see nearly every mask of the last two selections, and little error remains to
        # report.
        masks = 16 if chains == 2 and number > 0 else 50
        steps = chained(PruningKernel(known.system, number, chains), masks, key=seed)
        (mean, error), most = averages(steps), cover(steps)
        means.append((mean - exact, error))
        totals.append((most.log_total - np.log(most.share) - total, most.error / most.share))
    for pairs in (means, totals):
        real, told = np.sqrt(np.mean(np.square(pairs), axis=(0, *range(2, np.ndim(pairs)))))
        assert told / 3 < real < 3 * told
