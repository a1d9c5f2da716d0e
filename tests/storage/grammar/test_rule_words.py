"""Word index of rules: the words of each rule, and its anchor, a hash of two source words and their distance."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, strategies

from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS, SOURCE, TARGET
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.storage.grammar.word_index import RuleWords, distinct, hash_anchors, sentence_anchors

# Ids as large as these occur in stores of large corpora.
FIRST_WORD = 5_000_000
FIRST_RULE = 7_000_000_000


def test_word_and_rule_numbers_of_large_stores_do_not_overlap() -> None:
    lookups: list[tuple[str, list[str]]] = []
    ids: dict[tuple[str, str], int] = {}

    def look_up(side: str, tokens: Iterable[str]) -> dict[str, int]:
        lookups.append((side, list(tokens)))
        return {token: ids.setdefault((side, token), FIRST_WORD + len(ids)) for token in lookups[-1][1]}

    grammar_kind = GRAMMAR_KINDS[SYNCHRONOUS]
    rules = [("la [X,1] la", "the [X,1]"), ("maison", "house"), ("la maison", "the the house")]
    rule_ids = FIRST_RULE + np.arange(3, dtype=np.int64)
    words = RuleWords(grammar_kind, look_up, int(rule_ids.max()))
    sides = {SOURCE: [source for source, _ in rules], TARGET: [target for _, target in rules]}
    found = words.make_entries(sides, rule_ids)
    la, maison = ids[SOURCE, "la"], ids[SOURCE, "maison"]
    # The words of the first anchor have a gap between them (distance 0), the words of the second anchor are adjacent.
    keys = hash_anchors(np.array([la, la]), np.array([la, maison]), np.array([0, 1])).tolist()
    assert all(-(1 << 28) <= key < 0 for key in keys)
    expected = sorted(
        [
            *zip(keys, rule_ids[[0, 2]].tolist(), strict=True),
            *(
                (ids[word], rule_id)
                for rule_id, rule in zip(rule_ids.tolist(), rules, strict=True)
                for word in set(grammar_kind.words_of_rule(*rule))
            ),
        ]
    )
    assert list(zip(words.word_ids(found).tolist(), words.rule_ids(found).tolist(), strict=True)) == expected
    assert sorted(lookups) == [(SOURCE, ["la", "maison"]), (TARGET, ["the", "house"])]
    assert words.make_entries(sides, rule_ids).tolist() == found.tolist()
    assert len(lookups) == 2
    assert words.make_entries({SOURCE: [], TARGET: []}, rule_ids[:0]).tolist() == []


def test_distinct_numbers_are_sorted() -> None:
    assert distinct(np.array([3, 1, 3, 2, 1])).tolist() == [1, 2, 3]
    assert distinct(np.zeros(0, np.int64)).tolist() == []


WORDS = "abcd"
SIDES = strategies.lists(strategies.sampled_from([*WORDS, "[X,1]", "[X,2]"]), min_size=1, max_size=5)
SENTENCES = strategies.lists(strategies.sampled_from([*WORDS, "e"]), min_size=1, max_size=14)


def _anchors_of_side(side: list[str]) -> list[int]:
    words = RuleWords(
        GRAMMAR_KINDS[SYNCHRONOUS], lambda _, tokens: {token: 1 + WORDS.index(token) for token in tokens}, 7
    )
    # The target side has no word, so all anchors are from the source side.
    found = words.make_entries({SOURCE: [" ".join(side)], TARGET: ["[X,1]"]}, np.array([7], np.int64))
    return [word for word in words.word_ids(found).tolist() if word < 0]


def _matches_start(side: list[str], sentence: list[str]) -> bool:
    """Check if the side matches at the beginning, by brute force. A gap matches one or more words."""
    if not side:
        return True
    if side[0] in WORDS:
        return sentence[:1] == side[:1] and _matches_start(side[1:], sentence[1:])
    return any(_matches_start(side[1:], sentence[size:]) for size in range(1, len(sentence) + 1))


@pytest.mark.slow
@given(SIDES, SENTENCES)
def test_a_matching_side_is_found_by_its_anchor(side: list[str], sentence: list[str]) -> None:
    keys = sentence_anchors(np.array([1 + WORDS.index(word) if word in WORDS else 0 for word in sentence], np.int64))
    found = _anchors_of_side(side)
    assert len(found) == (sum(symbol in WORDS for symbol in side) > 1)
    if any(_matches_start(side, sentence[first:]) for first in range(len(sentence))):
        assert set(found) <= set(keys.tolist())


@pytest.mark.parametrize("words", [9, 12])
def test_anchors_find_distant_words(words: int) -> None:
    phrase = ["a", *"c" * (words - 2), "b"]
    # The words with the largest ids form the anchor: c at the start of the side, d at its end.
    side = [{"a": "c", "b": "d", "c": "a"}[word] for word in phrase]
    found = _anchors_of_side(side)
    ids = np.array([1 + WORDS.index(word) for word in side], np.int64)
    assert set(found) <= set(sentence_anchors(ids).tolist())
    # An anchor includes distances of up to eight words. Only the anchor with a longer distance is unchanged by the
    # deletion of a word in between.
    shorter = sentence_anchors(np.delete(ids, 1)).tolist()
    assert (found[0] in shorter) == (words > 9)


def test_the_order_of_words_and_gaps_between_them_change_the_anchor() -> None:
    sides = [["a", "b"], ["b", "a"], ["a", "[X,1]", "b"], ["b", "[X,1]", "a"], ["a", "a"], ["a", "[X,1]", "a"]]
    found = [_anchors_of_side(side)[0] for side in sides]
    assert len(set(found)) == len(sides)


def test_an_anchor_does_not_depend_on_other_rules_in_the_batch() -> None:
    words = RuleWords(
        GRAMMAR_KINDS[SYNCHRONOUS], lambda _, tokens: {token: 1 + WORDS.index(token) for token in tokens}, 2
    )
    sides = {SOURCE: ["a a a", "b"], TARGET: ["[X,1]", "[X,1]"]}
    found = words.make_entries(sides, np.array([1, 2], np.int64))
    assert set(words.word_ids(found[words.rule_ids(found) == 1]).tolist()) == {1, *_anchors_of_side(["a", "a", "a"])}
