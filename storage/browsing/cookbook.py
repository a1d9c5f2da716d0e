"""Example queries of docs/sql.md, from `cookbook.sql`: each follows a line with its title."""

from dataclasses import asdict
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, NamedTuple

from hierogram.samplers.grammar.kinds import SOURCE, TWO_SIDES, find_notation
from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.browsing.details import find_competing_rules, find_neighbors
from hierogram.storage.browsing.reader import ReadTransaction, literal
from hierogram.storage.browsing.search import Phrase, UsedRule, most_used_rules
from hierogram.storage.browsing.words import characteristic_words, common_words
from hierogram.storage.schema.views import relations


class Recipe(NamedTuple):
    """A question, and its SQL for both databases."""

    title: str
    sql: str


@cache
def cookbook() -> tuple[Recipe, ...]:
    """Return all queries in order."""
    text = files("hierogram.storage.browsing").joinpath("cookbook.sql").read_text(encoding="utf-8")
    queries = []
    for part in text.split("-- ")[1:]:
        title, _, sql = part.partition("\n")
        queries.append(Recipe(title.strip(), sql.strip()))
    return tuple(queries)


def described_relations() -> list[dict[str, Any]]:
    """Return the tables and views that users can query, with descriptions: those for users first."""
    return [{**asdict(relation), "columns": list(relation.columns)} for relation in relations()]


def fill_cookbook(transaction: ReadTransaction) -> list[Recipe]:
    """Return the queries with the examples replaced by words, rules and pairs of this store.

    The word is characteristic of the texts, the rules are the most used ones that contain it. Examples without a
    counterpart in the store remain.
    """
    recorded = transaction.statements
    transaction.statements = []
    try:
        examples = _find_examples(transaction)
    finally:
        transaction.statements = recorded
    notation = find_notation(transaction.settings().grammar)
    recipes = []
    for title, sql in cookbook():
        if TWO_SIDES not in notation.offers and any(example in sql for example in _OF_TWO_SIDES):
            continue
        for example, value in examples.items():
            title, sql = title.replace(example, value), sql.replace(example, value)
        recipes.append(Recipe(title.replace("pair", notation.one), sql))
    return recipes


def _find_examples(transaction: ReadTransaction) -> dict[str, str]:
    """Return the replacement of each example, as written in the queries."""
    notation = find_notation(transaction.settings().grammar)
    frequent = [word for word, _ in common_words(transaction, SOURCE, _FREQUENT)]
    telling = [word for word, _ in characteristic_words(transaction, _TELLING).get(SOURCE, [])]
    examples: dict[str, str] = {}
    rules: list[UsedRule] = []
    word = ""
    for word in islice([*telling, *frequent], _TELLING):
        if rules := most_used_rules(transaction, Phrase((word,)), SOURCE, _RULES):
            break
    if rules:
        two_sides = TWO_SIDES in notation.offers
        longer = [
            rule for rule in rules if " " in rule.source and all(isinstance(s, str) for s in parse_side(rule.source))
        ]
        rule = (longer or rules)[0] if two_sides else rules[0]
        competing = find_competing_rules(transaction, SOURCE, Phrase((word,)).side(), 1) if two_sides else []
        rendering = competing[0].other if competing else rule.target
        target_words = [symbol for symbol in parse_side(rendering) if isinstance(symbol, str)] if two_sides else []
        examples |= {
            "'la maison'": literal(rule.source),
            "'the house'": literal(rule.target),
            "'% maison %'": literal(f"% {word} %"),
            "'maison'": literal(word),
            "'house'": literal(target_words[-1] if target_words else word),
        }
    for around in frequent if TWO_SIDES in notation.offers else []:
        sides = (parse_side(rule.source) for rule in most_used_rules(transaction, Phrase((around,)), SOURCE, _RULES))
        gapped = [side for side in sides if [type(symbol) for symbol in side] == [str, int, str]]
        if gapped:
            first, _, last = map(str, gapped[0])
            examples |= {
                "ne … pas": f"{first} … {last}",
                "'ne'": literal(first),
                "'pas'": literal(last),
                "'% ne %[X%,_]% pas %'": literal(f"% {first} %[X%,_]% {last} %"),
            }
            break
    _, first_pair = find_neighbors(transaction, 0)
    return examples if first_pair is None else examples | {"pair_id = 1": f"pair_id = {first_pair}"}


_FREQUENT, _TELLING, _RULES = 8, 12, 200
_OF_TWO_SIDES = ("'house'", "'ne'", "[X%,2]")
"""Examples in queries that need rules of two languages."""
