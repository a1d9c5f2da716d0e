"""Language models of the kernels compared with dictionaries of n-grams."""

from itertools import product
from random import Random

import numpy as np
import pytest
from tests.reference.language_models.backoff import Model, random_model
from tests.samplers.language_models.models import kernel_model, rows, walk

from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.language_models.building import ModelBuilder
from hierogram.samplers.language_models.model import BEGIN, EMPTY, LanguageModel, score

WORDS = 6
CASES = [(order, pruned) for order in (1, 2, 3, 4, 5) for pruned in (0.0, 0.3)]


@pytest.mark.slow
@pytest.mark.parametrize(("order", "pruned"), CASES)
def test_probabilities_and_states_equal_the_reference(order: int, pruned: float) -> None:
    random = Random(order)
    for _ in range(20):
        reference = random_model(random, order, WORDS, pruned)
        model = kernel_model(reference, WORDS, rows_at_once=3, expected=False)
        text = [random.randrange(WORDS) for _ in range(200)]
        log10, states = walk(model, text)
        seen = {}
        for k, word in enumerate(text):
            assert log10[k] == pytest.approx(reference.probability(text[:k], word), abs=2e-6)
            context = reference.state(text[max(0, k - order) : k + 1])
            assert model.states[states[k]]["length"] == len(context)
            assert seen.setdefault(context, states[k]) == states[k]
        assert len(set(seen.values())) == len(seen)
        assert model.begin == walk(model, [BEGIN])[1][0]


def open_words(model: LanguageModel, words: list[int]) -> int:
    """Return the number of leading words whose probabilities can depend on words before the sequence."""
    state = np.int32(EMPTY)
    for k, word in enumerate(words):
        _, state = score(model, state, word)
        if model.states[state]["length"] <= k or model.states[state]["open"] == 0:
            return k + 1
    return len(words)


@pytest.mark.parametrize(("order", "pruned"), CASES)
def test_words_whose_probability_depends_on_earlier_words_are_open(order: int, pruned: float) -> None:
    random = Random(100 + order)
    for _ in range(5):
        reference = random_model(random, order, 4, pruned)
        model = kernel_model(reference, 4)
        for _ in range(20):
            words = [random.randrange(4) for _ in range(random.randint(1, 6))]
            number = open_words(model, words)
            assert number == reference.open_words(words)
            alone, alone_states = walk(model, words)
            for before in product(range(4), repeat=order - 1):
                log10, states = walk(model, words, walk(model, before)[1][-1] if before else EMPTY)
                assert np.array_equal(log10[number:], alone[number:])
                if number < len(words):
                    assert states[-1] == alone_states[-1]


def test_models_with_growing_tables_score_like_models_with_preallocated_tables() -> None:
    reference = random_model(Random(5), 4, 40, children=6)
    one, other = kernel_model(reference, 40), kernel_model(reference, 40, rows_at_once=7, expected=False)
    text = [Random(6).randrange(40) for _ in range(2_000)]
    for found, expected in zip(walk(one, text), walk(other, text), strict=True):
        assert np.array_equal(found, expected)
    assert len(reference.log10) > 3_000


def test_a_repeated_ngram_is_reported() -> None:
    unigrams = np.full(3, -1, np.float32)
    grams = [(0, 1), (1, 2), (0, 1), (2, 2)]
    builder = ModelBuilder(2, unigrams, unigrams)
    assert builder.add(*rows(Model(dict.fromkeys(grams, -0.5), {}, 2), grams)) == 2


def test_orders_of_0_and_16_are_refused() -> None:
    for order in (0, 16):
        with pytest.raises(SamplerError, match=f"got {order}"):
            ModelBuilder(order, np.zeros(3, np.float32), np.zeros(3, np.float32))


def test_scoring_one_word_returns_its_probability_and_state() -> None:
    reference = random_model(Random(8), 3, WORDS)
    model = kernel_model(reference, WORDS)
    log10, state = score(model, model.begin, 4)
    assert log10 == pytest.approx(reference.probability([BEGIN], 4), abs=1e-6)
    assert score(model, state, 5)[0] == pytest.approx(reference.probability([BEGIN, 4], 5), abs=1e-6)
