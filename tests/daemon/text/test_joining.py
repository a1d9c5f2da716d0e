"""Round trips of tokenized text, sentence splitting, and protected text."""

import random
import sys
import time
import types
from itertools import product

import pytest

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.detokenizer import NO_BREAK
from hierogram.daemon.text.languages import Language, find_language
from hierogram.daemon.text.pipeline import TextPipeline, TextSide
from hierogram.daemon.text.protected_spans import find_protected

SAME = {
    "en": [
        "I can't. It's too big.",
        "The dogs' bones, aren't they?",
        "“Don’t go,” she said (twice), “it’s 10:30!”",
        "Simply let your ‘Yes’ be ‘Yes,’ and your ‘No,’ ‘No.’",
        "They sat at Jesus’ feet.",
        'He said: "I know." She: "You don\'t."',
        "It costs $5, or 1,000.50 € and/or 20% of it...",
        "wait... what?",
        "Mr. Smith went to Washington, D.C. on 3/4.",
        "who has 'em?",
        "R2-D2 – the one—left.",
        "Write to a.b@c.org or see http://x.org/a?b=c#d (or www.x.org).",
        "Hello {name}, you have %1$d files in {{folder}}.",
    ],
    "fr": [
        "L'eau n'est pas là, aujourd'hui.",
        f"Où est-il{NO_BREAK}? Là-bas{NO_BREAK}!",
        f"Il dit{NO_BREAK}: «{NO_BREAK}Oui{NO_BREAK}», puis s'en va à 10:30.",
        "C’est l’été.",
        "Jusqu'ici, quoi qu’il dise, lorsqu'elle vient.",
        f"50{NO_BREAK}% de l'eau, 5 € et (peut-être) plus…",
    ],
    "de": ["Er sagte: „Das ist gut“, und ging.", "»Ja«, sagte sie.", "Das kostet 3,50 € (ca. 4 $)."],
    "it": ["Un po' d'acqua, un po’ d’aria.", "Di' quel che va' a dire a un'amica.", "L'arte de' Medici, dov'era."],
    "ca": ["L'home d'aquí n'ha comprat, s'entén."],
    "es": ["¿Qué? ¡No!", "Dijo: «Sí» y se fue."],
    "sw": [
        "Nzige hao ni kama ng'e, na wanyang'anyi.",
        'Akasema, "Njoo." Akaja.',
        'Mwana wa Mtu ana amri ya kusamehe watu dhambi duniani." Hapo akamwambia huyo mtu.',
        "tayari--kuingia",
    ],
    "jiv": [
        'Tutai Jesus Tímiayi "Nekas wetarum. Nui pujustarum.',
        'Nu nekas Kristu asa Táatsain anaikiatniuiti" Tímiayi.',
        '"Nunkén wetarum." Tura Jesus Tímiayi "Antsu suritkiairap.',
    ],
    "ppk": ["Ngkai Abraham rata hi Daud, hanga' ntu'a-na.", "pai' ompi' -ompi' -na"],
    "hi": ["यह घर है। वह पानी है।"],
}


@pytest.mark.parametrize(("language", "text"), [(language, text) for language in SAME for text in SAME[language]])
def test_text_survives_tokenization_and_detokenization(language: str, text: str) -> None:
    side = TextSide(language)
    tokens = side.tokens(text).split(" ")
    assert side.rules.join(tokens) == text
    assert side.tokens(side.rules.join(tokens)).split(" ") == tokens


def test_a_token_is_a_substring_of_its_text() -> None:
    side = TextSide("fr")
    for text in SAME["fr"]:
        for word in side.words(text, find_protected(text)):
            assert text[word.start : word.end] == word.token


def test_tokens_are_normalized_and_lowercased_unless_protected() -> None:
    side = TextSide("fr", lower=True)
    assert (
        side.tokens("E\u0301te\u0301 %X {Name} <B CLASS='x y'>A</B>")
        == "été %X {Name} <B\u00a0CLASS='x\u00a0y'> a </B>"
    )


