"""Exact stationary distribution of the Gibbs chain for the Pitman-Yor process with estimated tables.

Without a discount it is the exact posterior. With a discount, t_r = n_r^d, the rules are not exchangeable: the
conditionals of Gibbs sampling no longer belong to one joint distribution, and the chain itself defines its target. Its
distance from the sequential product of one pair's rules, top-down, is small but positive.
"""

from collections.abc import Callable

import pytest
from tests.reference import corpus, examples
from tests.reference.corpus import Corpus
from tests.reference.enumeration import gather, gather_all, posterior, sequential, spread, total_variation
from tests.reference.forest import Forest
from tests.reference.models import Dirichlet, PitmanYor

EXACT = 1e-10
ALONE: dict[str, tuple[Forest, int]] = {
    "couple": (examples.COUPLE, 0),
    "twice": (examples.TWICE, 0),
    "twice apart": (examples.TWICE_APART, 0),
    "three": (examples.THREE, 0),
    "four, limit 1": (examples.FOUR, 1),
    "tangled": (examples.TANGLED, 0),
}
Report = Callable[[str, object], None]


@pytest.mark.parametrize("model", [PitmanYor(0.0, 5.0, 2.0), Dirichlet(0.5, 3, 3)], ids=["PY", "DP"])
@pytest.mark.parametrize(
    "forests",
    [[examples.TWICE_APART], [examples.COUPLE, examples.SWAPPED], [examples.COUPLE] * 2 + [examples.TWICE]],
    ids=["one pair", "two pairs", "three pairs"],
)
def test_without_discount_the_chain_converges_to_the_exact_posterior(
    forests: list[Forest], model: PitmanYor | Dirichlet
) -> None:
    stationary = Corpus(forests).stationary(corpus.gibbs(model))
    assert total_variation(gather_all(forests, stationary), posterior(forests, model, 0)) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("discount", [0.5, 0.9])
@pytest.mark.parametrize("name", ALONE)
def test_with_discount_the_stationary_distribution_is_near_the_sequential_product(
    name: str, discount: float, record_property: Report
) -> None:
    forest, limit = ALONE[name]
    model = PitmanYor(discount, strength=5.0, rate=2.0)
    stationary = Corpus([forest]).stationary(corpus.gibbs(model, span_limit=limit))
    variables = {joint[0]: p for joint, p in stationary.items()}
    trees = gather(forest, variables)
    distance = total_variation(trees, sequential(forest, model, limit))
    record_property("total variation from the sequential product", distance)
    record_property(
        "of variables, from uniform ones off the derivation", total_variation(variables, spread(forest, trees, limit))
    )
    # The order matters as soon as three rules of one length are used and two of them are equal.
    if name in ("twice apart", "four, limit 1"):
        assert 1e-6 < distance < 1e-3
    else:
        assert distance < EXACT


def test_a_sweep_leaves_the_stationary_distribution_invariant() -> None:
    forests = [examples.TWICE_APART]
    mover = corpus.gibbs(PitmanYor(0.5, strength=5.0, rate=2.0))
    stationary = Corpus(forests).stationary(mover)
    assert min(stationary.values()) > 0
    assert sum(stationary.values()) == pytest.approx(1.0, abs=EXACT)
    assert total_variation(stationary, Corpus(forests).push(stationary, mover)) < EXACT
