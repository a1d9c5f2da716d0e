"""Packed grammars: scopes, a round trip of rules through the trie, and refused rules."""

import itertools
import random

from tests.samplers.decoding.small import random_side, to_columns

from hierogram.samplers.decoding.grammar import UNKNOWN_SYMBOL, gap_child, is_usable, pack, scopes, word_child
from hierogram.samplers.grammar.rules import Rule


def sides(rng: random.Random, number: int) -> list[tuple]:
    return [random_side(rng, ["a", "b", "c"], rng.randint(0, 4)) for _ in range(number)]


def test_computed_scopes_match_the_definition() -> None:
    found = sides(random.Random(1), 500)
    columns = to_columns([(side, ()) for side in found], ["a", "b", "c"], [])
    assert scopes(columns).tolist() == [Rule(side, ()).scope for side in found]
    assert () in found
    assert (-1,) in found


def test_rules_survive_a_round_trip_through_the_trie() -> None:
    rng = random.Random(2)
    sources = [side for side in sides(rng, 300) if side not in ((), (-1,))]
    rules = []
    for source in sources:
        target = tuple(rng.choice("xyz") for _ in range(rng.randint(0, 3)))
        rules.append((source, target, (rng.randrange(3), 0.5)))
    columns = to_columns(rules, ["a", "b", "c"], ["x", "y", "z"])
    grammar = pack(columns, is_usable(columns))
    assert sorted(grammar.number.tolist()) == list(range(len(rules)))
    for rule in range(grammar.rules):
        source, target, _ = rules[grammar.number[rule]]
        assert grammar.source_side(rule) == ["abc".index(s) if isinstance(s, str) else s for s in source]
        assert grammar.target_side(rule) == ["xyz".index(s) for s in target]
        assert grammar.features[rule].tolist() == columns.features[grammar.number[rule]].tolist()
        assert grammar.rule_links(rule) == [(grammar.number[rule] % 7, 1)]
        node = walk(grammar, grammar.source_side(rule))
        assert grammar.rule_first[node] <= rule < grammar.rule_first[node + 1]
    assert word_child(grammar, 0, UNKNOWN_SYMBOL) == -1
    assert walk(grammar, [99]) == -1
    found = [grammar.source_side(rule) for rule in range(grammar.rules)]
    for word in range(4):
        assert grammar.rules_with(word) == [rule for rule, source in enumerate(found) if word in source]
    for side in itertools.product(range(4), repeat=2):
        assert grammar.has_source_side(side) == (list(side) in found)
    assert not grammar.has_source_side([])


def walk(grammar, symbols: list[int]) -> int:
    node = 0
    for symbol in symbols:
        if node < 0:
            break
        node = word_child(grammar, node, symbol) if symbol >= 0 else gap_child(grammar, node)
    return int(node)


def test_cyclic_rules_are_not_usable() -> None:
    for source in ((), (-1,)):
        columns = to_columns([(("a",), ()), (source, ("x",))], ["a"], ["x"])
        assert is_usable(columns).tolist() == [True, False]
        assert pack(columns, is_usable(columns)).rules == 1


def test_an_empty_grammar_is_allowed() -> None:
    columns = to_columns([], [], [])
    grammar = pack(columns, is_usable(columns))
    assert grammar.rules == 0
    assert walk(grammar, [0]) == -1
    assert gap_child(grammar, 0) == -1
