"""Initial states of chains: variables that can be positive together, and two alternatives if not all can."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from tests.samplers.charts.chains import Known, charts, known_pair
from tests.samplers.charts.pairs import ITG, random_pair

from hierogram.samplers.charts.pruning.chain import PruningKernel, find_start, first_start

INSIDE_OUT = np.array([(0, 1), (1, 3), (2, 0), (3, 2), (4, 4)])
"""No ITG allows the first four links together, and every ITG allows any three of them."""


@cache
def inside_out(seed: int) -> Known:
    pair = random_pair(ITG, (5, 5), seed)
    pair.pairs[tuple(INSIDE_OUT.T)] += 1
    return known_pair(pair, INSIDE_OUT)


def weight(known: Known, positive: np.ndarray) -> float:
    """Return the summed weight of the derivations in which these variables are positive."""
    return float(known.weights[known.values[:, positive].all(axis=1)].sum())


@pytest.mark.parametrize("number", range(4))
def test_a_start_includes_every_variable_that_can_be_positive(number: int) -> None:
    known = charts()[number]
    positive = find_start(known.chart).positive[0]
    assert weight(known, positive) > 0
    for variable in np.flatnonzero(known.chart.preferred_links() & ~positive):
        more = positive.copy()
        more[variable] = True
        assert weight(known, more) == 0


def test_a_variable_excluded_too_early_is_added_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The patched conflicts exclude the last variable first, although it conflicts with no other."""
    pair = random_pair(ITG, (3, 3), 5)
    pair.pairs[:] = 1
    known = known_pair(pair, np.array([(0, 0), (0, 1), (2, 2)]))
    monkeypatch.setattr(known.chart, "count_conflicts", lambda: np.array([1, 2, 3]))
    positive, _ = first_start(known.chart, np.ones(3))
    assert positive.tolist() == [True, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_second_start_exchanges_the_best_variable_if_that_increases_the_weight(seed: int) -> None:
    known = inside_out(seed)
    found = find_start(known.chart)
    first, second = found.positive
    assert (first == first_start(known.chart, known.chart.doubts())[0]).all()
    [excluded] = np.flatnonzero(~first)
    exchanges = {}
    for place in np.flatnonzero(first):
        instead = first.copy()
        instead[excluded], instead[place] = True, False
        exchanges[place] = weight(known, instead)
    assert sum(total > 0 for total in exchanges.values()) == 3
    best = max(exchanges, key=lambda place: exchanges[place])
    if exchanges[best] > weight(known, first):
        assert second[excluded]
        assert not second[best]
        assert (first != second).sum() == 2
    else:
        assert (first == second).all()


@pytest.mark.slow
def test_the_two_starts_may_be_equal_or_different() -> None:
    """The seeds of the test of the second start cover both cases."""
    starts = (find_start(inside_out(seed).chart).positive for seed in range(3))
    same = [bool((first == second).all()) for first, second in starts]
    assert set(same) == {True, False}


@pytest.mark.parametrize("seed", range(3))
def test_doubts_include_the_doubts_given_the_negative_variables_of_each_start(seed: int) -> None:
    known = inside_out(seed)
    found = find_start(known.chart)
    before = wanted = known.chart.doubts()
    for start in found.positive:
        [excluded] = np.flatnonzero(~start)
        doubts = known.chart.doubts(~start)
        assert doubts[excluded] == 1.005
        wanted = np.maximum(wanted, doubts)
    np.testing.assert_allclose(found.doubts, wanted)
    assert (found.doubts > before).sum() >= 2


def test_starts_add_no_doubts_if_all_variables_can_be_positive() -> None:
    pair = random_pair(ITG, (3, 3), 5)
    pair.pairs[np.diag_indices(3)] += 1
    known = known_pair(pair, np.array([(0, 0), (1, 1), (2, 2)]))
    found = find_start(known.chart)
    assert np.array(found.positive).all()
    np.testing.assert_allclose(found.doubts, known.chart.doubts())


def test_variables_negative_in_both_starts_have_the_largest_doubt() -> None:
    """The last words of both sides prefer other words, which are already linked, so they have no better choice."""
    pair = random_pair(ITG, (3, 3), 5)
    pair.pairs[:] = [[1, 0, 0.5], [0, 1, 0], [0.5, 0, 0.1]]
    pair.source_nulls[:] = pair.target_nulls[:] = 1e-3
    known = known_pair(pair, np.array([(0, 0), (1, 1), (2, 2)]))
    found = find_start(known.chart)
    assert [start.tolist() for start in found.positive] == [[True, True, False]] * 2
    before = known.chart.doubts()
    assert found.doubts[2] == 1.005 > before[2]


@pytest.mark.parametrize("possible", [False, True])
def test_the_variables_of_a_start_are_positive_in_the_first_samples(possible: bool) -> None:
    kernel = PruningKernel((charts()[0] if possible else inside_out(1)).chart)
    for values, positive in zip(kernel.init(1), kernel.start.positive, strict=True):
        assert values[positive].all()


def test_any_three_of_four_inside_out_links_can_be_positive_but_not_all() -> None:
    known = inside_out(0)
    whole = np.array([True, True, True, True, False])
    assert weight(known, whole) == 0
    for three in combinations(range(4), 3):
        assert weight(known, np.isin(np.arange(5), three)) > 0
