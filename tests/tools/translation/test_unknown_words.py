"""Known words that replace an unknown word."""

import pytest

from hierogram.tools.translation.casing import default_casing
from hierogram.tools.translation.oov_substitutes import SubstituteFinder, shared_letters

KNOWN = ["walimwambia", "tura", "Tura", "wonder", "manner", "wrapped", "12", "never"]


def _substitute(word: str, oov_similarity: float = 0.7, before: str = "") -> str | None:
    numbers = {known: number for number, known in enumerate(KNOWN)}
    translated = set(numbers.values()) - {numbers["never"]}
    found = SubstituteFinder(numbers, translated, [1] * len(KNOWN), oov_similarity).find(word, before)
    return " ".join(KNOWN[number] for number in found) or None


GERMAN = {"Häuser": 3, "Martini": 3, "Schritt": 5, "läufer": 3, "Haushalt": 9, "Behörde": 4, "Wein": 2, "stein": 2}


def _in_german(word: str, oov_similarity: float = 0.75) -> str | None:
    numbers = {word: number for number, word in enumerate(GERMAN)}
    known = numbers, set(numbers.values()), [*GERMAN.values()], oov_similarity
    found = SubstituteFinder(*known, default_casing("de"), {"Martini", "step", "Weinstein"}).find(word, "der")
    return " ".join([*GERMAN][number] for number in found) or None


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
    assert _substitute(word) == known


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
def test_unknown_names_are_not_replaced(word: str, before: str, known: str | None) -> None:
    assert _substitute(word, before=before) == known


@pytest.mark.parametrize(
    ("word", "known"),
    [("Häusern", "Häuser"), ("Martinez", None), ("Schmitt", None), ("Läufern", None), ("Häuser", "Häuser")],
)
def test_a_german_noun_replaces_a_noun_with_another_ending(word: str, known: str | None) -> None:
    assert _in_german(word) == known
    numbers = {"Häuser": 0}
    assert SubstituteFinder(numbers, {0}, [1], 0.75).find("Häusern", "der") == ()


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("καὶ", "καί"),
        ("ΚΑῚ", "καί"),
        ("ο", "ὁ"),
        ("nino", "niño"),
        ("señor", "senor"),
        ("כָּתַב", "כתב"),
        ("كَتَبَ", "كتب"),
        ("eleve", "élève"),
        ("सुन", None),
        ("ขา", None),
    ],
)
def test_a_known_word_replaces_a_word_with_other_accents(word: str, known: str | None) -> None:
    by_frequency = ["सन", "ข่า", "كتب", "כתב", "senor", "niño", "ὅ", "ὁ", "καί", "élevé", "élève"]
    numbers = {word: number for number, word in enumerate(by_frequency)}
    for similarity, expected in ((0.75, known), (0.0, None)):
        finder = SubstituteFinder(numbers, {*numbers.values()}, range(len(numbers)), similarity)
        assert [by_frequency[number] for number in finder.find(word)] == ([expected] if expected else [])


@pytest.mark.parametrize("oov_similarity", [0.0, 0.75])
@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("Haushaltsbehörde", "Haushalt Behörde"),
        ("haushaltsbehörde", "Haushalt Behörde"),
        ("Haushaltsämter", None),
        ("Haushalts2behörde", None),
        ("Weinstein", None),
    ],
)
def test_an_unknown_compound_is_replaced_by_its_parts(word: str, known: str | None, oov_similarity: float) -> None:
    assert _in_german(word, oov_similarity) == known


def test_a_capitalized_compound_is_a_name_if_nouns_are_not_capitalized() -> None:
    numbers = {"green": 0, "wood": 1}
    found = SubstituteFinder(numbers, {0, 1}, [1, 1], 0.0)
    assert found.find("greenwood", "in") == (0, 1)
    assert found.find("Greenwood", "in") == ()


def test_a_substitute_must_share_enough_letters() -> None:
    assert _substitute("wonderful", 0.6) == "wonder"
    assert _substitute("wonderful", 0.7) is None


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [("abc", "abc", 3), ("abab", "ab", 2), ("abxcd", "abcd", 4), ("a", "b", 0), ("", "a", 0)],
)
def test_shared_letters_are_counted_at_both_ends_without_overlap(one: str, other: str, shared: int) -> None:
    assert shared_letters(one, other) == shared_letters(other, one) == shared
