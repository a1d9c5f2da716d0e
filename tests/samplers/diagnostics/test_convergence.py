"""R-hat and effective sample sizes equal the results of arviz-stats, and faulty chains get the correct verdict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hierogram.samplers.diagnostics.convergence import (
    APART,
    CONSTANT,
    DRIFTING,
    SHORT,
    SOUND,
    STUCK,
    Draws,
    count_verdicts,
    r_hat,
    summarize,
    tail_size,
    verdicts,
)


def autoregressive(correlation: float, quantities: int, chains: int, draws: int, seed: int = 1) -> Draws:
    """Return stationary autoregressive chains of order 1."""
    random = np.random.default_rng(seed)
    found = random.normal(size=(quantities, chains, draws))
    found[:, :, 0] /= np.sqrt(1 - correlation**2)
    for t in range(1, draws):
        found[:, :, t] += correlation * found[:, :, t - 1]
    return found


_RANDOM = np.random.default_rng(3)
CASES: dict[str, Draws] = {
    "independent": _RANDOM.normal(size=(5, 4, 100)),
    "slow": autoregressive(0.9, 5, 4, 250),
    "alternating": autoregressive(-0.7, 5, 3, 101),
    "counts with ties": _RANDOM.poisson(2, size=(5, 4, 50)).astype(float),
    "rare uses": (_RANDOM.random((20, 4, 60)) < 0.02).astype(float),
    "apart": autoregressive(0.5, 3, 4, 80) + 3.0 * np.arange(4)[None, :, None],
    "drifting": autoregressive(0.3, 3, 4, 80) + np.linspace(0, 5, 80),
    "heavy tails": _RANDOM.standard_cauchy(size=(4, 4, 120)),
    "likelihoods": 300.0 * autoregressive(0.6, 2, 5, 90) - 302_000.0,
    "few draws": _RANDOM.normal(size=(10, 2, 4)),
    "five draws": _RANDOM.normal(size=(10, 2, 5)),
    "nine draws": _RANDOM.normal(size=(10, 3, 9)),
}


def compare(draws: Draws) -> None:
    # Import the package here, because it takes a second to load.
    from arviz_stats.base import array_stats

    found = summarize(draws)
    for k, chains in enumerate(draws):
        expected = (
            array_stats.rhat(chains),
            array_stats.ess(chains, method="bulk"),
            array_stats.ess(chains, method="tail", prob=(0.05, 0.95)),
            array_stats.mcse(chains, method="mean"),
        )
        ours = found.r_hat[k], found.ess_bulk[k], found.ess_tail[k], found.error[k]
        np.testing.assert_allclose(ours, expected, rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_summaries_equal_arviz_stats(name: str) -> None:
    with np.errstate(invalid="ignore", divide="ignore"):
        compare(CASES[name])


@pytest.mark.slow
@given(
    st.integers(2, 4).flatmap(
        lambda chains: st.integers(4, 40).flatmap(
            lambda draws: arrays(np.int64, (2, chains, draws), elements=st.integers(0, 5))
        )
    )
)
def test_summaries_of_integer_draws_equal_arviz_stats(counts: Draws) -> None:
    with np.errstate(invalid="ignore", divide="ignore"):
        compare(counts.astype(np.float64))


def test_correlated_draws_have_a_smaller_effective_sample_size() -> None:
    assert summarize(CASES["independent"]).ess_bulk == pytest.approx(np.full(5, 400.0), rel=0.3)
    # The effective sample size is the number of draws times (1 - ρ) / (1 + ρ).
    slow = autoregressive(0.9, 20, 4, 2000)
    assert float(summarize(slow).ess_bulk.mean()) == pytest.approx(8000 * 0.1 / 1.9, rel=0.2)
    assert (tail_size(slow) < 2000).all()


def test_a_single_chain_is_split_and_compared_with_itself() -> None:
    assert float(r_hat(autoregressive(0.2, 1, 1, 400))[0]) < 1.02
    assert float(r_hat(np.linspace(0, 1, 400)[None, None] + autoregressive(0.2, 1, 1, 400) / 10)[0]) > 1.5


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 4 draws"):
        summarize(np.zeros((1, 2, 3)))


def verdict_on(draws: Draws) -> str:
    (found,) = verdicts(draws[None], summarize(draws[None]))
    return found


def test_agreeing_chains_are_sound_if_they_are_long_enough() -> None:
    assert verdict_on(autoregressive(0.3, 1, 4, 400)[0]) == SOUND
    assert verdict_on(autoregressive(0.6, 1, 4, 80, seed=18)[0]) == SHORT


def test_a_quantity_that_never_changes_is_constant() -> None:
    assert verdict_on(np.full((4, 50), 7.0)) == CONSTANT


@pytest.mark.parametrize("stuck", range(4))
def test_a_stuck_chain_is_flagged(stuck: int) -> None:
    draws = autoregressive(0.3, 1, 4, 200)[0]
    draws[stuck] = draws[stuck, 0]
    assert verdict_on(draws) == STUCK


@pytest.mark.parametrize("at_other_mode", [1, 2])
def test_chains_at_different_modes_are_flagged(at_other_mode: int) -> None:
    draws = autoregressive(0.3, 1, 4, 200)[0]
    draws[:at_other_mode] += 8.0
    assert verdict_on(draws) == APART


@pytest.mark.parametrize("sign", [-1, 1])
def test_drifting_chains_are_flagged(sign: int) -> None:
    draws = autoregressive(0.3, 1, 4, 200)[0] + sign * np.linspace(0, 5, 200)
    assert verdict_on(draws) == DRIFTING


def test_verdicts_are_counted() -> None:
    assert count_verdicts([SOUND, APART, SOUND]) == {SOUND: 2, APART: 1}
