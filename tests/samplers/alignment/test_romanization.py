"""Romanization of words by the names of their letters, which leaves Latin text unchanged, and scripts of words."""

import sys
import unicodedata
from itertools import chain

import numpy as np
import pytest

from hierogram.samplers.alignment.orthography import find_script, romanize, similarities, spell


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Москва", "Moskva"),
        ("объединённых", "obedinyonnyh"),
        ("Юлия", "Yuliya"),
        ("ь", "ь"),
        ("Χριστός", "Christos"),
        ("Ἀβραάμ", "Abraam"),
        ("مُحَمَّد", "mhmd"),
        ("ירושלים", "yrvshlym"),
        ("दिल्ली", "dilli"),
        ("ไทย", "aithy"),
        ("トム", "tomu"),
        ("서울", "seoul"),
        ("თბილისი", "tbilisi"),
        ("١٩٨٤", "1984"),
        ("東京", "東京"),
    ],
)
def test_words_of_other_scripts_are_romanized(word: str, expected: str) -> None:
    assert romanize(word) == expected


def test_latin_text_marks_and_symbols_are_unchanged() -> None:
    # Beyond the first two planes, only Chinese characters, the tags and selectors of plane 14, and unnamed characters
    # occur, so a sample suffices.
    chosen = chain(range(0x20000), range(0xE0000, 0xE0200), range(0x20000, sys.maxunicode + 1, 97))
    for character in map(chr, chosen):
        name, category = unicodedata.name(character, ""), unicodedata.category(character)
        if "LATIN" in name or name.startswith(("COMBINING", "VARIATION")) or category[0] in "PSZC" or character < "Ͱ":
            assert romanize(character) == character, name
    for word in ("", "événement", "e\u0301", "l’eau", "m²", "xⁿ", "Việt", "€", "\ud800"):
        assert romanize(word) == word


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["It", "is", "μ"], "LATIN"),
        (["κατά", "the", "λόγος"], "GREEK"),
        (["Это", "он", "IBM"], "CYRILLIC"),
        (["1984", ","], "LATIN"),
        ([], "LATIN"),
        (["дом"] * 1000 + ["house"] * 1000, "CYRILLIC"),
    ],
)
def test_the_script_of_most_letters_is_found(words: list[str], script: str) -> None:
    assert find_script(words) == script


def test_words_are_romanized_only_if_the_other_side_has_another_script() -> None:
    words = ("Москва", "шаг", "щуку", "Maria", "ъ")
    for other, shown in ((("Moscow",), "MoskvashagshchukuMariaъ"), (("річка",), "МосквашагщукуMariaъ")):
        found = spell(words, other)
        assert "".join(map(chr, found.code.tolist())) == shown
        assert found.offset.tolist()[-2:] == [len(shown) - 1, len(shown)]


def test_words_of_two_scripts_are_compared_by_their_romanization() -> None:
    words = ["Мария", "Москва", "1984", "кот"]
    others = ["Mariya", "Moskwa", "1984", "cat"]
    numbers = np.arange(4, dtype=np.int32)
    values = similarities(numbers, tuple(words), numbers, tuple(others))
    assert values.tolist() == pytest.approx([1, (4 / 6) ** 2, 1, 0])
