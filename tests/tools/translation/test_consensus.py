"""Consensus decoding: the translation most similar to the other likely ones."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from sacrebleu.metrics import CHRF
from tests.tools.translation.language_models.arpa_files import Quiet

import hierogram as hg
from hierogram.tools.translation import consensus
from hierogram.tools.translation.consensus import (
    CANDIDATES,
    MORE_CANDIDATES,
    add_class_scores,
    choose_consensus,
    pairwise_chrf,
)
from hierogram.tools.translation.language_models.files import open_language_model

words = st.text("abc", min_size=1, max_size=5)


@pytest.mark.slow
@given(st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4))
def test_similarity_is_chrf(texts: list[list[str]]) -> None:
    metric = CHRF(word_order=2)
    lines = [" ".join(text) for text in texts]
    expected = [[metric.sentence_score(line, [reference]).score / 100 for reference in lines] for line in lines]
    assert pairwise_chrf(texts) == pytest.approx(np.array(expected))


def test_empty_translations_are_similar_to_nothing() -> None:
    assert pairwise_chrf([[], ["a"]]).tolist() == [[0, 0], [0, 1]]


def test_the_likeliest_is_not_selected_if_others_agree() -> None:
    texts = [["we", "eat", "bread"], ["she", "has", "bread"], ["she", "has", "sweet", "bread"], ["she", "had", "bread"]]
    assert choose_consensus(texts, np.array([0.5, 0.3, 0.0, 0.0])) == 2
    # The most probable translation has nearly all of the probability.
    assert choose_consensus(texts, np.array([2.0, 0.3, 0.0, 0.0])) == 0


def test_only_the_likeliest_are_compared() -> None:
    texts = [["she", "has", "bread"]] * 9 + [["we", "eat", "tea"]] * CANDIDATES
    assert choose_consensus(texts, np.array([0.0] * 9 + [1.0] * CANDIDATES)) == 9
    assert choose_consensus(texts, np.array([0.0] * 9 + [-9.0] * CANDIDATES)) == 0
    # The likeliest come last.
    assert choose_consensus(texts[:8] + texts[9:], np.array([0.0] * (CANDIDATES + 7) + [20.0])) == CANDIDATES + 7


def test_a_small_store_agrees_on_one_translation(parts: hg.GrammarStore) -> None:
    translator = hg.Decoder(parts).translator()
    several = translator.translate("ninakula samaki tunapenda chai", CANDIDATES)
    scores = np.array([one.score for one in several.candidates])
    assert (np.diff(scores) <= 0).all()
    number = choose_consensus([one.words for one in several.candidates], scores)
    one = translator.translate("ninakula samaki tunapenda chai")
    assert len(one.candidates) == 1
    assert one.candidates[0].words == several.candidates[number].words
    assert one.candidates[0].score == pytest.approx(scores[number])
    assert one.alignment() == several.alignment(number)
    assert one.derivation() == several.derivation(number)


def test_a_class_model_is_included_except_in_lengths(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("she has bread\nhe has tea\nshe had tea\nwe eat bread\n" * 20)
    hg.lm(tmp_path / "text", tmp_path / "text.lm", tokenized=True)
    classes = open_language_model(str(tmp_path / "text.lm"), Quiet()).classes
    assert classes is not None
    texts = [["she", "has", "tea"], ["tea", "has", "she"], ["she"], []]
    scores = np.array([0.5, 0.5, 2.0, 1.0])
    found = add_class_scores(texts, scores, classes)
    own = np.log(10) * classes.scores(texts)
    mean = own.sum() / (9 + 9 + 3)
    assert found.tolist() == pytest.approx((scores + 0.5 * (own - 0.8 * mean * np.array([9, 9, 3, 0]))).tolist())
    assert found[0] > found[1] + 1
    assert np.isfinite(add_class_scores([[]], scores[3:], classes)).all()


# The store of compounds has only one translation of this sentence.
@pytest.mark.parametrize("parts_url", ["subwords"], indirect=True)
def test_a_small_store_uses_its_language_models_classes(
    parts: hg.GrammarStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consensus, "_OF_CLASSES", 9.0)
    (tmp_path / "text").write_text("i eat fish we like chai\nfish we eat like i tea\n" * 9)
    hg.lm(tmp_path / "text", tmp_path / "text.lm", store=parts)
    translator = hg.Decoder(parts, lm=tmp_path / "text.lm").translator()
    several = translator.translate("ninakula samaki tunapenda chai", MORE_CANDIDATES)
    texts = [one.words for one in several.candidates]
    scores = np.array([one.score for one in several.candidates])
    classes = open_language_model(str(tmp_path / "text.lm"), Quiet()).classes
    assert classes is not None
    number = choose_consensus(texts, add_class_scores(texts, scores, classes))
    assert number != choose_consensus(texts, scores)
    one = translator.translate("ninakula samaki tunapenda chai")
    assert one.candidates[0].words == texts[number]
