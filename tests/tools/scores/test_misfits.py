"""Misfit words: replaced words are distinguished from original words."""

import numpy as np
import pytest

from hierogram.samplers.scores.scorer import misfit_odds
from hierogram.tools.scores.scoring import corrupt, stack_classifiers, train


def test_a_classifier_separates_kept_from_replaced_words() -> None:
    random = np.random.default_rng(1)
    kept, replaced = random.normal(1, 1, (2000, 9)), random.normal(-1, 1, (400, 9))
    classifiers = stack_classifiers((train(kept, replaced), None))

    def odds(rows: np.ndarray, side: int = 0) -> np.ndarray:
        return np.array([misfit_odds(side, row.copy(), classifiers) for row in rows])

    assert (odds(random.normal(1, 1, (500, 9))) < 0).mean() > 0.95
    assert (odds(random.normal(-1, 1, (500, 9))) > 0).mean() > 0.95
    # Features between both kinds of training data give nearly even odds.
    assert abs(np.median(odds(random.normal(0, 0.1, (500, 9))))) < 1
    assert np.isnan(odds(kept[:1], side=1)).all()


def test_nothing_is_learned_from_too_few_words() -> None:
    rows = np.zeros((4, 9))
    assert train(rows, rows) is None
    assert train(rows[:0], rows[:0]) is None


@pytest.mark.parametrize("length", [1, 4, 10, 33])
def test_a_fifth_of_the_words_and_at_least_one_is_replaced(length: int) -> None:
    random = np.random.default_rng(2)
    words = random.integers(5, size=length).astype(np.int32)
    spoiled, places = corrupt(words, np.arange(5, dtype=np.int32), random)
    assert len(places) == max(1, round(length / 5))
    assert [k for k in range(length) if spoiled[k] != words[k]] == sorted(places)


def test_if_all_words_are_the_same_none_is_replaced() -> None:
    words = np.array([3, 3], np.int32)
    spoiled, places = corrupt(words, np.full(9, 3, np.int32), np.random.default_rng(1))
    assert (spoiled.tolist(), places) == ([3, 3], [])
