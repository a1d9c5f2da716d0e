"""Coverage of n-grams, against plain Python."""

from random import Random

import numpy as np
import pytest

from hierogram.tools.lab.comparison.measuring import count_ngrams, coverage, mark_covered


def flat(sentences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([symbol for sentence in sentences for symbol in sentence], np.int32),
        np.cumsum([0, *[len(sentence) for sentence in sentences]], dtype=np.int64),
    )


def list_ngrams(sentence: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(sentence[k : k + n]) for k in range(len(sentence) - n + 1)]


@pytest.mark.parametrize("seed", range(5))
def test_shares_of_covered_ngrams_equal_plain_counting(seed: int) -> None:
    random = Random(seed)
    text = [[random.randrange(6) for _ in range(random.randrange(8))] for _ in range(40)]
    # Sides contain nonterminals, which no n-gram crosses.
    sides = [[random.choice([-2, -1, 0, 1, 2, 3, 4, 7]) for _ in range(random.randint(1, 5))] for _ in range(12)]
    ngrams = count_ngrams(*flat(text), 4)
    covered = np.zeros(len(ngrams.lengths), np.bool_)
    mark_covered(*flat(sides), ngrams, covered)
    shares = coverage(ngrams, covered)
    for n in range(1, 5):
        held = {gram for side in sides for gram in list_ngrams(side, n)}
        occurring = [gram for sentence in text for gram in list_ngrams(sentence, n)]
        assert shares[n - 1] == pytest.approx(sum(gram in held for gram in occurring) / len(occurring))
    assert 0 < shares[1] < shares[0] < 1


def test_a_text_without_long_sentences_has_no_long_ngrams() -> None:
    ngrams = count_ngrams(*flat([[1], [2]]), 3)
    assert coverage(ngrams, np.ones(len(ngrams.lengths), np.bool_)) == [1.0, 0.0, 0.0]
