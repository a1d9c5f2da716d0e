"""Long-run frequencies match the posterior, unlike frequencies of a mutant."""

from dataclasses import replace

import numpy as np
import pytest
from tests.reference.alignment import BHMM, BHMM_F, BHMM_Z, NO_OUTGOING, Corpus, Pair, Settings, State, posterior, sweep
from tests.reference.goodness import draws, p_value
from tests.samplers.alignment.kernels import KernelChain

from hierogram.samplers.alignment.chain import FOLLOWERS, SETTINGS
from hierogram.samplers.alignment.models.collocations import sample_strengths, strength_log_density

ALPHA = 1e-5
SAMPLES = 1_500
MANY_SAMPLES = 60_000
CORPUS = Corpus([Pair(("a", "b"), ("x", "y")), Pair(("a", "a"), ("x", "x"))])
ONE_PAIR = Corpus([Pair(("a", "b", "a"), ("x", "y", "x"))])


def sample_states(corpus: Corpus, settings: Settings, thinning: int, seed: int, samples: int = SAMPLES) -> list[State]:
    expected = posterior(corpus, settings)
    [start] = draws(expected, 1, seed)
    kernel = KernelChain(corpus, start, settings, seed)
    states = []
    for _ in range(samples):
        for _ in range(thinning):
            state = kernel.sweep()
        states.append(state)
    return states


every_chain = pytest.mark.parametrize(
    ("corpus", "model", "thinning"),
    [
        pytest.param(corpus, model, thinning, id=f"{name}-{model}")
        for name, corpus in (("two pairs", CORPUS), ("one pair", ONE_PAIR))
        for model, thinning in ((BHMM, 8), (BHMM_Z, 16), (BHMM_F, 8))
    ],
)


@pytest.mark.slow
@every_chain
def test_state_frequencies_match_the_posterior(corpus: Corpus, model: str, thinning: int) -> None:
    settings = Settings(model)
    assert p_value(sample_states(corpus, settings, thinning, seed=11), posterior(corpus, settings)) > ALPHA


@pytest.mark.campaign
@every_chain
def test_state_frequencies_match_the_posterior_in_long_chains(corpus: Corpus, model: str, thinning: int) -> None:
    settings = Settings(model)
    samples = sample_states(corpus, settings, thinning, seed=12, samples=MANY_SAMPLES)
    assert p_value(samples, posterior(corpus, settings)) > ALPHA


@pytest.mark.slow
def test_state_frequencies_without_the_outgoing_jump_differ_from_the_posterior() -> None:
    settings = Settings(BHMM, jump=0.2, mutant=NO_OUTGOING)
    expected = posterior(CORPUS, replace(settings, mutant=""))
    [state] = draws(expected, 1, seed=1)
    states = []
    for number in range(1, 2_001):
        state = sweep(CORPUS, state, 1, number, settings)
        states.append(state)
    assert p_value(states[::2], expected) < ALPHA


def test_sampled_strengths_follow_their_posterior() -> None:
    followers = np.zeros(4, FOLLOWERS)
    followers["collocated"], followers["plain"] = [3, 0, 1, 0], [1, 4, 2, 0]
    grid = np.exp((np.arange(400) + 0.5) / 400 * 14 - 9)
    logs = np.array([[strength_log_density(s, r, followers) for r in grid] for s in grid])
    # The grid is logarithmic, so the width of a cell is proportional to its value.
    weight = np.exp(logs - logs.max()) * np.outer(grid, grid)
    weight /= weight.sum()
    expected = {}
    for k in range(400):
        for cell, part in ((("s", k // 20), weight[k].sum()), (("r", k // 20), weight[:, k].sum())):
            expected[cell] = expected.get(cell, 0.0) + float(part)
    settings = np.zeros(1, SETTINGS)
    settings["s"] = settings["r"] = 1.0
    seen: dict[str, list[tuple[str, int]]] = {"s": [], "r": []}
    for number in range(1, 20_001):
        sample_strengths(settings, followers, np.uint64(3), number)
        if number % 5 == 0:
            for name in seen:
                seen[name].append((name, int((np.log(settings[0][name]) + 9) / 14 * 20)))
    for name, cells in seen.items():
        assert p_value(cells, {cell: p for cell, p in expected.items() if cell[0] == name}) > ALPHA


def test_the_density_of_strengths_equals_the_formula_of_the_paper() -> None:
    followers = np.zeros(1, FOLLOWERS)
    followers["collocated"], followers["plain"] = 2, 1
    # The factors are B(s + 2, r + 1) / B(s, r) = s (s + 1) r / ((s + r) (s + r + 1) (s + r + 2)), and two Gamma(1, 1)
    # priors.
    for s, r in ((1.0, 1.0), (0.3, 2.5)):
        beta = s * (s + 1) * r / ((s + r) * (s + r + 1) * (s + r + 2))
        assert strength_log_density(s, r, followers) == pytest.approx(np.log(beta) - s - r)
    assert strength_log_density(-1.0, 1.0, followers) == -np.inf
