"""A store learns the orthography of its first text: letters, spaces and Unicode forms."""

import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

import hierogram as hg
from hierogram.daemon.text.detokenizer import NO_BREAK
from hierogram.daemon.text.languages import Language, find_language, learn_orthography
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.daemon.text.tokenizer import SPACE
from hierogram.storage.exceptions import WriteConflictError
from hierogram.storage.schema.tables import settings as settings_table

SYLLABLES = ("ka", "to", "ne", "li", "su", "ma", "po", "ri")


def make_lines(number: int, word: Callable[[random.Random], str], comma: str = ", ", stop: str = ".") -> list[str]:
    """Return `number` lines of random words, each with one `comma` and with `stop` at its end."""
    chance = random.Random(number)
    lines = []
    for _ in range(number):
        words = [word(chance) for _ in range(chance.randint(4, 12))]
        place = chance.randint(1, len(words) - 1)
        lines.append(" ".join(words[:place]) + comma + " ".join(words[place:]) + stop)
    return lines


def plain_word(chance: random.Random) -> str:
    return "".join(chance.choices(SYLLABLES, k=chance.randint(2, 4)))


def word_with_signs(chance: random.Random) -> str:
    """Return a word that may have `+`, `:` and `’` as letters after its first syllable."""
    pieces = chance.choices((*SYLLABLES, "+", ":", "’"), weights=[3] * len(SYLLABLES) + [4, 4, 4], k=5)
    return chance.choice(SYLLABLES) + "".join(pieces)


def learn_language(language: str, lines: list[str]) -> Language:
    """Learn an orthography from every second line, and return the rules of the language with it."""
    orthography = learn_orthography(language, lines[::2])
    assert orthography
    return find_language(language, orthography)


def assert_restored(rules: Language, lines: list[str]) -> None:
    for line in lines:
        assert rules.join(rules.tokens(unicodedata.normalize("NFC", line))) == line


def test_signs_between_letters_are_letters_anywhere_in_a_word() -> None:
    lines = make_lines(200, word_with_signs)
    rules = learn_language("qaa", lines)
    assert rules.orthography.letters == "+:’"
    assert_restored(rules, lines)
    assert rules.tokens("“Ka+ to:” :ne’li+, su++ma.") == ["“", "Ka+", "to:", "”", ":ne’li+", ",", "su++ma", "."]


@pytest.mark.parametrize(
    ("comma", "stop"),
    [(" , ", " ."), (" ,", "."), (f"{NO_BREAK}; ", f"{NO_BREAK}!"), ("،", " ۔"), ("; ", " ।"), (" : ", "?")],
)
def test_spaces_beside_signs_follow_the_corpus(comma: str, stop: str) -> None:
    lines = make_lines(120, plain_word, comma, stop)
    for language in ("qaa", "fr"):
        assert_restored(learn_language(language, lines), lines)


def test_spaces_between_adjacent_signs_are_restored() -> None:
    given = enumerate(make_lines(90, plain_word))
    lines = [f"Article {k} : « {line[:-1]} » ( {line.split(',')[0]} ), {k} °C" for k, line in given]
    assert_restored(learn_language("qaa", lines), lines)


def test_irregular_spaces_are_tokens() -> None:
    lines = [line for pair in zip(*(make_lines(60, plain_word, ", ", stop) for stop in (".", " .")), strict=True)
             for line in pair]  # fmt: skip
    random.Random(1).shuffle(lines)
    rules = learn_language("qaa", lines)
    assert_restored(rules, lines)
    assert rules.tokens("kato .") == ["kato", SPACE, "."]
    assert rules.tokens("kato.") == ["kato", "."]


@pytest.mark.parametrize(
    "written",
    [
        lambda line: unicodedata.normalize("NFD", line.replace("a", "á").replace("o", "ọ̀")),
        lambda line: unicodedata.normalize("NFC", line.replace("a", "á").replace("o", "ọ̀")),
        # The text has a letter that NFC decomposes, a letter that it replaces, and marks in another order.
        lambda line: line.replace("ka", "\u0958").replace("to", "\u1f71").replace("e", "e\u0301\u0323"),
    ],
)
def test_text_keeps_the_unicode_form_of_the_corpus(written: Callable[[str], str]) -> None:
    lines = [written(line) for line in make_lines(120, plain_word)]
    assert_restored(learn_language("qaa", lines), lines)


def test_rare_signs_in_words_and_signs_without_spaces_are_not_letters() -> None:
    lines = make_lines(150, plain_word, ",", "!")
    lines += [f"{line[:-1]} AT&T his/her kato-ne 3*4 ma:Li a.b" for line in lines]
    assert learn_language("qaa", lines).orthography.letters == ""


def test_no_orthography_is_learned_from_few_lines() -> None:
    lines = make_lines(20, plain_word, " , ", " .")
    assert learn_orthography("qaa", lines) == ""
    assert learn_orthography("qaa", ["ka ."] * 100) == ""


SPACED = [(line, line.replace(" .", ".")) for line in make_lines(60, plain_word, " , ", " .")]
USUAL = [(line, line) for line in make_lines(60, plain_word)]


def test_the_first_text_of_a_store_sets_its_orthography(tmp_path: Path) -> None:
    with hg.open(tmp_path / "a.db", create=True, languages=("qaa", "qab"), tokenize=True) as store:
        store.add(SPACED)
        first = store.settings().orthographies
        assert json.loads(first[0])["joins"] == {" ,<": " ", " .<": " "}
        store.add(USUAL)
        assert store.settings().orthographies == first
        pipeline = make_pipeline(store.settings())
        assert pipeline.source.rules.join(["kato", ",", "neli", "."]) == "kato , neli ."
        assert pipeline.target.rules.join(["kato", ",", "neli", "."]) == "kato , neli."
        again = make_pipeline(pipeline.as_settings())
        assert (again.source, again.target) == (pipeline.source, pipeline.target)
    # The settings of an existing store may be given again.
    hg.open(tmp_path / "a.db", create=True, languages=("qaa", "qab"), tokenize=True).close()


def test_a_store_whose_first_text_is_short_uses_only_the_rules(tmp_path: Path) -> None:
    with hg.open(tmp_path / "a.db", create=True, languages=("qaa", "qab"), tokenize=True) as store:
        store.add(SPACED[:3])
        store.add(SPACED)
        assert store.settings().orthographies == ("", "")
        assert make_pipeline(store.settings()).source.rules.join(["kato", "."]) == "kato."


def test_no_orthography_is_learned_from_text_with_links_or_tokens(tmp_path: Path) -> None:
    with hg.open(tmp_path / "a.db", create=True, languages=("qaa", "qab"), tokenize=True) as store:
        store.add([(*pair, "0-0") for pair in SPACED])
        assert store.settings().orthographies == ("", "")
    with hg.open(tmp_path / "b.db", create=True) as store:
        store.add(SPACED)
        assert store.settings().orthographies == ()


def test_input_is_refused_if_another_one_sets_the_orthography_meanwhile(tmp_path: Path) -> None:
    with hg.open(tmp_path / "a.db", create=True, languages=("qaa", "qab"), tokenize=True) as store:

        def pairs() -> Iterator[tuple[str, str]]:
            with store.store.engine.begin() as connection:
                row = update(settings_table).where(settings_table.c.name == "orthographies")
                connection.execute(row.values(value='["", ""]'))
            yield from SPACED

        with pytest.raises(WriteConflictError, match="ingest this input again"):
            store.add(pairs())
        assert sum(store.status().pairs.values()) == 0
        store.add(SPACED)
        assert sum(store.status().pairs.values()) == len(SPACED)
