"""Evidence that a learned store gives for a sentence."""

import json
from dataclasses import asdict

import pytest

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.text.pipeline import TOKENS, TextPipeline, TextSide
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.evidence.options import EvidenceOptions
from hierogram.tools.evidence.retrieval import MAX_WORDS, Evidence, as_prompt, find_evidence, readable_side
from hierogram.tools.evidence.sanitizing import EXPLANATION


def gather_evidence(url: str, sentence: str, **options: object) -> Evidence:
    with Reader(url) as reader, reader.read() as transaction:
        return find_evidence(transaction, sentence, EvidenceOptions(**options))


def test_rules_pairs_and_unknown_words_are_found(learned: Store, learned_url: str) -> None:
    found = gather_evidence(learned_url, "elle ne voit pas la porte bleue")
    assert found.unknown == ["bleue"]
    assert found.position == learned.position()
    by_side = {(rule.source, rule.target): rule for rule in found.rules}
    rule = by_side["la", "the"]
    [stored] = learned.find_rules("la", "the")
    assert (rule.expected_uses, rule.p_target_given_source) == pytest.approx(
        (stored.expected_uses, stored.p_target_given_source)
    )
    assert rule.matches[0].words == ((4, 5),)
    positions = {position for rule in found.rules for place in rule.matches for position in place.covered}
    assert positions >= {0, 1, 3, 4, 5}
    assert any(rule.matches[0].gaps for rule in found.rules)
    assert {one.source for one in found.pairs[:2]} & {"elle ne vient pas", "il ne voit pas la maison"}


def test_every_rule_matches_its_reported_positions(learned_url: str) -> None:
    found = gather_evidence(learned_url, "il ne vient pas de la maison blanche", rules=500, renderings=20)
    assert found.rules
    for rule in found.rules:
        for place in rule.matches:
            words = [found.words[position] for position in place.covered]
            assert words == [symbol for symbol in rule.source.split(" ") if not symbol.startswith("[X,")]
            assert all(0 <= first < last <= len(found.words) for first, last in (*place.words, *place.gaps))


def test_limits_of_pairs_rules_and_words_are_respected(learned_url: str) -> None:
    found = gather_evidence(learned_url, "la maison verte", pairs=1, rules=2, renderings=1)
    assert (len(found.pairs), len(found.rules)) == (1, 2)
    assert gather_evidence(learned_url, "la maison verte", pairs=0).pairs == []
    assert gather_evidence(learned_url, "inconnu").rules == []
    for sentence, reason in ((" \t ", "no word"), ("la " * (MAX_WORDS + 1), "the limit is 200")):
        with pytest.raises(InputError, match=reason):
            gather_evidence(learned_url, sentence)


def test_the_text_for_a_prompt_has_a_glossary_and_examples(learned_url: str) -> None:
    found = gather_evidence(learned_url, "une maison blanche", pairs=2)
    text = as_prompt(found, "une  maison blanche", TextPipeline(("fr", "en")))
    explanation, first, *blocks, last = text.rstrip("\n").split("\n\n")
    assert explanation == EXPLANATION
    assert first.startswith("<corpus>\nGlossary (fr = en):\n")
    assert "maison = house" in first
    assert len(blocks) == 2
    assert all(block.startswith("fr: ") and "\nen: " in block for block in blocks)
    assert blocks[-1].endswith("\n</corpus>")
    assert last == "fr: une maison blanche\nen:"
    assert readable_side("ne [X,1] pas [X,2] \\[X,3]", TOKENS) == "ne …1 pas …2 [X,3]"
    assert readable_side("[X,1] la", TOKENS) == "… la"
    assert readable_side("l' eau [X,1] . [X,2] aujourd' hui", TextSide("fr")) == "l'eau …1 . …2 aujourd'hui"


def test_evidence_consists_of_plain_values(learned_url: str) -> None:
    plain = asdict(gather_evidence(learned_url, "la maison"))
    assert plain["words"] == ["la", "maison"]
    assert json.loads(json.dumps(plain))["words"] == plain["words"]
    assert {"source", "target", "expected_uses", "p_target_given_source", "matches"} == set(plain["rules"][0])


def test_sentences_are_tokenized_like_the_store(store_url: str) -> None:
    settings = Settings(languages=("fr", "en"), tokenize=True, case="lowered")
    open_store(store_url, create=True, settings=settings).close()
    assert gather_evidence(store_url, "L'Église, là.").words == ["l'", "église", ",", "là", "."]
    assert gather_evidence(store_url, "L'Église, là.", tokenized=True).words[-1] == "là."


def test_a_tree_store_has_no_evidence(store_url: str) -> None:
    open_store(store_url, create=True, settings=Settings(grammar="trees")).close()
    with pytest.raises(WrongKindError, match="monolingual"):
        gather_evidence(store_url, "a")
