"""Cube pruning finds the best score of its twin, and is seldom worse than cdec's order with the same pops."""

import random
from itertools import product

import numpy as np
import pytest
from tests.reference.decoding.derivations import Model, NGrams, Rule
from tests.reference.decoding.pruning import Search
from tests.samplers.decoding.small import Example, make_decoder, random_example, to_sentence

from hierogram.samplers.decoding.chart import DecodingTask
from hierogram.samplers.decoding.decoder import SentenceDecoder
from hierogram.samplers.decoding.grammar import COUNTED_FEATURES
from hierogram.samplers.language_models.vocabulary import SPECIAL


def make_task(decoder: SentenceDecoder, example: Example) -> DecodingTask:
    return DecodingTask(
        decoder.grammar, decoder.weighed, decoder.language_model, to_sentence(example)[0], decoder.limits
    )


def find_best_score(decoder: SentenceDecoder, task: DecodingTask) -> float:
    return float(decoder.decode(task.sentence).scores[0])


@pytest.mark.parametrize("pops", [1, 2, 3, 5, 8, 0])
def test_the_kernel_finds_the_best_score_of_its_twin(pops: int) -> None:
    pruned = 0
    for seed in range(1_000, 1_060):
        example = random_example(random.Random(seed), with_model=seed % 5 > 0)
        decoder, exact = make_decoder(example, pops), make_decoder(example)
        task = make_task(decoder, example)
        found = find_best_score(decoder, task)
        assert found == pytest.approx(Search(task, combine_on_push=False).best(), abs=1e-9)
        pruned += found < find_best_score(exact, task) - 1e-9
    assert pops == 0 or pruned > 0 or pops > 2


def dense_example(rng: random.Random) -> Example:
    """Return an example with many rules for each source side, and bigrams that distinguish their combinations."""
    source, target = [f"s{k}" for k in range(4)], [f"t{k}" for k in range(20)]
    rules: list[Rule] = []
    for word in source:
        sides = [(word,), (word, -1), (-1, word), (-1, word, -2)]
        for side in sides:
            for _ in range(8):
                gaps = [symbol for symbol in side if isinstance(symbol, int)]
                words = [rng.choice(target) for _ in range(rng.randint(1, 2))]
                symbols = [*gaps, *words]
                rng.shuffle(symbols)
                rules.append(Rule(side, tuple(symbols), (rng.gauss(0, 1), 0.0)))
    rules = list({(rule.source, rule.target): rule for rule in rules}.values())
    ngrams: NGrams = {(word,): (-rng.uniform(1, 2), -0.5) for word in (*SPECIAL, *target)}
    ngrams |= {("</s>",): (-1.5, 0.0), ("<s>",): (-99.0, -0.5)}
    for first, second in product(("<s>", *target), (*target, "</s>")):
        if rng.random() < 0.2:
            ngrams[first, second] = (-rng.uniform(0.1, 0.9), 0.0 if second == "</s>" else -0.3)
    ngrams = {gram: tuple(float(np.float32(value)) for value in values) for gram, values in ngrams.items()}
    weights: dict[object, float] = dict.fromkeys((0, 1, *COUNTED_FEATURES), 0.0) | {0: 0.5, "lm": 1.0, "words": 2.5}
    sentence = [rng.choice(source) for _ in range(rng.randint(5, 7))]
    return Example(Model(rules, weights, ngrams, 2, 10), sentence, source, target)


@pytest.mark.parametrize("pops", [4, 20])
def test_the_kernel_finds_the_best_score_of_its_twin_with_many_rules_per_source_side(pops: int) -> None:
    for seed in range(12):
        example = dense_example(random.Random(seed))
        decoder = make_decoder(example, pops)
        task = make_task(decoder, example)
        assert find_best_score(decoder, task) == pytest.approx(Search(task, combine_on_push=False).best(), abs=1e-9)


@pytest.mark.slow
def test_the_kernel_is_seldom_worse_than_cdec_order() -> None:
    worse = better = 0
    for seed in range(60):
        example = dense_example(random.Random(seed))
        decoder = make_decoder(example, 20)
        task = make_task(decoder, example)
        found, expected = find_best_score(decoder, task), Search(task, combine_on_push=True).best()
        worse += found < expected - 1e-9
        better += found > expected + 1e-9
    assert worse <= 7, (worse, better)
    assert better > worse
