"""Identification of the side to which a text belongs, by whole words, also in stores with subwords."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.parts import VERSES

import hierogram as hg
from hierogram.daemon.text.sides import WordSideCounts
from hierogram.storage.store import Store
from hierogram.tools.translation.plain_text import PlainTranslator


@pytest.fixture(params=["words", (40, 0), (0, 40), (40, 40)], ids=str)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of Swahili and English: with whole words, or with subwords on some side."""
    languages = ("sw", "en")
    with hg.open(tmp_path / "words.db", create=True, languages=languages) as words:
        words.add(VERSES)
        if request.param == "words":
            yield words.store
        else:
            with words.in_parts(tmp_path / "parts.db", bpe_merges=request.param) as parts:
                yield parts.store


def never() -> None:
    raise AssertionError("the tokenizer must not be used")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("ninakula mkate mtamu", "sw"),
        ("I eat sweet bread", "en"),
        ("Una leta? Anataka chai.", "sw"),
        ("We want water, and tea!", "en"),
        ("i want", "en"),
        ("maji", "sw"),
    ],
)
def test_the_language_of_a_text_is_identified_by_whole_words(store: Store, text: str, language: str) -> None:
    (first, sure), (second, less) = PlainTranslator(store, never).detect(text)
    assert (first, sure > 0.9 > less) == (language, True)
    assert second != first


def test_a_text_of_unknown_words_has_no_language(store: Store) -> None:
    assert [sure for _, sure in PlainTranslator(store, never).detect("Xylograph 17")] == [0.5, 0.5]


def test_words_of_later_pairs_are_counted_up_to_a_bound(tmp_path: Path) -> None:
    with hg.open(tmp_path / "words.db", create=True) as words:
        words.add(VERSES[:10])
        with words.in_parts(tmp_path / "parts.db", bpe_merges=(20, 0)) as parts:
            whole = WordSideCounts(parts.store, max_pairs=11)
            assert whole.odds(["anapiga"]).known == 0
            parts.add([("anapiga", "hits"), ("anacheza", "plays")])
            assert whole.odds(["anapiga"]) == pytest.approx((1.0986, 1), abs=1e-3)
            assert whole.odds(["anacheza"]).known == 0
