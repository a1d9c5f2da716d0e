"""The total weight of all derivations, estimated from masks, equals that of the whole chart."""

import numpy as np
import pytest
from tests.samplers.charts.chains import charts

from hierogram.samplers.charts.pruning.chain import PruningKernel, chained, cover, estimate


@pytest.mark.parametrize("number", range(4))
def test_the_estimated_total_equals_the_whole_chart(number: int) -> None:
    known = charts()[number]
    found = estimate(known.system, 800, key=3, number=number)
    exact = np.log(known.weights.sum()) + known.system.log_scale
    assert 0 < found.error < 0.15
    assert abs(found.log_total - exact) < 4 * found.error
    expected = known.expected(np.arange(len(known.weights)))
    assert (np.abs(found.features - expected) <= 5 * found.feature_errors + 1e-9).all()


def test_the_total_is_the_covered_weight_over_its_share() -> None:
    for number, known in enumerate(charts()):
        steps = chained(PruningKernel(known.system, number), 8, key=5)
        most = cover(steps)
        assert most.share < 0.99
        found = estimate(known.system, 8, key=5, number=number)
        assert found.log_total == pytest.approx(most.log_total - np.log(most.share))
        assert found.error == pytest.approx(most.error / most.share)


def test_few_masks_give_a_finite_total() -> None:
    for number, known in enumerate(charts()):
        for masks in (1, 2, 5):
            found = estimate(known.system, masks, key=1, number=number)
            assert np.isfinite(found.log_total)
            assert found.log_total < np.log(known.weights.sum()) + known.system.log_scale + 5
