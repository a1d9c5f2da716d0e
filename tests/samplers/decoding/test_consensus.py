"""Consensus decoding selects the translation that is most similar to other likely translations."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from sacrebleu.metrics import CHRF

from hierogram.samplers.decoding.consensus import CANDIDATES, choose_consensus, pairwise_chrf

words = st.text("abc", min_size=1, max_size=5)


def assert_equal_to_sacrebleu(texts: list[list[str]]) -> None:
    metric = CHRF(word_order=2, beta=1)
    lines = [" ".join(text) for text in texts]
    expected = [[metric.sentence_score(line, [reference]).score / 100 for reference in lines] for line in lines]
    assert pairwise_chrf(texts) == pytest.approx(np.array(expected))


@pytest.mark.slow
@given(st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4))
def test_similarities_equal_chrf_of_sacrebleu(texts: list[list[str]]) -> None:
    assert_equal_to_sacrebleu(texts)


def test_repeated_ngrams_count_in_chrf() -> None:
    assert_equal_to_sacrebleu([["a", "a", "b"], ["a", "a"], ["a"]])


def test_empty_translations_are_similar_to_nothing() -> None:
    assert pairwise_chrf([[], ["a"]]).tolist() == [[0, 0], [0, 1]]


def test_the_likeliest_translation_is_not_selected_if_others_agree() -> None:
    texts = [["we", "eat", "bread"], ["she", "has", "bread"], ["she", "has", "sweet", "bread"], ["she", "had", "bread"]]
    assert choose_consensus(texts, np.array([0.5, 0.3, 0.0, 0.0])) == 1
    # With a score of 3, the likeliest translation has most of the probability.
    assert choose_consensus(texts, np.array([3.0, 0.3, 0.0, 0.0])) == 0


def test_only_the_first_candidates_are_compared() -> None:
    texts = [["she", "has", "bread"]] * CANDIDATES + [["we", "eat", "tea"]] * 2 * CANDIDATES
    assert choose_consensus(texts, np.zeros(len(texts))) == 0
