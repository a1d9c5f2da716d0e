"""Deterministic proof that a sweep of any pair leaves the exact posterior invariant, unlike a mutant's sweep.

The twin computes the exact distribution after a sweep over all states of the variables, with the code of its sampler.
Other tests compare the kernels to the twin draw for draw.
"""

from collections.abc import Iterator

import pytest
from tests.reference import corpus, examples
from tests.reference.corpus import Corpus, Mover
from tests.reference.enumeration import (
    Tree,
    all_trees,
    conditional,
    gather,
    posterior,
    sequential,
    spread,
    to_variables,
    total_variation,
    tree_rules,
)
from tests.reference.forest import Forest
from tests.reference.gibbs import NO_DENSITY, OWN_ARC, REPEAT_IGNORED, SPAN_LIMIT_IGNORED, STALE_COUNTS, Sweep
from tests.reference.metropolis import NO_PROPOSAL_DENSITY, Metropolis
from tests.reference.models import Dirichlet, Model, PitmanYor, RuleCounts, log_score

EXACT = 1e-10
CLEAR = 0.02
"""Total variation that one sweep of a mutant must exceed."""
MODELS: dict[str, Model] = {
    "DP": Dirichlet(strength=1.0, source_words=4, target_words=5),
    "weak DP": Dirichlet(strength=0.1, source_words=2, target_words=2),
    "PY without discount": PitmanYor(discount=0.0, strength=1.5, rate=2.0),
}
ALONE: dict[str, tuple[Forest, int]] = {
    "single": (examples.SINGLE, 0),
    "couple": (examples.COUPLE, 0),
    "twice": (examples.TWICE, 0),
    "twice apart": (examples.TWICE_APART, 0),
    "three": (examples.THREE, 0),
    "three, limit 1": (examples.THREE, 1),
    "four, limit 1": (examples.FOUR, 1),
    "unaligned words": (examples.UNALIGNED, 0),
    "unaligned words, limit 2": (examples.UNALIGNED, 2),
    "tangled": (examples.TANGLED, 0),
    "discontinuous": (examples.DISCONTINUOUS, 0),
    "blocks, limit 1": (examples.BLOCKS, 1),
    "blocks, limit 2": (examples.BLOCKS, 2),
    "some cuts forced": (examples.WIDE, 2),
    "unlinked": (examples.UNLINKED, 0),
}
TOGETHER: dict[str, list[Forest]] = {
    "a couple twice": [examples.COUPLE, examples.COUPLE],
    "a couple and its swap": [examples.COUPLE, examples.SWAPPED],
    "a part of a longer pair": [examples.THREE, examples.COUPLE],
    "repeats within and between": [examples.TWICE_APART, examples.TWICE],
    "three pairs": [examples.COUPLE, examples.SWAPPED, examples.TWICE],
    "three pairs, one ambiguous": [examples.COUPLE, examples.THREE, examples.SINGLE],
}


Setting = tuple[Forest, RuleCounts, dict[Tree, float]]


def settings(forests: list[Forest], model: Model, span_limit: int) -> Iterator[Setting]:
    """Yield each pair's forest, the rules of the other pairs, and the exact conditional posterior.

    Each joint derivation of the other pairs is one setting.
    """
    exact = posterior(forests, model, span_limit)
    for p, forest in enumerate(forests):
        others = [*forests[:p], *forests[p + 1 :]]
        for given, trees in conditional(exact, p).items():
            yield (forest, RuleCounts(r for f, t in zip(others, given, strict=True) for r in tree_rules(f, t)), trees)


def largest_change(forests: list[Forest], model: Model, mover: Mover, span_limit: int = 0) -> float:
    """Return the largest total variation by which a sweep changes the exact distribution of a pair's variables."""
    worst = 0.0
    for forest, others, trees in settings(forests, model, span_limit):
        before = spread(forest, trees, span_limit)
        worst = max(worst, total_variation(before, mover(forest, others).push(before)))
    return worst


