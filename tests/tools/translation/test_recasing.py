"""Case of translated sentences, for sources in scripts with and without case."""

import pytest

from hierogram.tools.translation.casing import Casing, SourceWord, default_casing, learn_casing, recase

ENGLISH = learn_casing(
    [
        "x the house and the cat and the boys and Tom and London and the love and peace and yes and play",
        "x the little prince and the water of it and she said and by the world and very important and one",
        "x he said that she I",
    ],
    "en",
)
FRENCH = learn_casing(["x la maison et le chat et Tom et Londres et petit prince et très important et oui"], "fr")
GERMAN = learn_casing(["x die Katze und das Haus und die Jungen und spielen und große und ja und sagte er"], "de")


def recased(source: str, target: str, links: str, casing: Casing, into: Casing = ENGLISH, known: str = "") -> str:
    """Return the recased target words. Without `known` the grammar has all source words in lowercase."""
    words, units = target.split(), source.split()
    linked: list[list[int]] = [[] for _ in units]
    for link in links.split():
        i, j = link.split("-")
        linked[int(i)].append(int(j))
    forms = known.split() or [casing.lower(unit) for unit in units]
    sources = [SourceWord(unit, form) for unit, form in zip(units, forms, strict=True)]
    return " ".join(recase(casing, into, words, sources, linked))


def monotone(source: str, target: str, casing: Casing, into: Casing = ENGLISH) -> str:
    """Return the recased target words if word k of the source is linked to word k of the target."""
    most = min(len(source.split()), len(target.split()))
    return recased(source, target, " ".join(f"{k}-{k}" for k in range(most)), casing, into)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("ar", "الحب هنا ."),
        ("he", "אהבה כאן ."),
        ("hi", "प्रेम यहाँ ।"),
        ("am", "ፍቅር እዚህ ።"),
        ("km", "ស្នេហា នៅទីនេះ ។"),
        ("ko", "사랑은 여기 ."),
        ("ta", "அன்பு இங்கே ."),
        ("zh", "爱 在 。"),
        ("ja", "愛 ここ 。"),
        ("th", "รัก อยู่"),
        ("ka", "სიყვარული აქ ."),
        ("chr", "ᎠᎴ ᎤᏂᎲ ."),
    ],
)
def test_a_translation_from_a_script_without_case_starts_with_a_capital(language: str, source: str) -> None:
    assert monotone(source, "love is here .", default_casing(language)) == "Love is here ."


def test_sentences_of_an_orthography_without_capitals_start_in_lowercase() -> None:
    small = learn_casing(["x the love is here of Tom ."] * 60, "und")
    assert monotone("L' amour est ici .", "the love is here .", FRENCH, small) == "the love is here ."
    assert monotone("Tom aime .", "Tom loves .", FRENCH, small) == "Tom loves ."
    assert monotone("Dit : « L' amour »", "says : « the love »", FRENCH, small) == "says : « the love »"


def test_headings_from_a_script_without_case_start_like_headings_of_the_corpus() -> None:
    casing = Casing(capital_fragments=False)
    assert (
        monotone("爱", "Love", default_casing("zh"), Casing({"love": ("love",)}, "en", capital_fragments=False))
        == "love"
    )
    assert monotone("爱", "love", default_casing("zh"), Casing(language="en")) == "Love"
    assert monotone("爱 。", "love .", default_casing("zh"), casing) == "Love ."


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("3 Jungen spielen .", "3 boys play .", "3 boys play ."),
        ("Die Jungen spielen .", "the boys play .", "The boys play ."),
        ("Jungen spielen .", "boys play .", "Boys play ."),
        ("1. Die Jungen spielen .", "1. the boys play .", "1. The boys play ."),
        ("2 ) Die Jungen", "2 ) the boys", "2 ) The boys"),
        ("( 2 ) Die Jungen", "( 2 ) the boys", "( 2 ) The boys"),
        ("12 Und die Jungen spielen .", "12 and the boys play .", "12 And the boys play ."),
        ("a ) die Jungen", "a ) the boys", "a ) the boys"),
        ("das Haus : Jungen", "the house : boys", "the house : boys"),
        ("das Haus „ Jungen “ .", "the house “ boys ” .", "the house “ boys ” ."),
        ("er sagte : „ Jungen spielen . “", "he said : “ boys play . ”", "he said : “ Boys play . ”"),
        ("„ Ja “ , sagte er .", "“ yes ” , he said .", "“ Yes ” , he said ."),
    ],
)
def test_a_capital_of_a_german_noun_is_not_copied(source: str, target: str, expected: str) -> None:
    assert monotone(source, target, GERMAN) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("La maison .", "the house .", "The house ."),
        ("la maison .", "The house .", "the house ."),
        ("« La maison . »", '" the house . "', '" The house . "'),
        ("il dit : « La maison . »", 'he said : " the house . "', 'he said : " The house . "'),
        ("il dit : « la maison » .", 'he said : " the house " .', 'he said : " the house " .'),
        ("« Oui ! » dit-elle .", '" yes ! " she said .', '" Yes ! " she said .'),
        ("la maison ( La maison )", "the house ( the house )", "the house ( The house )"),
        ("la maison ( la maison . )", "the house ( the house . )", "the house ( the house . )"),
        ("la maison : La maison", "the house : the house", "the house : The house"),
        ("la maison : la maison", "the house : The house", "the house : the house"),
        ("— Oui . — Oui .", "— yes . — yes .", "— Yes . — Yes ."),
        ("oui ... la maison", "yes ... The house", "yes ... the house"),
        ("Le Petit Prince", "the little prince", "The Little Prince"),
        ("le chat est TRÈS important", "the cat is very important", "the cat is VERY important"),
        ("LE PETIT PRINCE", "the little prince", "THE LITTLE PRINCE"),
        ("PRINCE", "prince", "PRINCE"),
        ("Tom et le chat", "Tom and the cat", "Tom and the cat"),
        ("iPhone et le chat", "iPhone and the cat", "iPhone and the cat"),
        ("3 chats", "3 cats", "3 cats"),
        ("3 Chats", "3 cats", "3 Cats"),
        ("12 Le chat", "12 the cat", "12 The cat"),
        ("... le chat", "... The cat", "... the cat"),
        ("le chat .", "Whales .", "whales ."),
    ],
)
def test_the_case_of_a_french_source_is_copied(source: str, target: str, expected: str) -> None:
    assert monotone(source, target, FRENCH) == expected


