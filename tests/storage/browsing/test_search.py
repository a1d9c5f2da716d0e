"""Search for rules: matches, spellings, order, pages, and suggested words."""

import unicodedata
from collections.abc import Iterator
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import CopyStore
from tests.storage.building import commit, delta, ingest, pair, query

from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.browsing.reader import Reader, ReadTransaction
from hierogram.storage.browsing.search import (
    PART,
    PROBABILITY,
    SURPRISE,
    USE,
    WHOLE,
    Phrase,
    Query,
    guess_side,
    read_phrase,
    search,
)
from hierogram.storage.pairs.vocabulary import MAX_FOLDED_LENGTH, MAX_READINGS, SideWord, fold, readings, similar_words
from hierogram.storage.records.grammar import RuleRow
from hierogram.storage.store import Store, open_store

RULES = [
    ("maison", "house", 5), ("maison", "home", 2), ("la maison", "the house", 4), ("la maison", "home", 1),
    ("la [X,1] maison", "the [X,1] house", 3), ("maison la", "house the", 1), ("Maison", "House", 1),
    ("ne [X,1] pas", "not [X,1]", 6), ("ne vient pas", "comes not", 1), ("ne pas", "not to", 2),
    ("il ne [X,1] pas [X,2]", "he [X,1] not [X,2]", 1), ("pas [X,1] ne", "step [X,1] ne", 1),
    ("50%", "50_", 1), ("a*b", "x?y", 1), ("[", "!", 1), ("\\\\_", "_", 1),
]  # fmt: skip


@pytest.fixture
def transaction(store_url: str, copy_store: CopyStore) -> Iterator[ReadTransaction]:
    """Read access to a store with `RULES`."""
    copy_store("search", store_url, make)
    with Reader(store_url) as reader, reader.read() as transaction:
        yield transaction


def make(url: str) -> None:
    """Create a store with `RULES` and one pair that contains all their words."""
    words = {side: [] for side in ("source", "target")}
    for source, target, _ in RULES:
        for side, text in (("source", source), ("target", target)):
            words[side] += [symbol for symbol in parse_side(text) if isinstance(symbol, str)]
    with open_store(url, create=True) as store:
        ingest(store, [pair(" ".join(words["source"]), " ".join(words["target"]))])
        commit(store, [], [delta(source, target, 1 + count % 2, count) for source, target, count in RULES])


def sides(rules: list[RuleRow]) -> list[tuple[str, str]]:
    return [(rule.source, rule.target) for rule in rules]


def find(transaction: ReadTransaction, typed: str, **values: object) -> list[tuple[str, str]]:
    return sides(search(transaction, read_phrase(typed), Query(limit=100, **values)).rules)


def test_a_word_is_found_anywhere_or_as_a_whole_side(transaction: ReadTransaction) -> None:
    anywhere = find(transaction, "maison")
    assert anywhere[:3] == [("maison", "house"), ("la maison", "the house"), ("la [X,1] maison", "the [X,1] house")]
    assert len(anywhere) == 7
    assert find(transaction, "maison", match=WHOLE) == [("maison", "house"), ("maison", "home"), ("Maison", "House")]
    assert find(transaction, "Maison")[0] == ("Maison", "House")
    assert find(transaction, "maison")[-1] == ("Maison", "House")
    assert find(transaction, "house", side="target", match=WHOLE) == [("maison", "house"), ("Maison", "House")]
    assert find(transaction, "nowhere") == []
    assert find(transaction, "house") == []


def test_words_of_a_phrase_are_found_in_their_order(transaction: ReadTransaction) -> None:
    assert find(transaction, "la maison") == [("la maison", "the house"), ("la maison", "home")]
    assert find(transaction, "maison la") == [("maison la", "house the")]
    assert find(transaction, "la maison", match=WHOLE) == [("la maison", "the house"), ("la maison", "home")]


def test_gaps_match_one_or_more_words(transaction: ReadTransaction) -> None:
    assert find(transaction, "ne _ pas")[0] == ("ne [X,1] pas", "not [X,1]")
    assert set(find(transaction, "ne _ pas")[1:]) == {
        ("ne vient pas", "comes not"), ("il ne [X,1] pas [X,2]", "he [X,1] not [X,2]"),
    }  # fmt: skip
    assert find(transaction, "ne _ pas", match=WHOLE) == [("ne [X,1] pas", "not [X,1]"), ("ne vient pas", "comes not")]
    assert find(transaction, "ne pas") == [("ne pas", "not to")]
    assert find(transaction, "_ la _ _ maison _") == [("la [X,1] maison", "the [X,1] house")]


