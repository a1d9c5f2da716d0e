"""Consensus decoding: the translation most similar to the other likely ones."""


import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from sacrebleu.metrics import CHRF

import hierogram as hg
from hierogram.daemon.exports.formats.format import DEFAULT_WEIGHTS, WORDS
from hierogram.tools.translation.consensus import CANDIDATES, choose_consensus, pairwise_chrf

words = st.text("abc", min_size=1, max_size=5)


@pytest.mark.slow
@given(st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4))
def test_similarity_is_chrf(texts: list[list[str]]) -> None:
    metric = CHRF(word_order=2, beta=1)
    lines = [" ".join(text) for text in texts]
    expected = [[metric.sentence_score(line, [reference]).score / 100 for reference in lines] for line in lines]
    assert pairwise_chrf(texts) == pytest.approx(np.array(expected))


def test_repeated_ngrams_count_in_chrf() -> None:
    texts = [["a", "a", "b"], ["a", "a"], ["a"]]
    metric = CHRF(word_order=2, beta=1)
    expected = [
        [metric.sentence_score(" ".join(text), [" ".join(other)]).score / 100 for other in texts] for text in texts
    ]
    assert pairwise_chrf(texts) == pytest.approx(np.array(expected))


def test_empty_translations_are_similar_to_nothing() -> None:
    assert pairwise_chrf([[], ["a"]]).tolist() == [[0, 0], [0, 1]]


def test_the_likeliest_is_not_selected_if_others_agree() -> None:
    texts = [["we", "eat", "bread"], ["she", "has", "bread"], ["she", "has", "sweet", "bread"], ["she", "had", "bread"]]
    assert choose_consensus(texts, np.array([0.5, 0.3, 0.0, 0.0])) == 1
    # The most probable translation has nearly all of the probability.
    assert choose_consensus(texts, np.array([3.0, 0.3, 0.0, 0.0])) == 0


def test_only_the_likeliest_are_compared() -> None:
    texts = [["she", "has", "bread"]] * CANDIDATES + [["we", "eat", "tea"]] * 2 * CANDIDATES
    assert choose_consensus(texts, np.zeros(len(texts))) == 0


def test_small_stores_prefer_more_words(parts: hg.GrammarStore) -> None:
    [candidate] = hg.Decoder(parts).translator().translate("ninakula samaki tunapenda chai").candidates
    weights = DEFAULT_WEIGHTS | {WORDS: 1.2}
    score = sum(weights.get(name, 0) * value for name, value in candidate.features.items())
    assert candidate.score == pytest.approx(score)


def test_the_consensus_is_the_first_of_any_number_of_translations(parts: hg.GrammarStore) -> None:
    translator = hg.Decoder(parts).translator()
    one, several = (translator.translate("ninakula samaki tunapenda chai", best) for best in (1, CANDIDATES))
    by_score = sorted(several.candidates, key=lambda candidate: -candidate.score)
    scores = np.array([candidate.score for candidate in by_score])
    chosen = by_score.pop(choose_consensus([candidate.words for candidate in by_score], scores))
    assert [candidate.words for candidate in several.candidates] == [chosen.words, *(one.words for one in by_score)]
    assert [candidate.words for candidate in one.candidates] == [chosen.words]
    assert one.candidates[0].score == pytest.approx(chosen.score)
    assert one.alignment() == several.alignment()
    assert one.derivation() == several.derivation()


