"""The samplers on forests other than phrase forests: labeled trees with one edge per node, and a parse forest."""

import numpy as np
import pytest
from tests.reference import corpus
from tests.reference.corpus import Corpus
from tests.reference.enumeration import all_trees, posterior, spread, to_variables, total_variation
from tests.reference.gibbs import NO_DENSITY
from tests.reference.models import Dirichlet, Model, PitmanYor, RuleCounts
from tests.reference.rules import Bracket, Nonterminal, Rule, Variables, list_rules
from tests.reference.trees import RandomTrees, parse_forest
from tests.samplers.synchronous.kernel_chain import KernelChain, from_arrays, rules_of_deltas, to_arrays

from hierogram.samplers.counts.deltas import add_state, empty_deltas
from hierogram.tools.lab.baselines.metropolis import propose_pairs

MODELS: dict[str, Model] = {
    "DP": Dirichlet(strength=1.0, source_words=3, target_words=1),
    "PY": PitmanYor(discount=0.5, strength=5.0, rate=2.0),
}


def test_brackets_and_labels_are_part_of_a_rule() -> None:
    forest = parse_forest()
    flat = Variables((0, 0, 0, 1, 0, 0), (1, 1, 1, 0, 1, 1))
    inner = (Bracket(2, True), "a", "b", Bracket(2, False))
    word = Rule((Bracket(1, True), "a", Bracket(1, False)), ())
    assert list_rules(forest, flat) == [
        Rule((Bracket(3, True), *inner, Nonterminal(1, 1), Bracket(3, False)), ()),
        word,
    ]
    assert list_rules(forest, flat)[0].scope == 0
    assert list_rules(forest, flat)[0].length == 2
    deep = Variables((0, 0, 0, 0, 0, 1), (1, 0, 1, 1, 1, 1))
    assert list_rules(forest, deep)[2] == Rule(
        (Bracket(2, True), Bracket(1, True), "b", Bracket(1, False), Nonterminal(1, 1), Bracket(2, False)), ()
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
def test_trees_are_sampled_like_the_twin_draw_for_draw(method: str, model: str) -> None:
    treebank = RandomTrees(seed=51)
    forests = [treebank.tree(leaves) for leaves in (1, 2, 3, 3, 4, 5, 5, 6, 8)] + [parse_forest()] * 2
    if method == "gibbs":
        kernel = KernelChain(forests, MODELS[model], seed=6)
        mover = corpus.gibbs(MODELS[model])
    else:
        kernel = KernelChain(forests, MODELS[model], seed=6, resample=propose_pairs)
        mover = corpus.metropolis(MODELS[model])
    twin = Corpus(forests)
    state = twin.start(6)
    states = {state}
    for number in range(1, 81):
        kernel.sweep()
        state = twin.sweep(state, mover, 6, number)
        assert kernel.variables() == state, number
        states.add(state)
    assert len(states) > 30
    rules = RuleCounts(twin.rules(state))
    deltas = add_state(empty_deltas(), kernel.batch, kernel.state, (1, 0, 0, 0), np.arange(kernel.batch.size))
    assert rules_of_deltas(deltas, forests) == rules.counts
    assert kernel.log_likelihood() == pytest.approx(MODELS[model].log_likelihood(rules), rel=1e-9)


def test_gibbs_leaves_the_posterior_of_a_parse_forest_invariant() -> None:
    # The derivations differ in size, so the density factor also counts the variables of the cuts.
    model = MODELS["DP"]
    forest = parse_forest()
    assert {len(tree) for tree in all_trees(forest, span_limit=0)} == {3, 4, 5}
    exact = {trees[0]: p for trees, p in posterior([forest], model, span_limit=0).items()}
    before = spread(forest, exact, span_limit=0)
    for mutant, moves in ((None, False), (NO_DENSITY, True)):
        after = corpus.gibbs(model, mutant=mutant)(forest, RuleCounts()).push(before)
        assert (total_variation(before, after) > 1e-10) == moves


def test_gibbs_leaves_the_posterior_of_two_trees_invariant() -> None:
    treebank = RandomTrees(seed=52)
    forests = [treebank.tree(2), treebank.tree(2)]
    assert sorted(len(f.nodes) for f in forests) == [4, 5]
    model = MODELS["DP"]
    before = {
        tuple(to_variables(f, tree) for f, tree in zip(forests, joint, strict=True)): p
        for joint, p in posterior(forests, model, span_limit=0).items()
    }
    assert total_variation(before, Corpus(forests).push(before, corpus.gibbs(model))) < 1e-10


def test_padding_of_edges_is_not_a_tail() -> None:
    forest = parse_forest()
    arrays = to_arrays([forest, forest], span_limit=0)
    assert np.array_equal(arrays.node["arity"], [0, 0, 0, 2, 2, 3] * 2)
    assert from_arrays(arrays, [(forest.source, (), set())] * 2) == [forest, forest]
