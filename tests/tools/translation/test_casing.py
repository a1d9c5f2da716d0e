"""Case mappings by language, and casing learned from a corpus."""

import pytest

from hierogram.tools.translation.casing import (
    all_capital,
    default_casing,
    first_cased,
    is_cased,
    learn_casing,
    learn_rule_casing,
)


def test_casing_is_learned_within_sentences() -> None:
    casing = learn_casing(
        ["The man saw The Hague .", "the man and Tom", "Tom : The end", "a the", "a the", "see the May"]
    )
    assert casing.mid_sentence("The") == "The"
    assert casing.mid_sentence("tom") == "Tom"
    assert casing.mid_sentence("may") == "May"
    assert casing.mid_sentence("THE") == "the"
    assert casing.mid_sentence("Man") == "Man"
    often = learn_casing(["x the"] * 50 + ["x The"])
    assert often.mid_sentence("The") == "the"


def test_one_lowercase_line_start_makes_a_word_lowercase() -> None:
    casing = learn_casing(["Peace is here .", "Peace is here .", "peace", "Tom is here ."])
    assert casing.mid_sentence("Peace") == "peace"
    assert casing.mid_sentence("Tom") == "Tom"


def test_headings_start_like_headings_of_the_corpus() -> None:
    assert learn_casing(["The house .", "house", "red house", "House"]).capital_fragments is False
    assert learn_casing(["the house .", "House", "Red house", "house"]).capital_fragments is True
    assert learn_casing(["the house ."]).capital_fragments is True


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["the house is red ."] * 60, False),
        (["the house is red ."] * 59 + ["The house is red ."], False),
        (["the house is red ."] * 50 + ["The house is red ."] * 10, True),
        (["the house is red ."] * 20, True),
        (["3 houses ."] * 60, True),
    ],
)
def test_sentences_start_in_the_case_of_a_large_enough_corpus(lines: list[str], expected: bool) -> None:
    assert learn_casing(lines).capital_sentences is expected


@pytest.mark.parametrize(("word", "nouns"), [("Haus", True), ("house", False)])
def test_a_language_that_capitalizes_nouns_is_recognized_by_its_text(word: str, nouns: bool) -> None:
    assert learn_casing([f"x is a {word} of the people"] * 300).nouns is nouns
    assert learn_casing([f"x is a {word} of the people"] * 3).nouns is False
    assert learn_casing([f"x is a {word}"] * 3, "de-AT").nouns is True


def test_casing_is_learned_from_words_inside_rules() -> None:
    casing = learn_rule_casing(["The", "the", "May", "house"], [0, 3, 2, 4])
    assert [casing.mid_sentence(word) for word in ("The", "may", "house")] == ["the", "May", "house"]


@pytest.mark.parametrize(
    ("language", "word", "capital"),
    [
        ("en", "house", "House"),
        ("en", "3rd", "3rd"),
        ("en", "iPhone", "iPhone"),
        ("en", "(house", "(House"),
        ("fr", "l'Europe", "L'Europe"),
        ("haw", "ʻāina", "ʻĀina"),
        ("tr", "istanbul", "İstanbul"),
        ("tr", "ışık", "Işık"),
        ("nl", "ijs", "IJs"),
        ("hr", "ǆep", "ǅep"),
        ("ka", "სახლი", "სახლი"),
        ("chr", "ꭰᏂ", "ꭰᏂ"),
        ("ar", "الحب", "الحب"),
        ("el", "άνθρωπος", "Άνθρωπος"),
        ("", "...", "..."),
    ],
)
def test_words_are_capitalized_by_the_rules_of_their_language(language: str, word: str, capital: str) -> None:
    assert default_casing(language).capitalize(word) == capital


@pytest.mark.parametrize(
    ("language", "word", "upper", "lower"),
    [
        ("tr", "ışıklı", "IŞIKLI", "ışıklı"),
        ("tr", "iyi", "İYİ", "iyi"),
        ("en", "iyi", "IYI", "iyi"),
        ("el", "Ελλάδα", "ΕΛΛΑΔΑ", "ελλαδα"),
        ("de", "Straße", "STRASSE", "strasse"),
        ("ka", "სახლი", "სახლი", "სახლი"),
        ("hy", "տուն", "ՏՈՒՆ", "տուն"),
    ],
)
def test_case_mappings_follow_the_rules_of_the_language(language: str, word: str, upper: str, lower: str) -> None:
    casing = default_casing(language)
    assert casing.upper(word) == upper
    assert casing.lower(upper) == lower


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LOVE IS HERE .", True),
        ("DER 1er MAI", True),
        ("L' EAU EST LÀ", True),
        ("ՍԵՐԸ ԱՅՍՏԵՂ Է", True),
        ("الحب هنا .", False),
        ("אהבה כאן", False),
        ("प्रेम यहाँ है ।", False),
        ("사랑은 여기 있다", False),
        ("სიყვარული აქ არის", False),
        ("ᎠᎴ ᎤᏂᎲ", False),
        ("NATO 和 WTO", False),
        ("NATO", False),
        ("I like NATO", False),
        ("12 345", False),
        ("", False),
    ],
)
def test_only_text_in_a_script_with_case_is_in_capitals(text: str, expected: bool) -> None:
    assert all_capital(text.split()) is expected


@pytest.mark.parametrize(
    ("text", "letter"),
    [("« La maison", "L"), ("3 Jungen", ""), ("...la", "l"), ("房子 A", ""), ("ª la", ""), ("", ""), ("ʻĀina", "Ā")],
)
def test_the_cased_letter_at_the_start_of_a_text_is_found(text: str, letter: str) -> None:
    assert first_cased(text) == letter


def test_letters_of_scripts_without_case_have_no_case() -> None:
    assert all(map(is_cased, "aЖωԱꙊ𐐀ß"))
    assert not any(map(is_cased, "בحककაᎠあ한字ªʻ1."))
