"""Stores whose source words are split into the parts of compounds."""

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.parts import open_parts

import hierogram as hg
from hierogram.daemon.text.pipeline import TextPipeline
from hierogram.daemon.text.segments import (
    CompoundSegmenter,
    choose_word_parts,
    count_words,
    format_known_words,
    known_parts,
    make_segmenter,
    measure_compounds,
)
from hierogram.daemon.text.word_view import WordView
from hierogram.storage.records.parts import PART_MARK, index_words, join_parts
from hierogram.tools.integrations.translation_memory import memory, nearest

GERMAN = {"arbeit": "work", "haus": "house", "stadt": "town", "garten": "garden", "schule": "school", "brief": "letter"}
ENDINGS = {"arbeit": "arbeits", "schule": "schul"}
FINNISH = {"kirja": "book", "kauppa": "shop", "auto": "car", "talo": "house", "lentä": "flight", "kenttä": "field"}


def _two_part_compounds(words: dict[str, str], endings: dict[str, str]) -> list[tuple[str, str]]:
    """Return compounds of two words, and their translations."""
    return [(endings.get(a, a) + b, f"{words[a]} {words[b]}") for a, b in permutations(words, 2)]


def _pairs(words: dict[str, str], endings: dict[str, str], capital: bool) -> list[tuple[str, str]]:
    """Return sentences in which each word occurs four times alone, and half of the compounds once."""
    alone = [*words.items()] * 4
    named = [*alone, *_two_part_compounds(words, endings)[::2]]
    return [(f"ein {word.title() if capital else word} hier", f"a {english} here") for word, english in named]


PAIRS = {"German": _pairs(GERMAN, ENDINGS, True), "Finnish": _pairs(FINNISH, {}, False)}


def _segmenter(language: str) -> CompoundSegmenter:
    return CompoundSegmenter(known_parts(count_words(source for source, _ in PAIRS[language])))


def _shown(line: str) -> str:
    return line.replace(PART_MARK, "+")


@pytest.mark.parametrize(
    ("language", "words", "parts"),
    [
        ("German", "Hausarbeit hausarbeit", "haus+ Arbeit haus+ arbeit"),
        ("German", "Arbeitshaus Schulgarten", "arbeits+ Haus schul+ Garten"),
        ("German", "Schulhausgarten", "schul+ haus+ Garten"),
        ("German", "HAUSARBEIT hausArbeit Haus Hausuhr", "HAUSARBEIT hausArbeit Haus Hausuhr"),
        ("German", "haus-arbeit haus12", "haus-arbeit haus12"),
        ("Finnish", "kirjakauppa lentäkenttä kirja", "kirja+ kauppa lentä+ kenttä kirja"),
    ],
)  # fmt: skip
def test_compounds_are_split_into_words_of_the_text(language: str, words: str, parts: str) -> None:
    assert _shown(_segmenter(language).split_line(words)) == parts
    assert join_parts(_segmenter(language).split_line(words)) == words


def test_rare_words_are_not_parts() -> None:
    assert known_parts(count_words(["Haus haus Garten hat Hat 1234 1234"])) == {"haus": 2}


def test_a_segmenter_is_made_from_the_stored_known_words() -> None:
    text = format_known_words({"haus": 3, "garten": 2})
    assert _shown(make_segmenter(text).split_line("Hausgarten")) == "haus+ Garten"
    assert make_segmenter(text).count_parts("ein Hausgarten") == [1, 2]


letters = st.characters(blacklist_characters=" \t\n\r\0", blacklist_categories=("Cs",))
anything = st.text(letters, min_size=1, max_size=8)
pieces = st.sampled_from([*GERMAN, "s", "Haus", "HAUS", PART_MARK, "￬"])
compounds = st.lists(pieces, min_size=1, max_size=4).map("".join)


@given(st.lists(anything | compounds | compounds.map(str.title), min_size=1))
def test_any_words_survive_a_round_trip(words: list[str]) -> None:
    line = " ".join(words)
    tokens = _segmenter("German").split_line(line)
    assert join_parts(tokens) == line
    places = index_words(tokens.split(" "))
    assert places[-1] == len(words)
    assert [places.count(k) for k in range(len(words))][:-1] == _segmenter("German").count_parts(line)[:-1]


def test_a_modifier_without_a_head_is_a_word() -> None:
    line = f"haus{PART_MARK} , schul{PART_MARK} arbeits{PART_MARK}"
    assert join_parts(line) == "haus , schularbeits"
    assert index_words(line.split()) == [0, 1, 2, 2, 3]
    assert join_parts(f"haus{PART_MARK} UNO") == "hausUNO"


