"""Selection of the rules shown by the demo."""

import pytest

from hierogram.samplers.grammar.rules import Rule
from hierogram.storage.records.grammar import RuleRow
from hierogram.tools.demo.extension import GAP, PHRASE, WORD_ORDER, classify_rule, select_example_rules


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("la maison ||| the house", PHRASE),
        ("maison ||| the house", None),
        ("[X,1] maison ||| [X,1] house", None),
        ("[X,1] [X,2] ||| [X,2] [X,1]", None),
        ("maison [X,1] ||| [X,1] house", WORD_ORDER),
        ("[X,1] de [X,2] ||| [X,2] 's [X,1]", WORD_ORDER),
        ("ne [X,1] pas ||| do not [X,1]", WORD_ORDER),
        ("entre [X,1] et [X,2] ||| between [X,1] and [X,2]", GAP),
        ("[X,1] et ||| [X,1] and", None),
    ],
)
def test_rules_are_classified_by_kind(rule: str, kind: str | None) -> None:
    assert classify_rule(Rule.parse(rule)) == kind


def row(number: int, source: str, target: str, count: int, forward: float, backward: float) -> RuleRow:
    return RuleRow(number, source, target, 4, 0, 0, True, float(count), 0.0, count, forward, backward)


def test_frequent_and_certain_rules_of_each_kind_come_first() -> None:
    rows = [
        row(1, "a b", "c d", 10, 0.5, 0.5),
        row(2, "a b", "c e", 4, 0.9, 0.9),
        row(3, "f g", "h i", 1, 1.0, 1.0),
        row(4, "j k", "l m", 9, 0.1, 0.1),
        row(5, "n [X,1]", "[X,1] o", 2, 1.0, 1.0),
        row(6, "p", "q", 99, 1.0, 1.0),
    ]
    best = select_example_rules(rows, 2)
    assert [[rule.id for rule in best[kind]] for kind in (PHRASE, WORD_ORDER, GAP)] == [[2, 1], [5], []]
