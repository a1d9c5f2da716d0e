"""A store with subwords shows whole words to users: rules, evidence, terms, links."""

from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.daemon.parts import SOURCE_WORDS, TARGET_WORDS, VERSES, learn_parts, open_parts, segmented_word

import hierogram as hg
from hierogram.daemon.text.pipeline import UNCHANGED_TEXT, TextPipeline
from hierogram.daemon.text.word_view import PairInWords, WordView
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records.parts import PART_MARK, join_parts
from hierogram.tools.integrations.mcp_server import McpTools

pytestmark = pytest.mark.database("sqlite")


def test_a_segmented_side_is_shown_in_words() -> None:
    view = WordView(("", ""))
    assert view.side(f"a {PART_MARK}b [X,1] {PART_MARK}c {PART_MARK}d e") == "ab [X,1] -cd e"
    assert view.side(f"{PART_MARK}c") == "-c"
    assert view.side("a") == "a"
    # A word that begins with the subword mark is stored with an escape.
    assert view.side(f"[X,1] ￬{PART_MARK}x") == f"[X,1] {PART_MARK}x"
    assert WordView(()).side(f"a {PART_MARK}b") == f"a {PART_MARK}b"


def test_typed_words_are_segmented() -> None:
    pipeline = TextPipeline(word_parts=("a b", ""))
    assert pipeline.source.convert_rule_side("abc [X,1] c") == f"ab {PART_MARK}c [X,1] c"
    assert TextPipeline(word_parts=("", "x y")).target.convert_rule_side("ab") == f"a {PART_MARK}b"
    # Words of a side without merges stay whole.
    assert pipeline.target.convert_rule_side("ab") == "ab"
    assert pipeline.source.convert_rule_side(f"{PART_MARK}c") == f"{PART_MARK}c"
    assert UNCHANGED_TEXT.source.convert_rule_side("abc") == "abc"


def test_a_carriage_return_is_rejected_although_words_are_split(parts: hg.GrammarStore) -> None:
    given = {"source": "mkate maji\r", "target": "bread water", "alignment": "0-0 1-1"}
    report = parts.add([given])
    assert (report.totals.accepted, report.reasons) == (0, {"line-break": 1})


def test_links_of_a_pair_are_between_words() -> None:
    parts = (f"a {PART_MARK}b c", f"x y {PART_MARK}z", "0-0 1-0 2-1 2-2")
    expected = PairInWords("ab c", "x yz", "0-0 1-1", [0, 0, 1, 2], [0, 1, 1, 2], None)
    assert WordView(("", "")).pair(*parts) == expected
    with_probabilities = WordView(("", "")).pair(*parts, "0.72 0.95 1.00 0.40")
    assert with_probabilities == expected._replace(link_probabilities="0.95 1.00")
    assert WordView(()).pair("a b", "x", "1-0", "0.5") == PairInWords("a b", "x", "1-0", [0, 1, 2], [0, 1], "0.5")


def test_rules_are_found_by_words_and_shown_in_words(parts: hg.GrammarStore, hierogram: Run) -> None:
    word = segmented_word(parts)
    for arguments in (("mkate",), (word, "--containing")):
        ran = hierogram("--store", parts.url, "rules", *arguments)
        assert ran.code == 0
        assert PART_MARK not in ran.out
    rows = hierogram("--store", parts.url, "rules", word, "--containing", "--limit", "5").out.splitlines()[1:]
    assert rows
    assert all(word in row for row in rows)
    [best, *_] = parts.rules("mkate", limit=1)
    assert join_parts(best.source) == "mkate"
    assert join_parts(best.target) == "bread"
    # The Python API also accepts the segmented sides of rules.
    assert parts.rules(best.source, best.target, limit=1)[0] == best


def test_pairs_of_a_rule_are_shown_in_words(parts: hg.GrammarStore, hierogram: Run) -> None:
    [rule] = parts.rules(limit=1)
    ran = hierogram("--store", parts.url, "rules", "--pairs", f"{rule.source} ||| {rule.target}")
    assert ran.code == 0
    assert PART_MARK not in ran.out
    assert any(target in ran.out for _, target in VERSES)


