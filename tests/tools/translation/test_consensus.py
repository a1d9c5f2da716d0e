"""Translations are the consensus of the candidates of a sentence."""

import numpy as np
import pytest

import hierogram as hg
from hierogram.samplers.decoding.consensus import CANDIDATES, choose_consensus
from hierogram.tools.translation.resources import WEIGHTS_WITHOUT_MODEL


def test_other_default_weights_apply_without_a_language_model(parts: hg.GrammarStore) -> None:
    [candidate] = hg.Decoder(parts, lm="none").translator().translate("ninakula samaki tunapenda chai").candidates
    score = sum(WEIGHTS_WITHOUT_MODEL.get(name, 0) * value for name, value in candidate.features.items())
    assert candidate.score == pytest.approx(score)


def test_without_a_language_model_the_likeliest_translation_is_first(parts: hg.GrammarStore) -> None:
    translator = hg.Decoder(parts, lm="none").translator()
    scores = [one.score for one in translator.translate("ninakula samaki tunapenda chai", CANDIDATES).candidates]
    assert scores == sorted(scores, reverse=True)


def test_the_consensus_comes_first_in_lists_of_any_length(parts: hg.GrammarStore) -> None:
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
