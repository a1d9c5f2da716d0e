"""The translation that is most like the other likely ones."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from sacrebleu.metrics import CHRF

import hierogram as hg
from hierogram.daemon.decoding.consensus import CANDIDATES, likenesses, most_agreed

words = st.text("abc", min_size=1, max_size=5)


@pytest.mark.slow
@given(st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4))
def test_likeness_is_chrf(texts: list[list[str]]) -> None:
    metric = CHRF(word_order=2)
    lines = [" ".join(text) for text in texts]
    expected = [[metric.sentence_score(line, [reference]).score / 100 for reference in lines] for line in lines]
    assert likenesses(texts) == pytest.approx(np.array(expected))


def test_what_has_no_words_is_like_nothing() -> None:
    assert likenesses([[], ["a"]]).tolist() == [[0, 0], [0, 1]]


def test_the_likeliest_is_not_taken_where_others_agree() -> None:
    texts = [["we", "eat", "bread"], ["she", "has", "bread"], ["she", "has", "sweet", "bread"], ["she", "had", "bread"]]
    assert most_agreed(texts, np.array([0.5, 0.3, 0.0, 0.0])) == 2
    # By far the likeliest is.
    assert most_agreed(texts, np.array([2.0, 0.3, 0.0, 0.0])) == 0


def test_one_translation_of_a_small_store_is_agreed_upon(parts: hg.GrammarStore) -> None:
    translator = hg.Decoder(parts).translator()
    several = translator.translate("ninakula samaki tunapenda chai", CANDIDATES, distinct=True)
    scores = np.array([one.score for one in several.candidates])
    assert (np.diff(scores) <= 0).all()
    number = most_agreed([one.words for one in several.candidates], scores)
    one = translator.translate("ninakula samaki tunapenda chai")
    assert len(one.candidates) == 1
    assert one.candidates[0].words == several.candidates[number].words
    assert one.candidates[0].score == pytest.approx(scores[number])
    assert one.alignment() == several.alignment(number)
    assert one.derivation() == several.derivation(number)