def test_evidence_consists_of_whole_words(parts: hg.GrammarStore) -> None:
    word = segmented_word(parts)
    found = hg.evidence(parts, f"{word} mkate nyeusi")
    assert found.words == [word, "mkate", "nyeusi"]
    assert PART_MARK not in repr(found)
    assert found.pairs[0].source in dict(VERSES)
    assert found.pairs[0].covered_spans[0][0] == 0
    spans = [span for rule in found.rules for place in rule.matches for span in (*place.words, *place.gaps)]
    assert spans
    assert all(0 <= first <= last <= 3 for first, last in spans)
    assert any(rule.source == "mkate" and rule.target == "bread" and rule.matches[0].words == ((1, 2),)
               for rule in found.rules)  # fmt: skip
    # Tokenized text is also accepted, and a word with letters that no pair has is unknown.
    assert hg.evidence(parts, f"{word} mkate", tokenized=True).words == [word, "mkate"]
    assert hg.evidence(parts, "mkate ŵŵ").unknown == ["ŵŵ"]


def test_terms_are_whole_words(parts: hg.GrammarStore) -> None:
    found = hg.terms(parts, min_words=1, top=200)
    assert {word for term in found.terms for word in term.source.split()} <= SOURCE_WORDS
    assert {word for term in found.terms for word in term.target.split()} <= TARGET_WORDS
    by_source = {term.source: term for term in found.terms}
    # Each pair with mtamu also contains bread, so either word may be linked.
    assert any("sweet" in term.target.split() and "mtamu" in term.source.split() for term in found.terms)
    assert by_source["chai"].source_pairs == 16


def test_new_links_are_between_whole_words(parts: hg.GrammarStore) -> None:
    word = segmented_word(parts)
    [links] = hg.align([f"{word} chai"], ["she wants tea"], priors=parts, seed=1)
    assert links
    assert all(i < 2 and j < 3 for i, j, _ in links)
    assert (1, 2) in {(i, j) for i, j, _ in links}


def test_concordance_and_evidence_for_mcp_use_words(parts: hg.GrammarStore) -> None:
    word = segmented_word(parts)
    tools = McpTools.__new__(McpTools)
    tools._store = parts
    found = tools.concordance(word, 3)
    assert found
    assert all(word in line.source.split() for line in found)
    assert PART_MARK not in repr(found)
    assert PART_MARK not in tools.evidence(f"{word} chai", 300)


def test_human_links_of_words_apply_to_their_subwords() -> None:
    pair = WordView(("", "")).pair(f"a {PART_MARK}b c", f"x y {PART_MARK}z")
    human_links = KnownLinks(frozenset({(0, 1)}), frozenset({(1, 0)}))
    parts = KnownLinks(frozenset({(0, 1), (0, 2), (1, 1), (1, 2)}), frozenset({(2, 0)}))
    assert pair.to_token_links(human_links) == parts
    assert pair.to_word_links(parts) == human_links
    with pytest.raises(ValueError, match="the pair has 2 and 2 words"):
        pair.to_token_links(KnownLinks(frozenset({(2, 0)}), frozenset()))
    assert WordView(()).pair("a b", "x").to_token_links(KnownLinks(frozenset({(1, 0)}), frozenset())).fixed == {(1, 0)}


@pytest.mark.slow
def test_human_links_of_words_survive_learning_withdrawal_and_verify(tmp_path: Path) -> None:
    with open_parts(tmp_path / "parts.db", learn_parts(VERSES[:40], 24, 24)) as store:
        store.add(VERSES[:40])
        store.learn(2, threads=1).run()
        row = next(row for row in store.store.pairs() if PART_MARK in row.source.partition(" ")[2].partition(" ")[0])
        view = WordView(store.settings().word_parts)
        # The first word has several subwords.
        assert view.pair(row.source, row.target).source_word_indices[:2] == [0, 0]
        known = KnownLinks(frozenset({(0, 0)}), frozenset({(1, 0)}))
        store.set_links({row.id: known})
        with pytest.raises(hg.InputError, match="is out of range"):
            store.set_links({row.id: KnownLinks(frozenset({(9, 0)}), frozenset())})
        store.add([("tunasoma chai", "we read tea")])
        store.learn(2, threads=1).run()
        [again] = store.store.pairs_by_id([row.id])
        assert {"0-0", "1-0"} <= set(again.alignment.split())
        links = set(view.pair(again.source, again.target, again.alignment).alignment.split())
        assert "0-0" in links
        assert "1-0" not in links
        assert store.verify().problems == []
        store.withdraw([row.id, store.store.pairs()[-1].id])
        store.learn(1, threads=1).run()
        assert store.verify().problems == []
        assert store.status().pairs["settled"] == 39
