"""Word classes are a local optimum of the likelihood, and recover the classes that generated a text."""

import math
from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from tests.reference.language_models.backoff import random_model
from tests.samplers.language_models.models import built

from hierogram.samplers.language_models.classes import ClassModel, word_classes
from hierogram.samplers.language_models.model import BEGIN, END
from hierogram.samplers.language_models.vocabulary import GrowingVocabulary


def arrays(sentences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    words = np.array([word for sentence in sentences for word in sentence], np.int32)
    return words, np.cumsum([0, *map(len, sentences)])


def log_likelihood(sentences: list[list[int]], classes: dict[int, int]) -> float:
    """Return the log probability of all words given their predecessors, by relative frequencies; -1 ends a sentence."""
    pairs, tokens = Counter[tuple[int, int]](), Counter[int]()
    left, right, words = Counter[int](), Counter[int](), Counter[int]()
    for sentence in sentences:
        line = [-1, *sentence, -1]
        for before, after in pairwise(line):
            pairs[classes[before], classes[after]] += 1
            left[classes[before]] += 1
            right[classes[after]] += 1
            tokens[after] += 1
            words[after] = classes[after]
    within = sum(n * (math.log(n) - math.log(right[words[word]])) for word, n in tokens.items())
    return within + sum(n * math.log(n / left[c]) for (c, _), n in pairs.items())


def test_words_in_the_same_contexts_share_a_class() -> None:
    random = Random(1)
    of_class = [range(20), range(20, 26), range(26, 30)]
    sentences = [[random.choice(of_class[(k + n % 2) % 3]) for k in range(3 + n % 5)] for n in range(600)]
    found = word_classes(*arrays(sentences), 3)
    assert [set(found[list(own)]) for own in of_class] == [{0}, {1}, {2}]


@pytest.mark.parametrize("different", [2, 3])
def test_no_word_move_improves_the_likelihood(different: int) -> None:
    better = 0
    for seed in range(40):
        random = Random(seed)
        sentences = [
            [min(random.randrange(9), random.randrange(9)) for _ in range(random.randrange(6))] for _ in range(9)
        ]
        sentences.append(list(range(9)))
        found = word_classes(*arrays(sentences), different).tolist()
        classes = {-1: different, **dict(enumerate(found))}
        value = log_likelihood(sentences, classes)
        for word in range(9):
            for other in range(different):
                assert log_likelihood(sentences, classes | {word: other}) <= value + 1e-6
        start = {-1: different, **{word: random.randrange(different) for word in range(9)}}
        better += value > log_likelihood(sentences, start)
        sizes = np.bincount(found, minlength=different)
        assert (np.diff(sizes) <= 0).all()
    assert better > 30


def test_text_probability_is_the_class_times_the_word_in_its_class() -> None:
    random = Random(5)
    of_classes = random_model(random, 3, 7)
    vocabulary = GrowingVocabulary()
    vocabulary.add(["a", "b", "c", "d"])
    # A new word belongs to class 6.
    classes = np.array([6, 6, 6, 3, 4, 4, 5], np.int32)
    log10 = -np.arange(1, 8, dtype=np.float32) / 8
    found = ClassModel(vocabulary.finish(), classes, log10, built(of_classes, 7))
    texts = [["a", "b", "new", "c"], [], ["d", "d", "c", "b", "a"], ["other"]]
    expected = []
    for text in texts:
        history, total = [BEGIN], 0.0
        for word in text:
            number = 3 + "abcd".index(word) if len(word) == 1 else 0
            total += of_classes.probability(history, int(classes[number])) + float(log10[number])
            history.append(int(classes[number]))
        expected.append(total + of_classes.probability(history, END))
    assert found.scores(texts).tolist() == pytest.approx(expected, abs=1e-5)
    assert found.scores([]).tolist() == []
