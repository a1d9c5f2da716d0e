"""The aligner's kernels: draws compared with the twin, counts with a recount, marginals, decoding, and options."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from tests.reference.alignment import (
    BHMM,
    BHMM_F,
    BHMM_Z,
    MAX_FERTILITY,
    NO_OUTGOING,
    OWN_LINK_COUNTED,
    STALE_JUMPS,
    Corpus,
    Pair,
    Settings,
    State,
    Word,
    link_draws,
    sweep,
)
from tests.samplers.alignment.kernels import (
    KernelChain,
    from_chain,
    from_marginals,
    random_corpus,
    random_state,
    same_counts,
    to_chain,
    to_marginals,
)

from hierogram.samplers.alignment.bitext import make_direction, read_side
from hierogram.samplers.alignment.marginals import WHOLE, add_marginals, empty_marginals
from hierogram.samplers.alignment.models.hmm import FLAT_LEXICAL, TOKENS_PER_FLAT_JUMP, strengths_at
from hierogram.samplers.alignment.models.registry import options_for
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, chain_seed, decode, run_chain
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.exceptions import AlignmentInputError

MODELS = (BHMM, BHMM_Z, BHMM_F)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_kernel_and_the_twin_draw_the_same_states(model: str) -> None:
    settings = Settings(model)
    for trial in range(6):
        random = Random(trial)
        corpus = random_corpus(random)
        state = random_state(corpus, model, random)
        kernel = KernelChain(corpus, state, settings, seed=trial)
        for number in range(1, 5):
            state = sweep(corpus, state, trial, number, settings)
            assert kernel.sweep() == state


@pytest.mark.slow
def test_the_kernel_and_the_twin_draw_the_same_states_during_warmup() -> None:
    random = Random(2)
    corpus, settings = random_corpus(random), Settings(BHMM, lexical=0.0002, jump=0.05)
    state = random_state(corpus, BHMM, random)
    kernel = KernelChain(corpus, state, settings, seed=2)
    kernel.options = replace(kernel.options, warming=32)
    kernel.kernel.options = kernel.options
    tokens = sum(len(pair.emitted) for pair in corpus.pairs)
    found = [strengths_at(sweep, kernel.options, tokens) for sweep in range(1, 36)]
    assert found[:3] == [pytest.approx((FLAT_LEXICAL, tokens / TOKENS_PER_FLAT_JUMP))] * 3
    ratios = [(one[0] / other[0], one[1] / other[1]) for one, other in pairwise(found[2:33])]
    assert ratios == [pytest.approx(ratios[0])] * 30
    assert ratios[0][0] > 1
    assert found[32:] == [(settings.lexical, settings.jump)] * 3
    for number, (lexical, jump) in enumerate(found, 1):
        state = sweep(corpus, state, 2, number, replace(settings, lexical=lexical, jump=jump))
        assert kernel.sweep() == state, number
    assert kernel.chain.totals["prior"] == pytest.approx(settings.lexical * len(corpus.emitted_words))


@pytest.mark.slow
def test_fertilities_of_seven_or_more_are_counted_together() -> None:
    """Fertilities of seven or more are one category, so a further link of such a word has no fertility factor."""
    corpus = Corpus([Pair(tuple("abababababab"), ("x", "y", "z")), Pair(tuple("ababababa"), ("x", "z"))])
    settings = Settings(BHMM_F, fertility=0.2, unlinked=0.05)
    for trial in range(4):
        state: State = tuple(tuple(Word(0) for _ in pair.emitted) for pair in corpus.pairs)
        kernel = KernelChain(corpus, state, settings, seed=trial)
        many = 0
        for number in range(1, 31):
            state = sweep(corpus, state, trial, number, settings)
            assert kernel.sweep() == state
            many += max(Counter(word.link for word in state[0]).values()) >= MAX_FERTILITY
        assert many > 3


def test_a_repeated_word_has_the_draws_of_the_reference() -> None:
    corpus = Corpus([Pair(("a",) * 5, tuple("uvwxyz"))])
    settings = Settings(BHMM_F, unlinked=0.05)
    for trial in range(4):
        state: State = (tuple(Word(0) for _ in corpus.pairs[0].emitted),)
        kernel = KernelChain(corpus, state, settings, seed=trial)
        for number in range(1, 31):
            state = sweep(corpus, state, trial, number, settings)
            assert kernel.sweep() == state


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_kernel_differs_from_every_mutant(model: str) -> None:
    random = Random(0)
    corpus = random_corpus(random)
    state = random_state(corpus, model, random)
    for mutant in (NO_OUTGOING, OWN_LINK_COUNTED, STALE_JUMPS):
        kernel = KernelChain(corpus, state, Settings(model), seed=1)
        other = state
        same = True
        for number in range(1, 31):
            other = sweep(corpus, other, 1, number, Settings(model, mutant=mutant))
            same &= kernel.sweep() == other
        assert not same


@pytest.mark.parametrize("model", MODELS)
def test_counts_equal_a_recount_after_each_sweep(model: str) -> None:
    random = Random(5)
    settings = Settings(model, lexical=50.0, jump=1000.0, fertility=1000.0)
    pairs = [
        Pair(
            tuple(f"f{random.randrange(50)}" for _ in range(random.randint(1, 9))),
            ("e", *(f"e{random.randrange(60)}" for _ in range(random.randint(1, 9)))),
        )
        for _ in range(700)
    ]
    corpus = Corpus(pairs)
    # All words are first linked to one conditioning word. Strong priors spread the links, so the table must grow.
    state: State = tuple(tuple(Word(0) for _ in pair.emitted) for pair in pairs)
    kernel = KernelChain(corpus, state, settings, seed=1)
    rows = len(kernel.chain.pairs.rows)
    for _ in range(3):
        now = kernel.sweep()
        assert same_counts(kernel.chain, to_chain(corpus, now, settings))
    assert len(kernel.chain.pairs.rows) > rows


@pytest.mark.parametrize("model", MODELS)
def test_exact_draws_add_their_conditional_probabilities_to_the_marginals(model: str) -> None:
    random = Random(3)
    settings = Settings(model)
    corpus = Corpus([Pair(("a",), ("x", "y")), Pair(("b",), ("x",))])
    state = random_state(corpus, model, random)
    kernel = KernelChain(corpus, state, settings, seed=2)
    expected = {draw.state[0][0].link: draw.probability for draw in link_draws(corpus, state, 0, 0, settings)}
    kernel.sweep()
    unlinked, *found = from_marginals(kernel.direction.bitext, kernel.marginals)[0][0].tolist()
    assert found == pytest.approx([expected[i] for i in range(2)], abs=0.5 / WHOLE)
    if model != BHMM_Z:
        assert unlinked == pytest.approx(expected[None], abs=0.5 / WHOLE)


def test_candidate_draws_add_their_samples_to_the_marginals() -> None:
    random = Random(4)
    settings = Settings(BHMM_Z)
    corpus = random_corpus(random)
    kernel = KernelChain(corpus, random_state(corpus, BHMM_Z, random), settings, seed=2)
    bitext = kernel.direction.bitext
    for _ in range(10):
        kernel.sweep()
    for means in from_marginals(bitext, kernel.marginals):
        samples = np.float32(10) * means
        assert samples[:, 1:].sum(axis=1) == pytest.approx(10)
        # Of one or two positions, both are candidates, so their probabilities are added.
        assert samples.shape[1] <= 3 or samples == pytest.approx(samples.round())


def test_decoding_selects_the_most_probable_position_or_no_link() -> None:
    direction = make_direction(read_side(["a b c d"]), read_side(["x y"]))
    samples = np.array([[0, 6, 4], [5, 3, 2], [3, 0, 3], [6, 1, 9]], np.float32)
    marginals = to_marginals(direction.bitext, [samples / 10], 10)
    assert decode(direction, BHMM, marginals).links.tolist() == [0, -1, 1, 1]
    assert decode(direction, BHMM_F, marginals).posterior.tolist() == pytest.approx([0.6, 0.5, 0.3, 0.9])
    # With collocations, the first cell of a word is the frequency of Z = 1, with any link.
    assert decode(direction, BHMM_Z, marginals).links.tolist() == [0, 0, 1, -1]


def options(model: str, **more: int) -> AlignerOptions:
    values = {"sweeps": 6, "chains": 1, "burn_in": 2, "thinning": 2, **more}
    return AlignerOptions(model=model, lexical=0.001, similarity=0.0, **values)


@pytest.mark.parametrize("model", MODELS)
def test_empty_sides_are_skipped(model: str) -> None:
    emitted, conditioning = ["", "a b", "", "a"], ["x", "", "", "x y"]
    direction = make_direction(read_side(emitted), read_side(conditioning))
    found = decode(direction, model, run_chain(AlignmentKernel(options(model), direction), chain_seed(1, 0, 0)))
    assert found.links[:2].tolist() == [-1, -1]
    assert found.links[2] in (-1, 0, 1)


@pytest.mark.parametrize("model", MODELS)
def test_only_chains_with_the_same_seed_are_equal(model: str) -> None:
    random = Random(1)
    corpus = [random_corpus(random).pairs for _ in range(5)]
    pairs = [pair for some in corpus for pair in some]
    direction = make_direction(
        read_side(" ".join(pair.emitted) for pair in pairs), read_side(" ".join(pair.conditioning) for pair in pairs)
    )
    chosen = options(model)
    one, again, other = (run_chain(AlignmentKernel(chosen, direction), chain_seed(seed, 0, 0)) for seed in (1, 1, 2))
    means = [from_marginals(direction.bitext, marginals) for marginals in (one, again, other)]
    assert all(map(np.array_equal, means[0], means[1]))
    assert not all(map(np.array_equal, means[0], means[2]))
    seeds = {int(chain_seed(seed, direction, chain)) for seed in range(9) for direction in (0, 1) for chain in range(9)}
    assert len(seeds) == 9 * 2 * 9


def test_consecutive_chains_in_one_run_equal_separate_runs() -> None:
    random = Random(3)
    # More word pairs are linked than the initial table holds.
    sides = [[" ".join(str(random.randrange(most)) for _ in range(12)) for _ in range(150)] for most in (40, 2_000)]
    direction = make_direction(read_side(sides[0]), read_side(sides[1]))
    kernel = AlignmentKernel(options(BHMM_F), direction)
    by_steps = empty_marginals(direction.bitext)
    for key in (5, 6, 7):
        add_marginals(direction.bitext, by_steps, run_chain(kernel, key))
    in_a_row = kernel.run([5, 6, 7])
    assert in_a_row.samples.tolist() == by_steps.samples.tolist() == [6]
    means = from_marginals(direction.bitext, in_a_row), from_marginals(direction.bitext, by_steps)
    assert all(map(np.array_equal, *means))


def test_a_state_survives_conversion_to_a_chain_and_back() -> None:
    random = Random(8)
    corpus = random_corpus(random)
    for model in MODELS:
        state = random_state(corpus, model, random)
        assert from_chain(corpus, to_chain(corpus, state, Settings(model))) == state


def test_invalid_sides_and_options_are_rejected() -> None:
    with pytest.raises(AlignmentInputError, match="one side has 1 lines, the other 2"):
        make_direction(read_side(["a"]), read_side(["x", "y"]))
    with pytest.raises(AlignmentInputError, match="line 2: 32,768 words"):
        read_side(["a", "b " * 32_768])
    with pytest.raises(AlignmentInputError, match="unknown model 'ibm4'"):
        options_for("ibm4", 5)
    with pytest.raises(AlignmentInputError, match="no samples left"):
        options(BHMM, sweeps=3, burn_in=2, thinning=2)
    with pytest.raises(AlignmentInputError, match="chains must be >= 1"):
        options(BHMM, chains=0)


def test_words_that_differ_only_in_case_are_one_word() -> None:
    assert read_side(["The the THE"]).words.tolist() == [0, 0, 0]
    # Lowercasing İ gives two characters, but no additional word.
    assert len(read_side(["İ a"]).words) == 2
