"""Known words that replace unknown ones."""

import pytest

from hierogram.tools.translation.casing import default_casing
from hierogram.tools.translation.oov_substitutes import SubstituteFinder, shared_letters

KNOWN = ["walimwambia", "tura", "Tura", "wonder", "manner", "wrapped", "12", "never"]


def _stand_in(word: str, oov_similarity: float = 0.7, before: str = "") -> str | None:
    numbers = {known: number for number, known in enumerate(KNOWN)}
    translated = set(numbers.values()) - {numbers["never"]}
    found = SubstituteFinder(numbers, translated, oov_similarity).number(word, before)
    return None if found is None else KNOWN[found]


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("TURA", "tura"),
        ("wonders", "wonder"),
        ("Wonders", "wonder"),
        ("alimwambia", "walimwambia"),
        ("tanner", None),
        ("tapped", None),
        ("wo", None),
        ("123", None),
        ("nevers", None),
        ("", None),
    ],
)
def test_words_of_similar_spelling_are_substitutes(word: str, known: str | None) -> None:
    assert _stand_in(word) == known


@pytest.mark.parametrize(
    ("word", "before", "known"),
    [
        ("Wonders", "the", None),
        ("Wonders", ",", None),
        ("Wonders", ":", "wonder"),
        ("Wonders", "“", "wonder"),
        ("wonders", "the", "wonder"),
        ("Wonder", "the", "wonder"),
    ],
)
def test_names_are_unchanged(word: str, before: str, known: str | None) -> None:
    assert _stand_in(word, before=before) == known


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("Häusern", "Häuser"),
        ("Martinez", None),
        ("Schmitt", None),
        ("Läufern", None),
        ("Häuser", "Häuser"),
    ],
)
def test_a_german_noun_replaces_one_with_another_ending(word: str, known: str | None) -> None:
    words = ["Häuser", "Martini", "Schritt", "läufer"]
    numbers = {word: number for number, word in enumerate(words)}
    stand_ins = SubstituteFinder(numbers, set(numbers.values()), 0.75, default_casing("de"), {"Martini", "step"})
    found = stand_ins.number(word, "der")
    assert (None if found is None else words[found]) == known
    assert SubstituteFinder(numbers, set(numbers.values()), 0.75).number("Häusern", "der") is None


def test_the_share_of_letters_decides() -> None:
    assert _stand_in("wonderful", 0.6) == "wonder"
    assert _stand_in("wonderful", 0.7) is None


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [("abc", "abc", 3), ("abab", "ab", 2), ("abxcd", "abcd", 4), ("a", "b", 0), ("", "a", 0)],
)
def test_letters_are_shared_at_both_ends_and_none_twice(one: str, other: str, shared: int) -> None:
    assert shared_letters(one, other) == shared_letters(other, one) == shared
