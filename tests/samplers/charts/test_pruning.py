"""Randomized pruning: what a step is, that the chain leaves p(T) invariant, and that its means are the expectations."""

from itertools import combinations

import numpy as np
import pytest
from tests.reference.goodness import p_value
from tests.samplers.charts.chains import Known, charts, small_charts

from hierogram.samplers.charts.hypergraph import Key, score
from hierogram.samplers.charts.pruning.chain import PruningKernel, averages, soft_counts
from hierogram.samplers.charts.pruning.selection import first_selection, next_selection, selected_size

KINDS = ("ITG", "ITG with few variables", "mixed rules", "sentence")
LARGER = ("ITG", "mixed rules with empty sides", "mixed rules", "sentence")


def following(selected: tuple[int, ...], variables: int) -> list[tuple[int, ...]]:
    """All selections that may come next, each as likely [BPK09 §3.2]."""
    others = tuple(v for v in range(variables) if v not in selected)
    size = len(selected) - len(others)
    return [tuple(sorted(others + part)) for part in combinations(selected, size)]


@pytest.mark.parametrize("variables", range(2, 12))
def test_selections_keep_their_size_and_take_in_all_others(variables: int) -> None:
    selected = first_selection(variables, Key(1, 0, 0))
    size = selected_size(variables)
    assert 0 < size < variables
    for step in range(1, 30):
        after = next_selection(selected, Key(1, 0, step))
        assert after.sum() == size == selected.sum()
        assert (after | selected).all()
        selected = after


def test_fewer_than_two_variables_are_not_selected() -> None:
    for variables in (0, 1):
        selected = first_selection(variables, Key(1, 0, 0))
        assert not selected.any()
        assert not next_selection(selected, Key(1, 0, 1)).any()


def test_each_next_selection_is_as_likely() -> None:
    start = first_selection(6, Key(3, 0, 0))
    options = following(tuple(np.flatnonzero(start).tolist()), 6)
    drawn = [tuple(np.flatnonzero(next_selection(start, Key(3, 1, step))).tolist()) for step in range(6000)]
    assert len(options) == 6
    assert p_value(drawn, dict.fromkeys(options, 1 / 6)) > 1e-5


@pytest.mark.parametrize("number", range(4), ids=LARGER)
def test_a_step_is_what_the_model_page_says(number: int) -> None:
    """Soft counts are those of the new selection at the old values; all values are then read from what is drawn."""
    known = charts()[number]
    kernel = PruningKernel(known.system, number)
    state = kernel.init(4)
    assert (known.values == state.assigned).all(axis=1).any()
    changed = 0
    for step in range(1, 40):
        after, pruned = kernel.step(4, state, step)
        assert (after.selected == next_selection(state.selected, Key(4, number, 2 * step + 1))).all()
        kept = np.flatnonzero((known.values == state.assigned)[:, after.selected].all(axis=1))
        np.testing.assert_allclose(pruned.features, known.expected(kept), atol=1e-10)
        total = np.log(known.weights[kept].sum()) + known.system.log_scale
        assert pruned.log_total == pytest.approx(total, abs=1e-9)
        assert (known.values[kept] == after.assigned).all(axis=1).any()
        changed += (after.assigned != state.assigned).any()
        state = after
    assert changed > 3


@pytest.mark.parametrize("number", range(4), ids=KINDS)
def test_the_composed_kernels_leave_the_posterior_invariant(number: int) -> None:
    """States are a selection and a class of derivations; the probabilities are those of the compiled charts."""
    known: Known = small_charts()[number]
    variables = known.system.variables
    selections = list(combinations(range(variables), selected_size(variables)))
    classes = len(known.weights)
    posterior = known.weights / known.weights.sum()
    scale = np.exp(known.system.log_scale)
    kernels = {}
    for selection in selections:
        selected = np.isin(np.arange(variables), selection)
        kernels[selection] = np.zeros((classes, classes))
        for k, assigned in enumerate(known.values):
            kept = np.flatnonzero((known.values == assigned)[:, selected].all(axis=1))
            total = score(known.system.build(selected, assigned)).total / scale
            kernels[selection][k, kept] = known.weights[kept] / total
        np.testing.assert_allclose(kernels[selection].sum(axis=1), 1, atol=1e-10)
        np.testing.assert_allclose(posterior @ kernels[selection], posterior, atol=1e-10)
    place = {selection: k for k, selection in enumerate(selections)}
    joint = np.zeros((len(selections), classes, len(selections), classes))
    for selection in selections:
        options = following(selection, variables)
        for after in options:
            joint[place[selection], :, place[after], :] += kernels[after] / len(options)
    whole = joint.reshape(len(selections) * classes, -1)
    stationary = np.tile(posterior, len(selections)) / len(selections)
    np.testing.assert_allclose(stationary @ whole, stationary, atol=1e-10)
    reached = np.linalg.matrix_power(whole / 2 + np.eye(len(whole)) / 2, 4096)
    reached = reached.reshape(len(whole), len(selections), classes).sum(axis=1)
    np.testing.assert_allclose(reached, np.tile(posterior, (len(whole), 1)), atol=1e-6)


@pytest.mark.parametrize("number", range(4), ids=LARGER)
def test_long_run_means_are_the_exact_expectations(number: int) -> None:
    known = charts()[number]
    found = soft_counts(known.system, 2500, key=7, number=number)
    exact = known.expected(np.arange(len(known.weights)))
    assert np.abs(found.mean - exact).max() < 0.05
    assert (np.abs(found.mean - exact) <= 4 * found.error + 1e-9).all()


def test_without_variables_one_mask_is_exact() -> None:
    known = charts()[0]
    known.system.variables = 0
    known.system.links = np.zeros((0, 2), np.int32)
    found = soft_counts(known.system, 10, key=1)
    np.testing.assert_allclose(found.mean, known.expected(np.arange(len(known.weights))), atol=1e-10)
    assert not found.error.any()


def test_errors_of_averages_are_those_of_batches() -> None:
    rows = np.random.default_rng(1).normal(size=(10_000, 2))
    found = averages(rows)
    assert found.error == pytest.approx(0.01, rel=0.3)
    assert np.isnan(averages(rows[:1]).error).all()
