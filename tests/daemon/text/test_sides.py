"""Identification of the side to which a text belongs, by whole words, also in stores with subwords."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.parts import VERSES, learn_parts, open_parts

from hierogram.daemon.text.vocabulary_notes import WordSideCounts
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.store_translator import StoreTranslator


@pytest.fixture(params=["words", (40, 0), (0, 40), (40, 40)], ids=str)
def translator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreTranslator]:
    """Translator of a store of Swahili and English: with whole words, or with subwords on one side or both."""
    merges = request.param
    word_parts = () if merges == "words" else learn_parts(VERSES, *merges)
    with open_parts(tmp_path / "store.db", word_parts, languages=("sw", "en")) as store:
        store.add(VERSES)
        yield StoreTranslator(store, TranslateOptions())


def test_the_language_of_a_text_is_identified_by_whole_words(translator: StoreTranslator) -> None:
    for text, language in (
        ("ninakula mkate mtamu", "sw"),
        ("I eat sweet bread", "en"),
        ("Una leta? Anataka chai.", "sw"),
        ("We want water, and tea!", "en"),
        ("i want", "en"),
        ("maji", "sw"),
    ):
        (first, sure), (second, less) = translator.detect(text)
        assert (first, sure > 0.9 > less) == (language, True), text
        assert second != first


def test_a_text_of_unknown_words_has_no_language(translator: StoreTranslator) -> None:
    assert [sure for _, sure in translator.detect("Xylograph 17")] == [0.5, 0.5]


def test_words_of_later_pairs_are_counted_up_to_a_bound(tmp_path: Path) -> None:
    with open_parts(tmp_path / "parts.db", learn_parts(VERSES[:10], 20, 0)) as parts:
        parts.add(VERSES[:10])
        whole = WordSideCounts(parts.store, max_pairs=11)
        assert whole.source_log_odds(["anapiga"])[1] == 0
        parts.add([("anapiga", "hits"), ("anacheza", "plays")])
        assert whole.source_log_odds(["anapiga"]) == pytest.approx((1.0986, 1), abs=1e-3)
        assert whole.source_log_odds(["anacheza"])[1] == 0