def test_rules_are_shown_in_words() -> None:
    view = WordView((format_known_words({"haus": 3, "garten": 2}), ""))
    assert view.side(f"ein haus{PART_MARK} Garten [X,1]") == "ein Hausgarten [X,1]"
    assert view.side(f"schul{PART_MARK} haus{PART_MARK} [X,1] Garten") == "schulhaus- [X,1] Garten"
    pipeline = TextPipeline(word_parts=view.word_parts)
    assert pipeline.source.convert_rule_side("Hausgarten [X,1]") == f"haus{PART_MARK} Garten [X,1]"
    assert pipeline.source.convert_rule_side(f"haus{PART_MARK} [X,1]") == f"haus{PART_MARK} [X,1]"
    pair = view.pair(f"ein haus{PART_MARK} Garten", "a garden", "0-0 1-1")
    assert (pair.source, pair.alignment) == ("ein Hausgarten", "0-0 1-1")


def _splits_compounds(sources: list[str], targets: list[str]) -> bool:
    parts, reason = choose_word_parts(sources, targets)
    assert ("compounds are split" in reason) == (parts != ())
    return parts != () and "\t" in parts[0] and not parts[1]


@pytest.mark.parametrize("language", PAIRS)
def test_compounds_of_the_source_are_split_if_they_are_frequent(language: str) -> None:
    sources, targets = map(list, zip(*PAIRS[language], strict=True))
    assert _splits_compounds(sources, targets)
    # Compounds of the target are not split, nor compounds that are translated by compounds.
    assert not _splits_compounds(targets, sources)
    assert not _splits_compounds(sources, sources)
    # 15 compounds are 1.5 percent of the words.
    assert not _splits_compounds([*sources, *["wir sind hier"] * 300], targets)


def test_the_share_of_compounds_counts_each_occurrence() -> None:
    counts = count_words(["haus haus", "garten garten", "Hausgarten hausgarten uhr . 12"])
    # A known word that is as frequent as its parts is not split.
    assert measure_compounds(counts) == 0
    assert measure_compounds(count_words(["haus haus garten garten Hausgarten uhr , 12"])) == 1 / 6


@pytest.fixture(scope="module")
def compound_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hg.GrammarStore]:
    folder = tmp_path_factory.mktemp("compounds")
    sentences = [
        (f"{who} {source}", f"{english} {target}")
        for (who, english), (source, target) in product(
            (("da ist", "there is"), ("wir sehen", "we see")), PAIRS["German"]
        )
    ]
    known = known_parts(count_words(source for source, _ in sentences))
    parts = (format_known_words(known), "")
    with open_parts(folder / "parts.db", parts, languages=("de", "en"), tokenize=True) as store:
        store.add([(f"{source[:1].upper()}{source[1:]}.", f"{target.capitalize()}.") for source, target in sentences])
        store.learn(30, threads=1).run()
        yield store


@pytest.mark.slow
def test_a_store_of_compounds_accepts_and_returns_words(compound_store: hg.GrammarStore, tmp_path: Path) -> None:
    known = {source for source, _ in PAIRS["German"]}
    unknown = [
        (word, english)
        for word, english in _two_part_compounds(GERMAN, ENDINGS)
        if f"ein {word.title()} hier" not in known
    ]
    assert unknown
    compound_store.export(tmp_path / "grammar.cdec")
    for decoder in (hg.Decoder(compound_store), hg.Decoder(tmp_path / "grammar.cdec", lm="none")):
        texts = decoder.text_translator()
        found = [texts.translate(f"Da ist ein {word.title()} hier.").text for word, _ in unknown]
        assert found == [f"There is a {english} here." for _, english in unknown]
    assert compound_store.verify().problems == []


@pytest.mark.slow
def test_memories_and_links_of_compounds_are_in_words(compound_store: hg.GrammarStore) -> None:
    exported = "".join(memory(compound_store))
    assert "<seg>Da ist ein Arbeitshaus hier.</seg>" in exported
    assert PART_MARK not in exported
    assert [match.source for match in nearest(compound_store, "Da ist ein Arbeitshaus hier.", 99)] == [
        "Da ist ein Arbeitshaus hier."
    ]
    split = [row for row in compound_store.store.pairs() if PART_MARK in row.source]
    assert split
    view = WordView(compound_store.settings().word_parts)
    for row in split:
        pair = view.pair(row.source, row.target, row.alignment)
        assert view.parts(0, pair.source) == row.source
        assert {int(link.partition("-")[0]) for link in pair.alignment.split()} <= {*range(len(pair.source.split()))}
