"""Randomized pruning: the steps, invariance of p(T) under the chain, and convergence of its means."""

from itertools import combinations, permutations

import numpy as np
import pytest
from tests.reference.goodness import p_value
from tests.samplers.charts.chains import Known, charts, small_charts
from tests.samplers.charts.pairs import ANY, X1, X2, X3, log_scale

from hierogram.samplers.charts.hypergraph import StreamKey, inside_outside
from hierogram.samplers.charts.pairs import make_rules
from hierogram.samplers.charts.pruning.chain import (
    MaskResult,
    PruningKernel,
    count_free,
    count_selected,
    doubtful_selection,
    find_start,
    run_chain,
    step_selection,
    weighted_mean,
)
from hierogram.tools.lab.papers.pruning.pairs import branching
from hierogram.tools.lab.papers.pruning.single_chain import SingleChain, first_selection, next_selection

KINDS = ("ITG", "ITG with few variables", "mixed rules", "uniform selections", "mixed rules with many variables")
LARGER = ("ITG", "mixed rules with empty sides", "mixed rules", "uniform selections")


def next_selections(selected: tuple[int, ...], variables: int) -> list[tuple[int, ...]]:
    """Return all possible next selections, each equally likely [BPK09 §3.2]."""
    others = tuple(v for v in range(variables) if v not in selected)
    size = len(selected) - len(others)
    return [tuple(sorted(others + part)) for part in combinations(selected, size)]


def free_selections(doubts: np.ndarray, free: int) -> dict[tuple[int, ...], float]:
    """Return the probability of each selection if `free` variables are drawn by doubt without replacement."""
    variables = range(len(doubts))
    found: dict[tuple[int, ...], float] = {}
    for order in permutations(variables, free):
        chance, left = 1.0, float(doubts.sum())
        for v in order:
            chance *= doubts[v] / left
            left -= doubts[v]
        selection = tuple(v for v in variables if v not in order)
        found[selection] = found.get(selection, 0.0) + chance
    return found