@pytest.mark.parametrize(("typed", "target"), [("50%", "50_"), ("a*b", "x?y"), ("[", "!"), ("\\\\_", "_")])
@pytest.mark.parametrize("match", [PART, WHOLE])
def test_pattern_characters_match_literally(transaction: ReadTransaction, typed: str, target: str, match: str) -> None:
    assert find(transaction, typed, match=match) == [(typed, target)]
    assert find(transaction, "\\_" if target == "_" else target, side="target", match=match) == [(typed, target)]


def test_rules_are_ordered_by_probability_and_surprise(transaction: ReadTransaction) -> None:
    phrase = read_phrase("maison")
    likely = [rule for rule in search(transaction, phrase, Query(order=PROBABILITY)).rules if rule.source != "Maison"]
    assert [rule.p_target_given_source for rule in likely] == sorted(
        (rule.p_target_given_source for rule in likely), reverse=True
    )
    odd = search(transaction, phrase, Query(order=SURPRISE)).rules
    assert sides(odd)[0] == ("la maison", "home")
    assert isclose(odd[0].p_target_given_source, 1 / 5)
    on_target = search(transaction, read_phrase("home"), Query(side="target", order=SURPRISE)).rules
    assert [(rule.source, rule.p_source_given_target) for rule in on_target] == [
        ("la maison", pytest.approx(1 / 3)), ("maison", pytest.approx(2 / 3)),
    ]  # fmt: skip


def test_rules_are_filtered_by_count_scope_and_corpus(transaction: ReadTransaction) -> None:
    assert find(transaction, "maison", min_count=4) == [("maison", "house"), ("la maison", "the house")]
    # Rules that the filter excludes still count in the probabilities.
    [rule] = search(transaction, read_phrase("la maison"), Query(order=PROBABILITY, min_count=2)).rules
    assert rule.p_target_given_source == 4 / 5
    assert ("il ne [X,1] pas [X,2]", "he [X,1] not [X,2]") not in find(transaction, "pas", max_scope=0)
    assert ("il ne [X,1] pas [X,2]", "he [X,1] not [X,2]") in find(transaction, "pas", max_scope=1)
    assert find(transaction, "maison", corpus="corpus") == []


def test_rules_of_a_corpus_are_found_in_every_order(transaction: ReadTransaction, store_url: str) -> None:
    [(rule_id,)] = query(store_url, "SELECT id FROM rules WHERE source = 'la maison' AND target = 'home'")
    query(store_url, f"INSERT INTO rule_pairs (rule_id, pair_id, uses) VALUES ({rule_id}, 1, 1)")
    with Reader(store_url) as reader, reader.read() as fresh:
        for order in (USE, PROBABILITY, SURPRISE):
            assert find(fresh, "maison", corpus="corpus", order=order) == [("la maison", "home")]
            assert find(fresh, "maison", corpus="other", order=order) == []


@pytest.mark.parametrize("order", [USE, PROBABILITY, SURPRISE])
@pytest.mark.parametrize("match", [PART, WHOLE])
def test_pages_together_contain_each_rule_once_and_in_order(
    transaction: ReadTransaction, order: str, match: str
) -> None:
    phrase = read_phrase("maison")
    whole = search(transaction, phrase, Query(order=order, match=match, limit=100)).rules
    page, after, together = 0, None, []
    while page == 0 or after is not None:
        answer = search(transaction, phrase, Query(order=order, match=match, limit=2), after)
        together += answer.rules
        after = answer.next
        page += 1
    assert together == whole
    assert page == (len(whole) + 1) // 2


def test_the_more_probable_side_is_guessed(transaction: ReadTransaction) -> None:
    for typed, side in (("maison", "source"), ("house", "target"), ("ne", "source"), ("the house", "target")):
        assert guess_side(transaction, dict.fromkeys(("source", "target"), read_phrase(typed))) == side


