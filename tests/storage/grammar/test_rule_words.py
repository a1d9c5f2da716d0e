"""The words of many rules at once."""

from collections.abc import Iterable

import numpy as np

from hierogram.samplers.grammar.kinds import NOTATIONS, SOURCE, TARGET
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.storage.grammar.rule_words import RuleWords, anchors, distinct

# As in stores of large corpora.
FIRST_WORD = 5_000_000
FIRST_RULE = 7_000_000_000


def test_words_and_rules_of_large_stores_are_told_apart() -> None:
    asked: list[tuple[str, list[str]]] = []
    ids: dict[tuple[str, str], int] = {}

    def look_up(side: str, tokens: Iterable[str]) -> dict[str, int]:
        wanted = list(tokens)
        asked.append((side, wanted))
        return {token: ids.setdefault((side, token), FIRST_WORD + len(ids)) for token in wanted}

    notation = NOTATIONS[SYNCHRONOUS]
    rules = [("la [X,1] la", "the [X,1]"), ("maison", "house"), ("la maison", "the the house")]
    rule_ids = FIRST_RULE + np.arange(3, dtype=np.int64)
    words = RuleWords(notation, look_up, int(rule_ids.max()))
    sides = {SOURCE: [source for source, _ in rules], TARGET: [target for _, target in rules]}
    found = words.find(sides, rule_ids)
    la, maison = ids[SOURCE, "la"], ids[SOURCE, "maison"]
    pairs = np.array([(la, la), (max(la, maison), min(la, maison))])
    keys = anchors(pairs[:, 0], pairs[:, 1]).tolist()
    assert all(-(1 << 28) <= key < 0 for key in keys)
    expected = sorted(
        [
            *zip(keys, rule_ids[[0, 2]].tolist(), strict=True),
            *(
                (ids[word], rule_id)
                for rule_id, rule in zip(rule_ids.tolist(), rules, strict=True)
                for word in set(notation.words_of_rule(*rule))
            ),
        ]
    )
    assert list(zip(words.word_ids(found).tolist(), words.rule_ids(found).tolist(), strict=True)) == expected
    assert sorted(asked) == [(SOURCE, ["la", "maison"]), (TARGET, ["the", "house"])]
    assert words.find(sides, rule_ids).tolist() == found.tolist()
    assert len(asked) == 2
    assert words.find({SOURCE: [], TARGET: []}, rule_ids[:0]).tolist() == []


def test_distinct_numbers() -> None:
    assert distinct(np.array([3, 1, 3, 2, 1])).tolist() == [1, 2, 3]
    assert distinct(np.zeros(0, np.int64)).tolist() == []