def moves(known: Known, selection: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Return the probability of each selection that may follow the given one."""
    if known.is_uniform:
        options = next_selections(selection, known.chart.variables)
        return dict.fromkeys(options, 1 / len(options))
    doubts = known.chart.doubts()
    return free_selections(doubts, len(doubts) - count_selected(len(doubts), known.chart.branching))


@pytest.mark.parametrize("variables", range(2, 12))
def test_the_next_selection_keeps_its_size_and_contains_omitted_variables(variables: int) -> None:
    selected = first_selection(variables, 2, StreamKey(1, 0, 0))
    size = count_selected(variables, 2)
    assert 0 < size < variables
    for step in range(1, 30):
        after = next_selection(selected, StreamKey(1, 0, step))
        assert after.sum() == size == selected.sum()
        assert (after | selected).all()
        selected = after


def test_larger_rules_leave_fewer_variables_free() -> None:
    """About a third of the variables are free with binary rules, and a quarter with ternary rules."""
    free = {most: [v - count_selected(v, most) for v in range(13)] for most in (2, 3)}
    assert free[2] == [0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4]
    assert free[3] == [0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3]
    for most in (2, 3, 4):
        assert count_selected(600, most) == 600 * most // (most + 1)


def test_wide_steps_free_more_variables() -> None:
    """Every fourth step frees half as many more. Steps 8, 16, 32 and other powers of two free 70 % of all variables."""
    free = {
        (most, step): [count_free(np.full(v, 0.001), most, step) for v in range(13)]
        for most in (2, 3)
        for step in (1, 4, 8)
    }
    for most in (2, 3):
        assert free[most, 1] == [v - count_selected(v, most) for v in range(13)]
        assert free[most, 8] == [0, 1, 1, 2, 3, 4, 5, 5, 6, 7, 7, 8, 9]
    assert free[2, 4] == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert free[3, 4] == [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5]
    few = np.full(100, 0.001)
    found = {step: count_free(few, 2, step) for step in range(1, 70)}
    assert [step for step, size in found.items() if size == 70] == [8, 16, 32, 64]
    assert [step for step, size in found.items() if size == 50] == [
        step for step in range(4, 70, 4) if step not in (8, 16, 32, 64)
    ]
    assert {size for step, size in found.items() if step % 4} == {33}


def test_the_number_of_free_variables_follows_the_doubts() -> None:
    """The number is the sum of doubts, rounded up, plus 1 at every fourth step.

    It has a minimum, and a maximum of half (at every fourth step: two thirds) of all variables, rounded up.
    """
    for number in range(1, 21):
        doubts = np.full(20, (number - 0.5) / 20)
        assert count_free(doubts, 2, 1) == min(max(number, 7), 10)
        assert count_free(doubts, 3, 1) == min(max(number, 5), 10)
        assert count_free(doubts, 2, 4) == min(max(number + 1, 10), 14)
        assert count_free(doubts, 3, 4) == min(max(number + 1, 8), 14)
        assert count_free(doubts, 3, 8) == 14
    assert count_free(np.full(21, 0.9), 2, 1) == 11
    assert count_free(np.full(21, 0.9), 2, 4) == 14


def test_rules_with_given_words_do_not_increase_the_branching() -> None:
    def most(*sides: tuple[list[int], list[int]]) -> int:
        return branching(make_rules(list(sides), np.ones(len(sides)), empty_sides=True))

    assert most(([ANY], [ANY]), ([ANY], [])) == 0
    assert most(([X1, X2], [X2, X1]), ([X1], [ANY, X1])) == 2
    assert most(([X1, X2], [X1, X2]), ([X1, ANY, X2, X3], [X2, X1, X3])) == 3
    assert most(([X1, X2], [X1, X2]), ([X1, 7, X2, X3], [X2, X1, X3]), ([X1, X2, X3], [X3, 7, X2, X1])) == 2
    assert [known.chart.branching for known in charts()] == [2, 3, 3, 2]


def test_fewer_than_two_variables_are_not_selected() -> None:
    for variables in (0, 1):
        selected = first_selection(variables, 2, StreamKey(1, 0, 0))
        assert not selected.any()
        assert {count_free(np.ones(variables), 2, step) for step in (1, 4, 8)} == {variables}
        assert not doubtful_selection(np.ones(variables), variables, StreamKey(1, 0, 0)).any()
        assert not next_selection(selected, StreamKey(1, 0, 1)).any()


def test_next_selections_are_equally_likely() -> None:
    start = first_selection(6, 2, StreamKey(3, 0, 0))
    options = next_selections(tuple(np.flatnonzero(start).tolist()), 6)
    drawn = [tuple(np.flatnonzero(next_selection(start, StreamKey(3, 1, step))).tolist()) for step in range(6000)]
    assert len(options) == 6
    assert p_value(drawn, dict.fromkeys(options, 1 / 6)) > 1e-5


def test_freed_variables_are_drawn_without_replacement_in_proportion_to_their_doubts() -> None:
    doubts = np.array([0.02, 1.0, 0.3, 0.05, 0.5, 0.02, 0.1])
    chances = free_selections(doubts, 2)
    assert sum(chances.values()) == pytest.approx(1)
    drawn = [tuple(np.flatnonzero(doubtful_selection(doubts, 2, StreamKey(3, 1, step)))) for step in range(20_000)]
    assert p_value(drawn, chances) > 1e-5


def test_the_first_wide_step_frees_the_most_doubtful_variables() -> None:
    doubts = np.array([0.02, 1.0, 0.3, 0.05, 0.3, 0.02, 0.3, 0.02])
    found = {step: step_selection(doubts, 2, step, StreamKey(1, 0, step)) for step in range(1, 9)}
    assert np.flatnonzero(~found.pop(4)).tolist() == [1, 2, 4, 6]
    for step, selected in found.items():
        assert (selected == doubtful_selection(doubts, count_free(doubts, 2, step), StreamKey(1, 0, step))).all()


def test_drawn_derivations_follow_their_probabilities() -> None:
    """The derivations are drawn from the whole chart, so that every assignment is possible."""
    known = charts()[0]
    nothing = np.zeros(known.chart.variables, bool)
    scores = inside_outside(known.chart.build(nothing, nothing))
    drawn = np.concatenate([known.chart.sample_values(scores.inside, StreamKey(5, 0, step)) for step in range(1_000)])
    assert len(drawn) > 10_000
    chances: dict[bytes, float] = {}
    for values, weight in zip(known.values, known.weights / known.weights.sum(), strict=True):
        chances[values.tobytes()] = chances.get(values.tobytes(), 0.0) + weight
    assert p_value([values.tobytes() for values in drawn], chances) > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize("number", range(4), ids=LARGER)
def test_each_step_follows_the_documented_algorithm(number: int, chains: int) -> None:
    """Soft counts use the new selection with the old values. All values are then read from the drawn derivation."""
    known = charts()[number]
    uniform = known.is_uniform and chains == 1
    kernel = SingleChain(known.chart, number, uniform) if chains == 1 else PruningKernel(known.chart, number)
    doubts = known.chart.doubts() if chains == 1 else find_start(known.chart).doubts
    most, variables = known.chart.branching, known.chart.variables
    selected = first_selection(variables, most, StreamKey(4, number, 1))
    state = kernel.init(4)
    assert len(state) == chains
    for values in state:
        assert (known.values == values).all(axis=1).any()
    changed, again = 0, 0
    charts_drawn: list[np.ndarray] = []
    for step in range(1, 100):
        after, pruned = kernel.step(4, state, step)
        of_selection = StreamKey(4, number, (chains + 1) * step + chains)
        if uniform:
            selected = next_selection(selected, of_selection)
        else:
            free = count_free(doubts, most, step) if chains == 2 else variables - count_selected(variables, most)
            selected = doubtful_selection(doubts, free, of_selection)
            if (chains, step) == (2, 4):
                selected = np.isin(np.arange(variables), np.argsort(-doubts)[:free], invert=True)
        for before, values, found in zip(state, after, pruned, strict=True):
            assert found.selection == selected.tobytes()
            again += any(found.drawn is drawn for drawn in charts_drawn)
            charts_drawn.append(found.drawn)
            kept = np.flatnonzero((known.values == before)[:, selected].all(axis=1))
            np.testing.assert_allclose(found.features, known.expected(kept), atol=1e-10)
            total = np.log(known.weights[kept].sum()) + log_scale(known.chart.words)
            assert found.log_total == pytest.approx(total, abs=1e-9)
            assert (known.values[kept] == values).all(axis=1).any()
            changed += (values != before).any()
        state = after
    assert changed > 3
    # Charts of recurring masks are not rebuilt.
    assert again > 20


@pytest.mark.parametrize("number", range(4), ids=LARGER)
def test_no_two_draws_share_a_random_stream(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    known = charts()[number]
    keys: list[StreamKey] = []
    sample_values = known.chart.sample_values

    def noted(inside: np.ndarray, key: StreamKey) -> np.ndarray:
        keys.append(key)
        return sample_values(inside, key)

    monkeypatch.setattr(known.chart, "sample_values", noted)
    run_chain(PruningKernel(known.chart, number), 60, key=3)
    keys += [StreamKey(3, number, 3 * plan + 2) for plan in range(31)]
    assert len(keys) > 35
    assert len(set(keys)) == len(keys)


@pytest.mark.slow
def test_draws_from_a_remembered_mask_follow_their_probabilities() -> None:
    """Each drawn derivation is used once: the next state of a mask is independent of the previous one."""
    known = charts()[0]
    kernel = SingleChain(known.chart, 1)
    first = kernel.init(2)
    seen: dict[tuple[bytes, bytes], list[bytes]] = {}
    for step in range(1, 6_000):
        after, [pruned] = kernel.step(2, first, step)
        seen.setdefault((pruned.selection, pruned.positive), []).append(after.tobytes())
    (selection, _), drawn = max(seen.items(), key=lambda found: len(found[1]))
    fixed = np.frombuffer(selection, bool)
    kept = np.flatnonzero((known.values == first[0])[:, fixed].all(axis=1))
    chances: dict[bytes, float] = {}
    for k in kept:
        values = known.values[k].tobytes()
        chances[values] = chances.get(values, 0.0) + known.weights[k] / known.weights[kept].sum()
    assert len(drawn) > 400
    assert len(chances) > 2
    assert p_value(drawn, chances) > 1e-5
    pairs = list(zip(drawn[:-1:2], drawn[1::2], strict=False))
    both = {(a, b): p * q for a, p in chances.items() for b, q in chances.items()}
    assert p_value(pairs, both) > 1e-5


@pytest.mark.parametrize("number", range(5), ids=KINDS)
def test_the_composed_kernels_leave_the_posterior_invariant(number: int) -> None:
    """States are pairs of a selection and a class of derivations, with the probabilities of the compiled charts."""
    known: Known = small_charts()[number]
    variables = known.chart.variables
    selections = list(combinations(range(variables), count_selected(variables, known.chart.branching)))
    classes = len(known.weights)
    posterior = known.weights / known.weights.sum()
    scale = np.exp(log_scale(known.chart.words))
    kernels = {}
    # With two chains, some steps free more variables.
    started = find_start(known.chart).doubts
    sizes = () if known.is_uniform else (count_free(started, known.chart.branching, step) for step in (1, 4, 8))
    others = {chosen for free in sizes for chosen in combinations(range(variables), variables - free)}
    for selection in others.union(selections):
        selected = np.isin(np.arange(variables), selection)
        kernels[selection] = np.zeros((classes, classes))
        for k, assigned in enumerate(known.values):
            kept = np.flatnonzero((known.values == assigned)[:, selected].all(axis=1))
            total = inside_outside(known.chart.build(selected, assigned)).total / scale
            kernels[selection][k, kept] = known.weights[kept] / total
        np.testing.assert_allclose(kernels[selection].sum(axis=1), 1, atol=1e-10)
        np.testing.assert_allclose(posterior @ kernels[selection], posterior, atol=1e-10)
    place = {selection: k for k, selection in enumerate(selections)}
    joint = np.zeros((len(selections), classes, len(selections), classes))
    for selection in selections:
        for after, chance in moves(known, selection).items():
            joint[place[selection], :, place[after], :] += chance * kernels[after]
    whole = joint.reshape(len(selections) * classes, -1)
    often = np.full(len(selections), 1 / len(selections))
    if not known.is_uniform:
        often = np.array([moves(known, selections[0]).get(selection, 0.0) for selection in selections])
    stationary = np.outer(often, posterior).ravel()
    np.testing.assert_allclose(stationary @ whole, stationary, atol=1e-10)
    if number == 4:
        # Seven of nine variables are selected, and some of them share a word, so the chain does not reach all classes
        # from each state.
        return
    reached = np.linalg.matrix_power(whole / 2 + np.eye(len(whole)) / 2, 4096)
    reached = reached.reshape(len(whole), len(selections), classes).sum(axis=1)
    np.testing.assert_allclose(reached, np.tile(posterior, (len(whole), 1)), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4), ids=LARGER)
def test_long_run_means_equal_the_exact_expectations(number: int) -> None:
    known = charts()[number]
    mean = weighted_mean(run_chain(PruningKernel(known.chart, number), 2500, key=7))
    exact = known.expected(np.arange(len(known.weights)))
    assert np.abs(mean - exact).max() < 0.05


def test_without_variables_one_mask_is_exact() -> None:
    known = charts()[0]
    known.chart.variables = 0
    known.chart.links = np.zeros((0, 2), np.int32)
    mean = weighted_mean(run_chain(PruningKernel(known.chart, 0), 1, key=1))
    np.testing.assert_allclose(mean, known.expected(np.arange(len(known.weights))), atol=1e-10)


@pytest.mark.parametrize("number", range(3), ids=LARGER[:3])
def test_all_masks_of_a_selection_give_the_exact_expectations(number: int) -> None:
    known = charts()[number]
    rng = np.random.default_rng(number)
    variables = known.chart.variables
    selected = rng.permutation(np.arange(variables) < count_selected(variables, known.chart.branching))
    steps = []
    for values in {(row & selected).tobytes() for row in known.values}:
        assigned = np.frombuffer(values, bool)
        scores = inside_outside(known.chart.build(selected, assigned))
        features = known.chart.features(scores.expected)
        steps.append(MaskResult(features, np.log(scores.total), b"", values, selected[None]))
    exact = known.expected(np.arange(len(known.weights)))
    np.testing.assert_allclose(weighted_mean(steps), exact, atol=1e-10)
