"""Deterministic proof that sweeps leave the posterior invariant, unlike mutants.

The twin computes the exact distribution of all states after a sweep or a word move. Other tests compare the kernels to
the twin draw for draw.
"""

from dataclasses import replace
from math import exp

import pytest
from tests.reference.alignment import (
    BHMM,
    BHMM_F,
    BHMM_Z,
    NO_OUTGOING,
    OWN_LINK_COUNTED,
    STALE_JUMPS,
    WHOLE_BINS,
    Corpus,
    Pair,
    Settings,
    State,
    Word,
    all_states,
    link_weight,
    log_joint,
    positions,
    posterior,
    push,
    push_move,
    with_word,
)

EXACT = 1e-10
CLEAR = 0.002
"""Total variation that one sweep of a mutant must exceed."""

SHARED = Corpus([Pair(("a", "b"), ("x", "y")), Pair(("a", "a"), ("x", "x"))])
LONG = Corpus([Pair(("a", "b", "a"), ("x", "y", "z"))], {("x", "b"): 0.8, ("z", "a"): 0.3})
ONE_WORD = Corpus([Pair(("a",), ("x", "y", "x")), Pair(("b",), ("x",))])
FAR = Corpus([Pair(("a", "b"), ("x", "y", "x", "z", "y", "x")), Pair(("b",), ("y", "x"))], single=1)
CORPORA = {
    "pairs that share words": SHARED,
    "a longer pair, some words favored": LONG,
    "one word": ONE_WORD,
    "wide jumps": FAR,
}
MODELS = (BHMM, BHMM_Z, BHMM_F)


def distance(one: dict[State, float], other: dict[State, float]) -> float:
    return sum(abs(one.get(state, 0.0) - other.get(state, 0.0)) for state in one.keys() | other.keys()) / 2


def change(corpus: Corpus, settings: Settings) -> float:
    """Return the total variation between the exact posterior and its image under a sweep."""
    before = posterior(corpus, replace(settings, mutant=""))
    return distance(before, push(corpus, before, settings))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", CORPORA)
def test_a_sweep_leaves_the_posterior_invariant(name: str, model: str) -> None:
    assert change(CORPORA[name], Settings(model)) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_a_word_move_leaves_the_posterior_invariant(name: str) -> None:
    corpus, settings = CORPORA[name], Settings(BHMM)
    before = posterior(corpus, settings)
    assert distance(before, push_move(corpus, before, "a", settings)) < EXACT
    # One move can link all tokens of a word that has no links.
    unlinked = tuple(tuple(Word(None) for _ in pair.emitted) for pair in corpus.pairs)
    every = tuple(tuple(Word(0 if f == "a" else None) for f in pair.emitted) for pair in corpus.pairs)
    assert push_move(corpus, {unlinked: 1.0}, "a", settings)[every] > 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mutant", [NO_OUTGOING, OWN_LINK_COUNTED, STALE_JUMPS])
def test_mutants_change_the_posterior(mutant: str, model: str) -> None:
    assert change(SHARED, Settings(model, jump=0.2, mutant=mutant)) > CLEAR


@pytest.mark.parametrize("model", MODELS)
def test_a_mutant_that_does_not_share_bins_changes_the_posterior(model: str) -> None:
    assert change(FAR, Settings(model, jump=0.2, mutant=WHOLE_BINS)) > CLEAR


@pytest.mark.parametrize("model", MODELS)
def test_two_sweeps_reach_every_state(model: str) -> None:
    settings = Settings(model)
    start = next(all_states(ONE_WORD, settings))
    reached = {start: 1.0}
    for _ in range(2):
        reached = push(ONE_WORD, reached, settings)
    assert all(reached.get(state, 0.0) > 0 for state in all_states(ONE_WORD, settings))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("corpus", [LONG, FAR], ids=["long", "bins"])
def test_ratios_of_link_probabilities_equal_ratios_of_joint_probabilities(corpus: Corpus, model: str) -> None:
    settings = Settings(model)
    states = list(all_states(corpus, settings))
    for state in states[:: len(states) // 10]:
        for g in range(len(corpus.pairs[0].emitted)):
            links = positions(corpus, 0, settings)
            weights = [link_weight(corpus, state, 0, g, link, settings) for link in links]
            states_by_link = [with_word(state, 0, g, Word(link, state[0][g].collocated)) for link in links]
            first, *logs = (log_joint(corpus, here, settings) for here in states_by_link)
            for weight, log in zip(weights[1:], logs, strict=True):
                assert weight / weights[0] == pytest.approx(exp(log - first), rel=1e-9)