def test_a_german_noun_after_a_number_does_not_capitalize_its_translation() -> None:
    assert recased("3 Unbekannte", "3 strangers", "0-0 1-1", GERMAN, known="3 Unbekannte") == "3 strangers"


def test_the_first_word_of_a_quotation_is_capitalized_despite_reordering() -> None:
    source, target = "il dit : « Le chat noir . »", 'he said : " black cat . "'
    assert recased(source, target, "0-0 1-1 2-2 3-3 5-5 6-4 7-6 8-7", FRENCH) == 'he said : " Black cat . "'


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("他 说 ： “ 是 。 ”", 'he said : " yes . "', 'He said : " Yes . "'),
        ("房子 “ 猫 ” 大 。", 'the house " cat " .', 'The house " cat " .'),
        ("猫 ( 房子 ) 。", "cat ( house ) .", "Cat ( house ) ."),
        ("猫 。 房子 。", "cat . house .", "Cat . House ."),
        ("3 猫 。", "3 cats .", "3 cats ."),
        ("猫 。”", 'cat 。"', 'Cat 。"'),
        ("NATO 和 WTO 。", "NATO and WTO .", "NATO and WTO ."),
        ("猫 … 房子 。", "cat … house .", "Cat … house ."),
    ],
)
def test_punctuation_determines_capitals_for_scripts_without_case(source: str, target: str, expected: str) -> None:
    assert monotone(source, target, default_casing("zh")) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("the cat", "die katze", "die Katze"),
        ("THE CAT", "die katze", "DIE KATZE"),
        ("the big cat", "die große katze", "die große Katze"),
        ("the Big Cat", "die große katze", "die große Katze"),
    ],
)
def test_german_nouns_are_capitalized(source: str, target: str, expected: str) -> None:
    assert monotone(source, target, default_casing("en"), GERMAN) == expected


def test_an_acronym_spelled_like_a_word_keeps_its_capitals() -> None:
    sources = [SourceWord("la", "la"), SourceWord("IT", "IT")]
    assert recase(FRENCH, ENGLISH, ["the", "IT"], sources, [[0], [1]]) == ["the", "IT"]


def test_a_dutch_sentence_starts_with_the_word_after_its_contraction() -> None:
    assert monotone("Le chat .", "'t ijs .", FRENCH, default_casing("nl")) == "'t IJs ."


def test_placeholders_and_tags_keep_their_case() -> None:
    name = [SourceWord("{name}", "{name}", is_kept=True), SourceWord("是", "是"), SourceWord("猫", "猫")]
    casings = default_casing("zh"), ENGLISH
    assert recase(*casings, ["{name}", "is", "cat"], name, [[0], [1], [2]]) == ["{name}", "is", "cat"]
    line = [SourceWord("<br>", "<br>", is_kept=True, is_tag=True), *name[1:]]
    assert recase(*casings, ["<br>", "is", "."], line, [[0], [1], [2]]) == ["<br>", "Is", "."]


def test_lowercase_translations_get_the_capitals_of_french_but_not_of_german() -> None:
    assert (
        monotone("Elle voit Londres", "she sees london", default_casing("fr"), default_casing("en"))
        == "She sees London"
    )
    assert (
        monotone("Sie sieht London", "she sees london", default_casing("de"), default_casing("en")) == "She sees london"
    )
