"""Jumps of long sentences: wide jumps share events, and long sentences are aligned nearly as well as short ones."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from tests.reference.alignment import BHMM, BHMM_F, BHMM_Z, WHOLE_BINS, Corpus, Pair, Settings, Word, posterior, sweep
from tests.samplers.alignment.kernels import KernelChain, random_state, same_counts, to_chain

from hierogram.daemon.learning.alignment.aligning import align
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.samplers.alignment.bitext import MAX_WORDS
from hierogram.samplers.alignment.chain import (
    SINGLE_WIDTHS,
    first_width,
    furthest_event,
    jump_event,
    jump_events,
    jump_share,
)
from hierogram.samplers.alignment.prior_counts import MAX_EVENT

MODELS = (BHMM, BHMM_Z, BHMM_F)


def test_jump_widths_in_one_bin_share_its_probability() -> None:
    widths = np.arange(-MAX_WORDS - 1, MAX_WORDS + 2)
    events = jump_events(widths)
    assert events.min() == -MAX_EVENT
    assert events.max() == MAX_EVENT == furthest_event(MAX_WORDS)
    assert (np.diff(events) >= 0).all()
    jumps = np.zeros(2 * MAX_EVENT + 4)
    corpus = Corpus([Pair(("a",), ("x",) * 5)])
    for event, number in Counter(events.tolist()).items():
        share = jump_share(jumps, event + MAX_EVENT)
        assert share == corpus.jump_share(event)
        # The last bin is cut off by the longest sentence.
        assert share * number == 1 or abs(event) == MAX_EVENT
        assert jump_events(np.array([first_width(event)]))[0] == event
    for width in (0, 1, -100, 101, -200, 201, 1_000, -12_800, MAX_WORDS):
        event = int(jump_events(np.array([width]))[0])
        assert jump_event(jumps, 0, width) - MAX_EVENT == event == corpus.find_event(width)


def test_jumps_to_and_from_the_empty_word_are_not_binned() -> None:
    jumps = np.zeros(2 * (SINGLE_WIDTHS + 1) + 4)
    assert [jump_share(jumps, len(jumps) - k) for k in (3, 2)] == [1, 1]


@pytest.mark.parametrize("model", [BHMM, BHMM_F])
def test_marginals_of_a_long_sentence_equal_the_posterior(model: str) -> None:
    """In a corpus of one emitted word, the word's conditional probability is its posterior, which is enumerated."""
    random = Random(1)
    corpus = Corpus([Pair(("a",), tuple(random.choice("wxyz") for _ in range(430)))])
    settings = Settings(model)
    expected = np.zeros(430)
    for (words,), p in posterior(corpus, settings).items():
        if words[0].link is not None:
            expected[words[0].link] += p
    start = ((Word(3),),)
    kernel = KernelChain(corpus, start, settings, seed=1)
    kernel.sweep()
    assert kernel.marginals.cells[1:].astype(np.float64) == pytest.approx(expected, rel=1e-4)
    assert expected[99] > 20 * expected[100] > 0


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_kernel_and_the_twin_draw_the_same_states_in_long_sentences(model: str) -> None:
    random = Random(2)
    corpus = Corpus(
        [
            Pair(tuple(random.choice("abc") for _ in range(4)), tuple(random.choice("xyz") for _ in range(length)))
            for length in (5, 130)
        ]
    )
    settings = Settings(model)
    state = other = random_state(corpus, model, random)
    kernel = KernelChain(corpus, state, settings, seed=2)
    differs = False
    for number in range(1, 4):
        state = sweep(corpus, state, 2, number, settings)
        other = sweep(corpus, other, 2, number, Settings(model, mutant=WHOLE_BINS))
        assert kernel.sweep() == state
        differs |= state != other
    assert differs
    assert same_counts(kernel.chain, to_chain(corpus, state, settings))


def test_long_sentences_are_aligned_nearly_as_well_as_normal_ones() -> None:
    """Sentences are translated word by word with local reordering. As in real text, a few words are frequent."""
    random = Random(3)
    words = random.choices(range(400), [1 / (k + 5) for k in range(400)], k=5_000)
    order = list(range(len(words)))
    at = 0
    while at < len(words):
        size = random.randint(1, 3)
        order[at : at + size] = reversed(order[at : at + size])
        at += size
    lengths = [*[20] * 125, *[300] * 5, 1_000]
    sources, targets, expected = [], [], []
    at = 0
    for length in lengths:
        here = [place for place in order if at <= place < at + length]
        sources.append(" ".join(f"s{words[place]}" for place in range(at, at + length)))
        targets.append(" ".join(f"t{words[place]}" for place in here))
        expected.append({(place - at, t) for t, place in enumerate(here)})
        at += length
    aligned = [{(s, t) for s, t, _ in pair} for pair in align(sources, targets, AlignOptions(chains=2, threads=1))]

    def error(first: int, stop: int) -> float:
        right = sum(len(one & other) for one, other in zip(aligned[first:stop], expected[first:stop], strict=True))
        links = sum(len(one) + len(other) for one, other in zip(aligned[first:stop], expected[first:stop], strict=True))
        return 1 - 2 * right / links

    normal, long, longest = error(0, 125), error(125, 130), error(130, 131)
    assert normal < 0.05
    assert long < normal + 0.03
    assert longest < normal + 0.03