def test_probabilities_of_found_rules_equal_the_view_rule_table(transaction: ReadTransaction) -> None:
    for rule in search(transaction, read_phrase("maison"), Query()).rules:
        [shown] = transaction.rows(
            "SELECT p_target_given_source, p_source_given_target FROM rule_table WHERE id = :id", id=rule.id
        )
        assert (rule.p_target_given_source, rule.p_source_given_target) == shown


def test_rules_without_indexed_words_still_count_in_probabilities(store: Store, store_url: str) -> None:
    ingest(store, [pair("a b", "c")])
    # The last rule has no derivation and less than half an expected use, so its words are not indexed.
    rare = delta("a b", "e", 0, 0.25)
    commit(store, [], [delta("a b", "c", 2, 2), delta("a b", "d", 1, 1.75), rare])
    with Reader(store_url) as reader, reader.read() as transaction:
        for order in (USE, PROBABILITY, SURPRISE):
            rules = search(transaction, read_phrase("b"), Query(order=order)).rules
            assert {rule.target: rule.p_target_given_source for rule in rules} == {"c": 1 / 2, "d": 7 / 16}


def test_only_the_most_used_rules_are_ordered_by_surprise(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hierogram.storage.browsing.search.MAX_RANKED", 2)
    ingest(store, [pair("a b c", "d e f")])
    commit(store, [], [delta(f"a {s}", t, 1, n) for n, (s, t) in enumerate(["bd", "be", "cd", "cf"], 1)])
    with Reader(store_url) as reader, reader.read() as transaction:
        assert find(transaction, "a", order=SURPRISE) == [("a c", "d"), ("a c", "f")]


def test_the_order_by_surprise_omits_rules_with_few_expected_uses_by_default(store: Store, store_url: str) -> None:
    ingest(store, [pair("a", "b c")])
    commit(store, [], [delta("a", "b", 1, 1), delta("a", "c", 1, 0.125)])
    with Reader(store_url) as reader, reader.read() as transaction:
        assert find(transaction, "a", order=SURPRISE) == [("a", "b")]
        assert find(transaction, "a", order=SURPRISE, min_count=0) == [("a", "c"), ("a", "b")]
        assert find(transaction, "a") == [("a", "b"), ("a", "c")]


def test_recorded_statements_return_the_same_rules(transaction: ReadTransaction) -> None:
    for order in (USE, PROBABILITY):
        asked = len(transaction.statements)
        answer = search(transaction, read_phrase("la _ maison"), Query(order=order))
        again = [row for statement in transaction.statements[asked:] for row in transaction.records(statement)]
        assert [RuleRow(**{name: row[name] for name in RuleRow.__slots__}) for row in again] == answer.rules


@given(st.lists(st.sampled_from(["a", "b", "_", "\\_", "[X,1]"]), max_size=8))
def test_parsed_phrases_keep_their_words_and_merge_or_drop_gaps(pieces: list[str]) -> None:
    phrase = read_phrase(" ".join(pieces))
    assert not phrase.parts or (phrase.parts[0] is not None and phrase.parts[-1] is not None)
    assert all(a is not None or b is not None for a, b in zip(phrase.parts, phrase.parts[1:], strict=False))
    assert [part for part in phrase.parts if part is not None] == [
        "_" if piece == "\\_" else piece for piece in pieces if piece != "_"
    ]


def test_a_nonterminal_typed_into_the_search_is_read_as_a_word(store: Store, store_url: str) -> None:
    ingest(store, [pair("[X,1] b", "c")])
    commit(store, [], [delta("\\[X,1] b", "c", 1, 1), delta("[X,1] b", "[X,1]", 1, 1)])
    with Reader(store_url) as reader, reader.read() as transaction:
        assert find(transaction, "[X,1]") == [("\\[X,1] b", "c")]
        assert find(transaction, "[X,1] b") == [("\\[X,1] b", "c")]
        assert Phrase(("[X,1]", "b")).side() == "\\[X,1] b"


SPELLED = [
    ("λόγος", "word", 5), ("Λόγος", "Word", 2), ("λόγος τοῦ", "word of", 4), ("του", "of", 1), ("é", "e", 3),
    ("e", "x", 1), ("e\u0301 b", "y", 2),
]  # fmt: skip


@pytest.fixture
def spelled(store_url: str, copy_store: CopyStore) -> Iterator[ReadTransaction]:
    """Read access to a store whose words differ in accents, capital letters and normal forms."""
    copy_store("spelled", store_url, make_spelled)
    with Reader(store_url) as reader, reader.read() as transaction:
        yield transaction


def make_spelled(url: str) -> None:
    sources, targets = zip(*((source, target) for source, target, _ in SPELLED), strict=True)
    with open_store(url, create=True) as store:
        ingest(store, [pair(" ".join(sources), " ".join(targets)), pair("λόγος λόγῳ", "word words")])
        commit(store, [], [delta(source, target, 1, count) for source, target, count in SPELLED])


@pytest.mark.parametrize("typed", ["λογος", "ΛΟΓΟΣ", "λόγος", unicodedata.normalize("NFD", "λόγος")])
@pytest.mark.parametrize("order", [USE, PROBABILITY])
def test_accents_capitals_and_normal_forms_are_ignored(spelled: ReadTransaction, typed: str, order: str) -> None:
    rules = find(spelled, typed, order=order)
    assert set(rules) == {("λόγος", "word"), ("Λόγος", "Word"), ("λόγος τοῦ", "word of")}
    assert typed != "λόγος" or rules[-1] == ("Λόγος", "Word")
    assert guess_side(spelled, dict.fromkeys(("source", "target"), read_phrase(typed))) == "source"


def test_phrases_are_matched_without_accents(spelled: ReadTransaction) -> None:
    assert find(spelled, "λογος του") == [("λόγος τοῦ", "word of")]
    assert find(spelled, "λογος του", match=WHOLE) == [("λόγος τοῦ", "word of")]
    assert find(spelled, "λογος", match=WHOLE) == [("λόγος", "word"), ("Λόγος", "Word")]
    assert find(spelled, "του λογος") == []


def test_exact_spellings_come_first(spelled: ReadTransaction) -> None:
    assert find(spelled, "e") == [("e", "x"), ("é", "e"), ("e\u0301 b", "y")]
    assert find(spelled, "é") == [("é", "e"), ("e\u0301 b", "y"), ("e", "x")]
    page, after, together = 0, None, []
    while page == 0 or after is not None:
        answer = search(spelled, read_phrase("e"), Query(limit=1), after)
        together += sides(answer.rules)
        after = answer.next
        page += 1
    assert (together, page) == ([("e", "x"), ("é", "e"), ("e\u0301 b", "y")], 3)


def test_words_missing_from_the_store_are_reported(spelled: ReadTransaction) -> None:
    answer = search(spelled, read_phrase("λογος nowhere"), Query())
    assert (answer.rules, answer.readings, answer.unknown) == ([], (), ("nowhere",))


def test_similar_words_and_prefixes_are_suggested(spelled: ReadTransaction) -> None:
    assert similar_words(spelled.connection, "source", "λογ") == ["λόγος", "Λόγος", "λόγῳ"]
    assert similar_words(spelled.connection, "target", "wrods") == []
    assert similar_words(spelled.connection, "target", "wods") == ["words", "word", "Word"]
    assert similar_words(spelled.connection, "source", "word") == []


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=400))
def test_normal_forms_of_a_word_have_the_same_folded_form(token: str) -> None:
    form = fold(token)
    assert 0 < len(form) <= MAX_FOLDED_LENGTH
    if len(token) <= MAX_FOLDED_LENGTH // 4:
        assert fold(form) == form
        assert all(fold(unicodedata.normalize(name, token)) == form for name in ("NFC", "NFD"))


SIDE_WORDS = st.tuples(st.sampled_from(["", "source", "target"]), st.text(max_size=3))


@given(st.dictionaries(SIDE_WORDS, st.lists(st.text(max_size=3), max_size=20, unique=True), max_size=25))
def test_alternative_spellings_are_few_and_differ_from_the_words(choices: dict[SideWord, list[str]]) -> None:
    made = readings(choices)
    assert len(made) <= MAX_READINGS
    assert all(reading.keys() == choices.keys() for reading in made)
    assert all(reading[word] in choices[word] for reading in made for word in reading)
    assert all(any(word != spelling for (_, word), spelling in reading.items()) for reading in made)
