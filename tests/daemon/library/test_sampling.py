"""A chain without a store draws the same values as learning in a store."""

from typing import Any

import numpy as np
import pytest
from tests.daemon.conftest import make_store
from tests.daemon.learning.stores import some_pairs

import hierogram as hg
from hierogram.daemon.exceptions import InputError, UsageError

pytestmark = pytest.mark.database("sqlite")

PAIRS = [(pair.source, pair.target, pair.alignment) for pair in some_pairs(60)]

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({"discount": 0.4, "strength": 3.0}, {"model": hg.PitmanYor(discount=0.4, strength=3.0)}),
    "stratified": ({"schedule": "stratified"}, {"schedule": hg.stratified_schedule()}),
    "quick": ({"schedule": "quick"}, {"schedule": hg.quick_schedule()}),
    "paper": ({"schedule": "paper", "sweeps_per_level": 2, "levels": 3}, {"schedule": hg.Schedule(2, 3)}),
    "annealed": (
        {
            "model": "dirichlet",
            "schedule": "annealed",
            "strength": 2.0,
            "annealing": 12,
            "temperature": 4.0,
            "burn_in": 3,
        },
        {"model": hg.DirichletProcess(2.0), "schedule": hg.Annealing(12, 4.0, 3)},
    ),
    "itg": ({"grammar": "itg", "burn_in": 4}, {"grammar": "itg", "schedule": hg.Annealing(0, 1.0, 4)}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_chain_without_a_store_draws_the_same_values_as_learning_in_a_store(case: str, store_url: str) -> None:
    settings, own = CASES[case]
    make_store(store_url, seed=7, span_limit=5, **settings)
    with hg.open(store_url) as store:
        store.add(PAIRS)
        learned = store.learn(sweeps=9).run()
        stored = {(r.source, r.target): (r.count, r.expected_uses, r.expected_uses_error) for r in store.rules()}
        with hg.sample(PAIRS, seed=7, span_limit=5, threads=1, **own) as chain:
            chain.run(chain.schedule.burn_in + 9)
            assert [done.log_likelihood for done in chain.trace] == [value for _, value in learned.log_likelihoods][
                -len(chain.trace) :
            ]
            assert {
                (r.source, r.target): (r.count, r.expected_uses, r.expected_uses_error) for r in chain.rules()
            } == stored
            uses = [rule.expected_uses for rule in chain.rules()]
    assert uses == sorted(uses, reverse=True)
    assert len(stored) > 20


def test_samples_depend_on_seeds_but_not_on_threads() -> None:
    def counts(seed: int, threads: int) -> list[tuple[str, str, int]]:
        with hg.sample(PAIRS, seed=seed, threads=threads) as chain:
            return [(rule.source, rule.target, rule.count) for rule in chain.run(5).rules()]

    assert counts(1, 1) == counts(1, 2)
    assert counts(1, 1) != counts(2, 1)


class HotSchedule:
    """A custom schedule: T = 3 in odd sweeps and T = 1 in even sweeps."""

    burn_in = 4
    avoid_current = False

    def stages(self, sweeps: Any) -> Any:
        return hg.Annealing().stages(sweeps)

    def powers(self, sweeps: Any) -> Any:
        return np.where(np.asarray(sweeps) % 2 == 0, 1.0, 1 / 3)

    def reached(self, sweeps: Any) -> Any:
        return np.ones(len(sweeps), np.int64)


def test_custom_schedule_changes_the_sampled_values() -> None:
    with hg.sample(PAIRS, schedule=HotSchedule()) as own, hg.sample(PAIRS, schedule=hg.Annealing(0)) as cold:
        assert [a.log_likelihood for a in own.run(8).trace] != [b.log_likelihood for b in cold.run(8).trace]
        assert {done.stage for done in own.trace} == {1}


def test_steps_of_a_chain_run_on_demand() -> None:
    with hg.sample(PAIRS) as chain:
        before = chain.state
        steps = chain.steps(3)
        first = next(steps)
        assert chain.trace == [first]
        assert first.log_likelihood_before is not None
        assert first.edges_sampled + first.cuts_sampled > 0
        assert (chain.state.cut != before.cut).any()
        assert [done.log_likelihood_before for done in steps] == [None, None]
        assert "polyline" in chain._repr_html_()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "no pairs"),
        ([("a", "b")], "pair 1 has no links"),
        ([("a", "b", "0-0"), ("a", "b", "0-1")], "pair 2: alignment: link"),
        ([("a", "b", "0-0"), ("", "b", "")], "pair 2"),
        (["ab"], "pair 1: a pair must be"),
    ],
)
def test_pairs_that_cannot_be_sampled_are_rejected(pairs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hg.sample(pairs)


def test_a_chain_refuses_an_invalid_discount_and_the_grammar_of_trees() -> None:
    with pytest.raises(UsageError, match="discount: must be < 1"):
        hg.sample(PAIRS, model=hg.PitmanYor(discount=1.5))
    with pytest.raises(UsageError, match="grammar 'trees' cannot be sampled in memory"):
        hg.sample(PAIRS, grammar="trees")
    with pytest.raises(UsageError, match="threads: must be >= 1, got 0"):
        hg.sample(PAIRS, threads=0)