def tree_change(forest: Forest, trees: dict[Tree, float], step: Sweep | Metropolis) -> float:
    """Return the total variation by which a step changes the exact distribution of one pair's derivations.

    The step must not read variables of unused nodes.
    """
    after = step.push({to_variables(forest, tree): p for tree, p in trees.items()})
    return total_variation(trees, gather(forest, after))


def largest_tree_change(forests: list[Forest], model: Model, mover: Mover, span_limit: int = 0) -> float:
    """Return the largest total variation by which a sweep changes the exact distribution of a pair's derivations."""
    return max(
        tree_change(forest, trees, mover(forest, others))
        for forest, others, trees in settings(forests, model, span_limit)
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ALONE)
def test_gibbs_leaves_the_posterior_of_one_pair_invariant(name: str, model: str) -> None:
    forest, limit = ALONE[name]
    assert largest_change([forest], MODELS[model], corpus.gibbs(MODELS[model], span_limit=limit), limit) < EXACT


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ALONE)
def test_avoiding_draws_leave_the_posterior_of_one_pair_invariant(name: str, model: str) -> None:
    forest, limit = ALONE[name]
    mover = corpus.gibbs(MODELS[model], span_limit=limit, avoid_current=True)
    assert largest_change([forest], MODELS[model], mover, limit) < EXACT


@pytest.mark.campaign
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("forest", "limit"), [(examples.FOUR, 2), (examples.FOUR, 0), (examples.BLOCKS, 3)])
def test_gibbs_leaves_the_posterior_of_a_bushy_pair_with_many_free_cuts_invariant(
    forest: Forest, limit: int, model: str
) -> None:
    mover = corpus.gibbs(MODELS[model], span_limit=limit)
    assert largest_change([forest], MODELS[model], mover, limit) < EXACT


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TOGETHER)
def test_gibbs_leaves_the_posterior_of_pairs_that_share_rules_invariant(name: str, model: str) -> None:
    assert largest_change(TOGETHER[name], MODELS[model], corpus.gibbs(MODELS[model])) < EXACT


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TOGETHER)
def test_avoiding_draws_leave_the_posterior_of_pairs_that_share_rules_invariant(name: str, model: str) -> None:
    assert largest_change(TOGETHER[name], MODELS[model], corpus.gibbs(MODELS[model], avoid_current=True)) < EXACT


@pytest.mark.parametrize("avoid_current", [False, True])
@pytest.mark.parametrize("stage", range(1, 8))
def test_gibbs_at_each_stage_leaves_the_posterior_invariant(stage: int, avoid_current: bool) -> None:
    assert examples.FOUR.nodes[-1].level == 7
    model = MODELS["DP"]
    limited = corpus.gibbs(model, stage=stage, span_limit=1, avoid_current=avoid_current)
    assert largest_change([examples.FOUR], model, limited, span_limit=1) < EXACT
    both = corpus.gibbs(model, stage=stage, avoid_current=avoid_current)
    assert largest_change([examples.THREE, examples.COUPLE], model, both) < EXACT


def test_gibbs_leaves_the_joint_posterior_of_all_pairs_invariant() -> None:
    forests = [examples.COUPLE, examples.TWICE, examples.SWAPPED]
    model = MODELS["weak DP"]
    # In these forests every variable is in every derivation, so a derivation is a state.
    before = {
        tuple(to_variables(f, tree) for f, tree in zip(forests, joint, strict=True)): p
        for joint, p in posterior(forests, model, span_limit=0).items()
    }
    after = Corpus(forests).push(before, corpus.gibbs(model))
    assert len(after) == 64
    assert total_variation(before, after) < EXACT


