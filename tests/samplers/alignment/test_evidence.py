"""Known links: chains sample the posterior given them, and they are converted, checked and imposed."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.reference.alignment import BHMM, BHMM_F, Corpus, Pair, Settings, may_link, posterior, sweep
from tests.reference.goodness import draws, p_value
from tests.samplers.alignment.kernels import KernelChain, random_corpus, random_state, to_direction, to_options

from hierogram.samplers.alignment.chain import NO_EVIDENCE, make_evidence
from hierogram.samplers.alignment.models.sampler import AlignmentKernel
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.grammar.known_links import KnownLinks

ALPHA = 1e-5
CORPUS = Corpus([Pair(("a", "b"), ("x", "y", "x")), Pair(("a", "a"), ("x", "x"))])
KNOWN = {0: KnownLinks(frozenset([(0, 1), (2, 1)]), frozenset([(1, 0)])), 1: KnownLinks(forbidden=frozenset([(0, 0)]))}
"""Links (conditioning, emitted): `b` is linked to one of the two `x`, and two links of `a` are forbidden."""


@pytest.mark.slow
def test_state_frequencies_match_the_posterior_given_known_links() -> None:
    settings = Settings(BHMM_F, known=KNOWN)
    expected = posterior(CORPUS, settings)
    [start] = draws(expected, 1, 3)
    kernel = KernelChain(CORPUS, start, settings, 3)
    states = []
    for _ in range(3_000):
        for _ in range(6):
            state = kernel.sweep()
        states.append(state)
    assert p_value(states, expected) > ALPHA
    # Without known links the chain reaches states that they exclude.
    free = replace(settings, known={})
    kernel = KernelChain(CORPUS, start, free, 3)
    assert any(kernel.sweep() not in expected for _ in range(20))


def test_the_kernel_and_the_twin_draw_the_same_states_given_known_links() -> None:
    for trial in range(5):
        random = Random(trial)
        corpus = random_corpus(random)
        known = {}
        for p, pair in enumerate(corpus.pairs[:3]):
            cells = [(i, g) for i in range(len(pair.conditioning)) for g in range(len(pair.emitted))]
            random.shuffle(cells)
            known[p] = KnownLinks(frozenset(cells[:1]), frozenset(cells[1:3]))
        settings = Settings(BHMM_F, known=known)
        state = random_state(corpus, BHMM_F, random)
        kernel = KernelChain(corpus, state, settings, seed=trial)
        for number in range(1, 4):
            state = sweep(corpus, state, trial, number, settings)
            assert kernel.sweep() == state
        for p, words in enumerate(state):
            assert all(may_link(known, p, g, word.link) for g, word in enumerate(words))


def test_evidence_applies_to_both_directions() -> None:
    direction = to_direction(Corpus([Pair(("a", "b"), ("x",)), Pair(("a", "b", "c"), ("x", "y"))]))
    known = {1: KnownLinks(frozenset([(1, 2)]), frozenset([(0, 0), (1, 1)]))}
    forward = make_evidence(direction.bitext, known, emitted_is_target=True)
    assert forward.kind.tolist() == [0, 0, 1, 1, 2]
    assert forward.positions.tolist() == [0, 1, 1]
    assert forward.offset.tolist() == [0, 0, 0, 1, 2, 3]
    other = to_direction(Corpus([Pair(("x",), ("a", "b")), Pair(("x", "y"), ("a", "b", "c"))]))
    backward = make_evidence(other.bitext, known, emitted_is_target=False)
    assert backward.kind.tolist() == [0, 1, 2]
    assert backward.positions.tolist() == [0, 2]
    assert len(make_evidence(direction.bitext, {}, emitted_is_target=True).kind) == len(NO_EVIDENCE.kind) == 0


def test_bhmm_refuses_known_links() -> None:
    direction = to_direction(CORPUS)
    evidence = make_evidence(direction.bitext, KNOWN, emitted_is_target=True)
    with pytest.raises(AlignmentInputError, match="known links require the model bhmm-f, got bhmm"):
        AlignmentKernel(to_options(Settings(BHMM)), direction, None, evidence)


def test_known_links_are_checked_and_imposed() -> None:
    assert KnownLinks(frozenset([(0, 0)]), frozenset([(0, 0)])).problem(1, 1) == (
        "the link 0-0 is both fixed and forbidden"
    )
    assert "the pair has 2 and 1 words" in str(KnownLinks(frozenset([(1, 1)])).problem(2, 1))
    assert KnownLinks(frozenset([(1, 0)])).problem(2, 1) is None
    assert KnownLinks(frozenset([(2, 0)]), frozenset([(0, 0)])).impose([(0, 0), (1, 1)]) == [(1, 1), (2, 0)]
    assert np.array(KnownLinks().impose([(1, 0)])).tolist() == [[1, 0]]
