"""Translation of sentences: words, features, links, derivations, fixed words, long and empty lines."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.tools.translation.small import grammar_file, resources, small_translator

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.segments import format_merges
from hierogram.tools.translation import translating
from hierogram.tools.translation.fixed_words import InputPhrase, input_phrases, read_glossary
from hierogram.tools.translation.translating import Candidate, Translation, Translator, best_combinations, in_threads


@pytest.fixture
def translator(tmp_path: Path) -> Translator:
    return small_translator(tmp_path)


def test_words_are_reordered_and_unknown_words_are_passed_through(translator: Translator) -> None:
    assert translator.translate("elle ne vient pas").text == "she does not come"
    assert translator.translate("la maison Xyz").text == "the house Xyz"
    assert translator.translate("\tla  maison ").text == "the house"
    assert translator.translate("euh").text == ""
    assert translator.translate("euh").candidates[0].words == ()


def assert_weighted_sum(candidate: Candidate, weights: dict[str, float]) -> None:
    total = sum(weights.get(name, 0) * value for name, value in candidate.features.items())
    assert candidate.score == pytest.approx(total, abs=1e-9)


def test_scores_are_sums_of_weighted_features(translator: Translator, tmp_path: Path) -> None:
    weights = resources(tmp_path).weights
    found = translator.translate("elle ne vient pas la maison blanche Xyz euh", 200)
    assert len(found.candidates) == len({one.words for one in found.candidates}) > 1
    for candidate in found.candidates:
        assert_weighted_sum(candidate, weights)
        assert candidate.features["words"] == len(candidate.words)
    scores = [candidate.score for candidate in found.candidates]
    assert scores == sorted(scores, reverse=True)
    assert found.candidates[0].features["unknown"] == 1


def test_links_are_the_links_of_the_rules(translator: Translator) -> None:
    assert translator.translate("elle ne vient pas").alignment() == [(0, 0), (1, 1), (2, 3), (3, 2)]
    assert translator.translate("Xyz la maison").alignment() == [(0, 0), (1, 1), (2, 2)]


def test_derivations_are_trees_of_rules_with_their_spans(translator: Translator) -> None:
    root, inner = translator.translate("ne vient pas").derivation()
    assert (root.source, root.target) == ("ne [X,1] pas", "does not [X,1]")
    assert (root.source_span, root.target_span, root.children) == ((0, 3), (0, 3), (1,))
    assert (inner.source, inner.target, inner.source_span, inner.target_span) == ("vient", "come", (1, 2), (2, 3))
    glued = translator.translate("elle Xyz").derivation()
    assert [(use.source, use.children) for use in glued] == [("[X,1] [X,2]", (1, 2)), ("elle", ()), ("Xyz", ())]


def make_translator(folder: Path, *rules: str, merges: Sequence[tuple[str, str]] = ()) -> Translator:
    path = folder / "rules.cdec"
    path.write_text("".join(f"[X] ||| {rule}\n" for rule in rules))
    made = resources(folder, with_lm=False)
    grammar = made.grammar(str(path))
    parts = (format_merges(merges), "") if merges else ()
    return made.translator(replace(grammar, pipeline=replace(grammar.pipeline, word_parts=parts)))


def test_a_word_without_a_rule_of_its_own_is_translated_by_its_links(tmp_path: Path) -> None:
    rules = ("ne [X,1] pas ||| does not [X,1] ||| F=-1 ||| 0-0 2-1", "le chat ||| cat ||| F=-1 ||| 1-0")
    translator = make_translator(tmp_path, *rules, "bon jour ||| hello ||| F=-1 |||", "soir ||| evening ||| F=-1 |||")
    assert translator.translate("pas soir").text == "not evening"
    assert translator.translate("le soir").text == "evening"
    assert translator.translate("bon soir").text == "bon evening"
    assert translator.translate("pas soir").candidates[0].features["unknown"] == 1


def test_the_most_frequent_link_translates_a_word(tmp_path: Path) -> None:
    rules = [f"a w{k} ||| {word} ||| F=-1 ||| 0-0" for k, word in enumerate(("x", "y", "y"))]
    assert make_translator(tmp_path, *rules).translate("a").text == "y"
    unlinked = [f"a v{k} ||| z ||| F=-1 ||| 1-0" for k in range(3)]
    assert make_translator(tmp_path, *rules, *unlinked).translate("a").text == ""


def test_unknown_subwords_are_not_attached_to_target_words(tmp_path: Path) -> None:
    rules = ("ka ||| house ||| F=-1 ||| 0-0", "K ||| and ||| F=-1 ||| 0-0")
    merges = [("k", "a"), ("n", "i")]
    translator = make_translator(tmp_path, *rules, merges=merges)
    assert translator.translate("kani").text == "house"
    assert translator.translate("kunika").text == "kunika"
    # A name is kept whole, although a rule translates its first part.
    assert translator.translate("ka Kani").text == "house Kani"
    name = "K ￭a ￭ni ||| Cana ||| F=-1 ||| 0-0 1-0 2-0"
    assert make_translator(tmp_path, *rules, name, merges=merges).translate("ka Kani").text == "house Cana"


def test_an_unknown_compound_is_translated_by_its_parts(tmp_path: Path) -> None:
    rules = [("der", "the"), ("haushalt", "budget"), ("behörde", "authority")]
    path = tmp_path / "german.cdec"
    path.write_text("".join(f"[X] ||| {source} ||| {target} ||| F=-1 ||| 0-0\n" for source, target in rules))
    made = resources(tmp_path)
    found = made.translator(made.grammar(str(path))).translate("der haushaltsbehörde Xyz")
    assert found.source == ("der", "haushaltsbehörde", "Xyz")
    assert found.text == "the budget authority Xyz"
    assert found.alignment() == [(0, 0), (1, 1), (1, 2), (2, 3)]
    spans = {use.source: use.source_span for use in found.derivation()}
    assert spans["haushalt"] == spans["behörde"] == (1, 2)
    assert spans["Xyz"] == (2, 3)
    assert found.candidates[0].features["unknown"] == 1


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0, "friend"), (2.0, "friend"), (5.0, "good old friend"), (9.0, "good old friend")]
)
def test_translations_are_lengthened_to_the_length_ratio_only_on_request(
    tmp_path: Path, ratio: float, text: str
) -> None:
    path = tmp_path / "lengths.cdec"
    path.write_text("[X] ||| ami ||| friend ||| F=0 ||| 0-0\n[X] ||| ami ||| good old friend ||| F=-3 ||| 0-2\n")
    made = resources(tmp_path)
    grammar = replace(made.grammar(str(path)), length_ratio=ratio)
    weights = {"F": 1.0, "words": 1.0}
    assert Translator(grammar, weights, lengthen=True).translate("ami").text == text
    assert Translator(grammar, weights).translate("ami").text == "friend"


def test_an_empty_line_stays_empty(translator: Translator) -> None:
    for line in ("", "  \t "):
        found = translator.translate(line, 5)
        assert (found.text, found.candidates, found.decoded_parts, found.derivation()) == ("", [], [], [])


def test_markup_fixes_the_translation_of_spans(translator: Translator) -> None:
    line = 'elle ne <x translation="arrive &amp; go">vient pas</x> la <np translation="flat||home">maison</np>'
    found = translator.translate(line, markup=True)
    assert found.source == ("elle", "ne", "vient", "pas", "la", "maison")
    assert found.text == "she does arrive & go the home"
    assert (3, 3) in found.alignment()
    assert (5, 6) in found.alignment()
    assert "translation=" in translator.translate(line).text
    uses = translator.translate("la <np translation=''>maison</np>", markup=True).derivation()
    assert [(use.source, use.target) for use in uses if "maison" in use.source] == [("maison", "")]


def test_a_glossary_uses_the_longest_matching_entry(tmp_path: Path) -> None:
    path = tmp_path / "glossary.tsv"
    path.write_text("# names\n\nla maison\tthe White House\nla\tLA\nvient\tarrive\nvient\tcome\n")
    glossary = read_glossary(str(path))
    parts = list(glossary.apply([InputPhrase(("la", "maison", "la", "vient", "elle"))]))
    assert [part.words for part in parts] == [("la", "maison"), ("la",), ("vient",), ("elle",)]
    assert parts[2].given == (("arrive",), ("come",))
    assert small_translator(tmp_path, glossary).translate("la maison").text == "the White House"


def test_a_glossary_line_without_a_translation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "glossary.tsv"
    path.write_text("la\tthe\nmaison\n")
    with pytest.raises(InputError, match=r"glossary\.tsv, line 2: expected words"):
        read_glossary(str(path))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("Holy Spirit", ["HS"]),
        ("holy spirit", []),
        ("the Mother tongue", ["MT"]),
        ("Mother Tongue", ["MT"]),
        ("MOTHER tongue", []),
        ("MOTHER TONGUE IS A GIFT", ["MT"]),
        ("THE HOLY SPIRIT", ["HS"]),
        ("US troops help us", ["GIVEN"]),
        ("Us", ["GIVEN"]),
        ("#1 is here", ["ONE"]),
    ],
)
def test_a_glossary_distinguishes_names_and_acronyms_from_words(written: str, found: list[str], tmp_path: Path) -> None:
    path = tmp_path / "glossary.tsv"
    path.write_text("#note\n# a\tnote\nHoly Spirit\tHS\nmother tongue\tMT\nus\tGIVEN\n#1\tONE\n")
    words = tuple(written.split())
    known = tuple(word.lower() for word in words)
    parts = list(read_glossary(str(path)).apply([InputPhrase(known, (), words)]))
    assert [part.given[0][0] for part in parts if part.given] == found
    assert tuple(word for part in parts for word in part.words) == known


def test_incomplete_markup_is_text_and_empty_spans_are_dropped() -> None:
    assert input_phrases("a <b c", markup=True) == [InputPhrase(("a", "<b", "c"))]
    assert input_phrases("<n translation='x'></n> a", markup=True) == [InputPhrase(("a",))]


def test_a_given_translation_is_not_an_unknown_word(translator: Translator) -> None:
    found = translator.translate('<n translation="arrive">vient</n> zut', markup=True)
    assert found.text == "arrive zut"
    assert found.candidates[0].features["unknown"] == 1
    found = translator.translate('<n translation="arrive">vient</n>', markup=True)
    assert "unknown" not in found.candidates[0].features


@pytest.mark.parametrize("mark", [9, 8, 7, 6, 3])
def test_a_long_sentence_is_divided_at_a_comma_near_the_limit(
    translator: Translator, mark: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translating, "MAX_WORDS", 9)
    words = ["," if k == mark else "la" for k in range(1, 19)]
    found = translator.translate(" ".join(words))
    assert found.decoded_parts[0].word_starts[-1] == (mark if mark >= 7 else 9)


def test_candidates_have_different_words(translator: Translator) -> None:
    found = translator.translate("la maison blanche", 20)
    texts = [one.text for one in found.candidates]
    assert len(texts) > 1
    assert len(texts) == len(set(texts))
    assert [one.score for one in found.candidates] == sorted((one.score for one in found.candidates), reverse=True)


def test_candidates_of_joined_parts_have_different_words() -> None:
    def candidate(text: str, score: float) -> Candidate:
        return Candidate(tuple(text.split()), score, {}, (0,))

    lists = [
        [candidate("a b", -1.0), candidate("a", -2.0), candidate("c", -9.0)],
        [candidate("c", -1.0), candidate("b c", -1.5), candidate("d", -4.0)],
    ]
    found = best_combinations(lists, 4)
    assert [one.words for one in found] == [("a", "b", "c"), ("a", "b", "b", "c"), ("a", "c"), ("a", "b", "d")]
    assert [one.score for one in found] == [-2.0, -2.5, -3.0, -5.0]


def test_long_sentences_are_translated_in_parts(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translating, "MAX_WORDS", 10)
    words = ["la", "maison"] * 12
    words[8] = ","
    found = translator.translate(" ".join(words), 3)
    assert len(found.decoded_parts) == 3
    scores = [candidate.score for candidate in found.candidates]
    assert (len(scores), scores[1:]) == (3, sorted(scores[1:], reverse=True))
    assert found.candidates[1].text != found.text
    assert found.alignment(1)
    expected = " ".join(["the house"] * 4 + [", house"] + ["the house"] * 7)
    # `home` and `house` score equally here, so the consensus may choose either.
    assert found.text.replace("home", "house") == expected
    links = found.alignment()
    assert links == [(k, k) for k in range(24)]
    spans = sorted(use.source_span for use in found.derivation() if "[X" not in use.source)
    assert spans[0][0] == 0
    assert spans[-1][1] == 24
    assert_weighted_sum(found.candidates[0], resources(tmp_path).weights)


def test_translations_of_tokens_do_not_depend_on_threads(translator: Translator) -> None:
    lines = [" ".join(["la maison", "elle", "ne vient pas", "Xyz", "blanche"][: 1 + k % 5]) for k in range(40)]

    def shown(found: list[Translation]) -> list[object]:
        return [[(c.text, c.score) for c in one.candidates] for one in found]

    translate = partial(translator.translate, best=5)
    one, three = (list(in_threads(translate, lines, threads)) for threads in (1, 3))
    assert shown(one) == shown(three)
    assert len(one) == 40


def test_translation_works_without_a_language_model_and_with_omitted_rules(tmp_path: Path) -> None:
    made = resources(tmp_path, with_lm=False)
    grammar = made.grammar(str(grammar_file(tmp_path)))
    assert (grammar.circular, grammar.wide, grammar.packed.rules) == (1, 1, 9)
    translator = made.translator(grammar)
    found = translator.translate("elle ne vient pas").candidates[0]
    assert found.text == "she does not come"
    assert "lm" not in found.features