def test_languages_without_rules_use_general_rules() -> None:
    assert find_language("wo").tokens("Yuda; Fares (ak) 1,5.") == ["Yuda", ";", "Fares", "(", "ak", ")", "1,5", "."]
    assert find_language("fr-CA") is not None
    assert TextPipeline(("fr", "wo")).for_running_text().pair("L'eau.", "Ndox.") == ("L' eau .", "Ndox .")
    assert TextPipeline().for_running_text().pair("L'eau.", "Ndox.") == ("L'eau .", "Ndox .")


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", " Mr. Smith is here. He left!  Why? ", ["Mr. Smith is here.", "He left!", "Why?"]),
        ("en", "it ends. he goes on", ["it ends. he goes on"]),
        ("en", "J. S. Bach wrote. (He did.) 3 men came.", ["J. S. Bach wrote.", "(He did.)", "3 men came."]),
        ("fr", "« Quoi ? » dit-il. Oui.", ["« Quoi ? » dit-il.", "Oui."]),
        ("zh", "你好。我很好！好", ["你好。", "我很好！", "好"]),
        ("hi", "यह घर है। वह है।", ["यह घर है।", "वह है।"]),
        ("ka", "სახლი დიდია. კატა შავია.", ["სახლი დიდია.", "კატა შავია."]),
        ("en", "Version 2.0 is at x.org/a.b. See it.", ["Version 2.0 is at x.org/a.b.", "See it."]),
        ("en", "  ", []),
    ],
)
def test_text_is_split_into_sentences(language: str, text: str, sentences: list[str]) -> None:
    rules = Language("zh", segmenter=list) if language == "zh" else find_language(language)
    assert [text[start:end] for start, end in rules.sentences(text)] == sentences


def test_tokens_of_languages_without_spaces_are_joined_without_spaces() -> None:
    rules = Language("zh", segmenter=list)
    assert rules.join(["我", "用", "Python", "3", "写", "。"]) == "我用Python 3写。"
    assert rules.join(["New", "York", "很", "大"]) == "New York很大"
    assert Language("th", segmenter=list).join(["กิน", "ข้าว", "3", "จาน"]) == "กินข้าว 3 จาน"
    assert [one.written for one in find_protected("在http://x.org/a。好")] == ["http://x.org/a"]


PACKAGES = {
    "zh": ("jieba", {"setLogLevel": lambda level: None, "lcut": lambda text: list(text)}, "chinese", "你好"),
    "ja": ("fugashi", {"Tagger": lambda: list}, "japanese", "はい"),
    "th": ("pythainlp.tokenize", {"word_tokenize": lambda text, engine, keep_whitespace: list(text)}, "thai", "กข"),
}


@pytest.mark.parametrize("language", PACKAGES)
def test_a_package_tokenizes_text_without_spaces(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    name, values, extra, word = PACKAGES[language]
    monkeypatch.setitem(sys.modules, name, None)
    find_language.cache_clear()
    with pytest.raises(UsageError, match=rf"requires {name.split('.')[0]}: run pip install '\.\[{extra}\]'"):
        find_language(language)
    made = types.ModuleType(name)
    vars(made).update(values)
    for part in {name, name.split(".")[0]}:
        monkeypatch.setitem(sys.modules, part, made)
    assert find_language(language).tokens(word + "ab c") == [*word, "ab", "c"]
    find_language.cache_clear()


KEPT = [
    "%s", "%1$s", "%d", "%.2f", "%-5d", "%(name)s", "%%", "{}", "{0}", "{user.name}", "{{ var }}", "${HOME}",
    "%{count}", "[[Link]]", "&amp;", "&#233;", "\\n", "http://x.org/a_b?c=d&e=f#g", "https://x.org", "www.x.org/a",
    "a.b+c@d-e.org",
    "@user_1", "#topic", "<b>", "</b>", '<a href="x y">', "<br/>", "<x id='1' />", "mailto:a@b.org",
]  # fmt: skip


@pytest.mark.parametrize("kept", KEPT)
def test_protected_text_is_one_token(kept: str) -> None:
    for before, after in product(("", "l'", "Voir ", "(", "mot"), ("", " fin", ").", ", etc")):
        if before == "mot" and kept[0] in "@#hwma":
            continue
        text = before + kept + after
        assert kept in [one.written for one in find_protected(text)], text
        assert kept.replace(" ", NO_BREAK) in TextSide("fr").tokens(text).split(" "), text


@pytest.mark.parametrize(
    "text", ["50 % d'eau", "100% sure", "a < b > c", "R&D; x", "3 < 4", "c:\\new", "a@b", "{a\nb}", "L# 3"]
)
def test_ordinary_text_is_not_protected(text: str) -> None:
    assert find_protected(text) == []


def test_protected_text_is_found_quickly_in_long_lines() -> None:
    random.seed(1)
    began = time.process_time()
    for piece in ('<a x="', "http://...", "%0", "{{", "<a b ", "a", "&a", "<!--", "<a " + "b" * 90 + " "):
        find_protected(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 10