MUTANTS: dict[str, tuple[str, list[Forest], str, int]] = {
    "bushy, without density": (NO_DENSITY, [examples.FOUR], "DP", 1),
    "some cuts forced, counted as free": (SPAN_LIMIT_IGNORED, [examples.WIDE], "DP", 2),
    "bushy blocks, without density": (NO_DENSITY, [examples.BLOCKS], "weak DP", 2),
    "one pair, stale counts": (STALE_COUNTS, [examples.COUPLE], "PY without discount", 0),
    "ambiguous pair, stale counts": (STALE_COUNTS, [examples.THREE], "PY without discount", 0),
    "two pairs, stale counts": (STALE_COUNTS, [examples.COUPLE, examples.COUPLE], "DP", 0),
    "a rule used twice": (REPEAT_IGNORED, [examples.TWICE_APART], "DP", 0),
    "a rule used twice, two pairs": (REPEAT_IGNORED, [examples.THREE, examples.COUPLE], "weak DP", 0),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_gibbs_change_the_posterior(name: str) -> None:
    mutant, forests, model, limit = MUTANTS[name]
    broken = corpus.gibbs(MODELS[model], span_limit=limit, mutant=mutant)
    assert largest_change(forests, MODELS[model], broken, limit) > CLEAR
    assert largest_change(forests, MODELS[model], corpus.gibbs(MODELS[model], span_limit=limit), limit) < EXACT


def test_avoiding_draws_moved_by_the_current_arc_change_the_posterior() -> None:
    broken = corpus.gibbs(MODELS["DP"], span_limit=1, mutant=OWN_ARC, avoid_current=True)
    # The change is smaller because only the edges of the root have more than two options.
    assert largest_change([examples.FOUR], MODELS["DP"], broken, span_limit=1) > CLEAR / 4


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ALONE)
def test_metropolis_leaves_the_posterior_of_one_pair_invariant(name: str, model: str) -> None:
    forest, limit = ALONE[name]
    mover = corpus.metropolis(MODELS[model], span_limit=limit)
    assert largest_tree_change([forest], MODELS[model], mover, limit) < EXACT


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TOGETHER)
def test_metropolis_leaves_the_posterior_of_pairs_that_share_rules_invariant(name: str, model: str) -> None:
    assert largest_tree_change(TOGETHER[name], MODELS[model], corpus.metropolis(MODELS[model])) < EXACT


def test_metropolis_without_its_proposal_density_changes_the_posterior() -> None:
    broken = corpus.metropolis(MODELS["DP"], span_limit=1, mutant=NO_PROPOSAL_DENSITY)
    assert largest_tree_change([examples.FOUR], MODELS["DP"], broken, span_limit=1) > CLEAR


def test_metropolis_leaves_derivations_invariant_but_not_unused_variables() -> None:
    mover = corpus.metropolis(MODELS["DP"])
    assert largest_tree_change([examples.THREE], MODELS["DP"], mover) < EXACT
    assert largest_change([examples.THREE], MODELS["DP"], mover) > CLEAR


def test_metropolis_with_discount_leaves_the_sequential_product_invariant() -> None:
    model = PitmanYor(discount=0.5, strength=5.0, rate=2.0)
    for forest, limit in [(examples.TWICE_APART, 0), (examples.FOUR, 1), (examples.UNALIGNED, 2)]:
        trees = sequential(forest, model, limit)
        assert tree_change(forest, trees, corpus.metropolis(model, span_limit=limit)(forest, RuleCounts())) < EXACT


@pytest.mark.parametrize("model", MODELS)
def test_the_closed_form_of_the_joint_equals_the_product_of_sequential_probabilities(model: str) -> None:
    for forest in (examples.TWICE_APART, examples.UNALIGNED, examples.DISCONTINUOUS):
        for tree in all_trees(forest, span_limit=0):
            rules = tree_rules(forest, tree)
            in_sequence = log_score(MODELS[model], rules, RuleCounts())
            assert MODELS[model].log_joint(RuleCounts(rules)) == pytest.approx(in_sequence, abs=1e-12)
            backwards = log_score(MODELS[model], rules[::-1], RuleCounts())
            assert backwards == pytest.approx(in_sequence, abs=1e-12)
