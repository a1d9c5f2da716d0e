"""Splitting compounds into known words."""

import pytest

from hierogram.daemon.text.segments import CompoundSegmenter

COUNTS = {
    "haushalt": 40, "behörde": 10, "straße": 30, "bahn": 20, "schule": 20, "buch": 25, "arbeit": 60, "arbeiten": 20,
    "frühe": 3, "früh": 3, "stück": 9, "frühstück": 30, "land": 9, "frauen": 8, "rechte": 8, "unter": 50, "nehmen": 30,
    "unternehmen": 60, "berater": 9,
}  # fmt: skip


def _split(word: str) -> str:
    splitter = CompoundSegmenter(COUNTS)
    *modifiers, head = splitter.split(word) or ("",)
    return "+".join([*(f"{part}:{splitter.known_word(part)}" for part in modifiers), head and f"{head}:{head}"])


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("haushaltsbehörde", "haushalts:haushalt+behörde:behörde"),
        ("straßenbahn", "straßen:straße+bahn:bahn"),
        ("schulbuch", "schul:schule+buch:buch"),
        ("landesbehörde", "landes:land+behörde:behörde"),
        ("arbeitsfrauenrechte", "arbeits:arbeit+frauen:frauen+rechte:rechte"),
        ("schulbehördenamt", ""),
        ("bahnuhr", ""),
        ("bahn", ""),
        ("bahn-buch", ""),
        ("", ""),
    ],
)
def test_words_are_split_into_known_words(word: str, parts: str) -> None:
    assert _split(word) == parts


def test_a_frequent_word_is_not_split() -> None:
    assert _split("frühstück") == ""
    assert _split("unternehmen") == ""


def test_the_split_with_the_fewest_parts_is_chosen() -> None:
    # The three frequencies 50, 30 and 9 have a higher geometric mean than 60 and 9.
    assert _split("unternehmenberater") == "unternehmen:unternehmen+berater:berater"


def test_the_split_with_the_most_frequent_parts_is_chosen() -> None:
    assert _split("arbeitenbuch") == "arbeiten:arbeit+buch:buch"
    assert _split("arbeitendenbuch") == ""


def test_the_parts_of_a_word_have_its_letters() -> None:
    splitter = CompoundSegmenter(COUNTS)
    for word in ("haushaltsbehörde", "schulbuch", "unternehmenberater"):
        assert "".join(splitter.split(word)) == word
