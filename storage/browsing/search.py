"""Rules that hold a phrase on a side, a page at a time, in the order that a person wants."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, Notation, notation_of
from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.browsing.phrases import Phrase
from hierogram.storage.browsing.reader import Look, Value, readable
from hierogram.storage.options import Option

USE, PROBABILITY, SURPRISE = "use", "probability", "surprise"
ORDERS = {USE: "most used first", PROBABILITY: "most probable first", SURPRISE: "least probable first"}

PART, WHOLE = "part", "whole"
MATCHES = {PART: "the rule holds the phrase", WHOLE: "the side is the phrase and nothing else"}

_WORD_ID = re.compile(r":(word\d+)_id\b")

MOST_RANKED = 2_000
"""Rules, the most used of those that match, that are ordered by their probability."""

MEAN = f"CAST({{0}}.sampled_count AS DOUBLE PRECISION) / {ONE_USE}"
ERROR = f"sqrt(CAST({{0}}.sampled_variance AS DOUBLE PRECISION)) / {ONE_USE}"
"""How often a rule is expected to be used, and the standard error of that; of the table of rules by the name put in."""

_COLUMNS = "id, source, target, count, sampled_count, sampled_variance, length, scope, nonterminals, hiero"


@dataclass(frozen=True, kw_only=True)
class Query:
    """What rules to find: the phrase on a side, filters, and the order."""

    side: Annotated[str, Option("Side of the rule", values={SOURCE: "", TARGET: ""})] = SOURCE
    match: Annotated[str, Option("What matches", values=MATCHES)] = PART
    order: Annotated[str, Option("Order", values=ORDERS)] = USE
    min_count: Annotated[
        int | None, Option("Expected uses of the rule, at least; by surprise 1 unless told otherwise.", least=0)
    ] = None
    max_scope: Annotated[int | None, Option("Scope of the rule, at most.", least=0)] = None
    corpus: Annotated[str | None, Option("Only rules that pairs of this corpus use.", metavar="NAME")] = None
    limit: Annotated[int, Option("Rules to show, at most.", least=1)] = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that was found, with what its sides say of each other.

    `mean` is how often it is expected to be used, `mean_error` the standard error of that, `count` how often present
    derivations use it. The probabilities are those of the expected uses.
    """

    id: int
    source: str
    target: str
    mean: float
    mean_error: float
    count: int
    length: int
    scope: int
    nonterminals: int
    hiero: bool
    p_target_given_source: float
    p_source_given_target: float


@dataclass(frozen=True, slots=True)
class Used:
    """A rule by its sides, and how often it is expected to be used."""

    source: str
    target: str
    mean: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of answers ended: the last rule's probability (0 where it does not order), expected uses in units of
    1/`ONE_USE`, and id.
    """

    probability: float
    uses: int
    id: int


class Answer(NamedTuple):
    """A page of rules, and where the next page begins (None: there is none)."""

    rules: list[Found]
    next: Place | None


@dataclass(frozen=True, slots=True)
class KnownWord:
    """A word of the vocabulary: its id, and how often it occurs in stored pairs."""

    id: int
    count: int


Known = Mapping[str, Mapping[str, KnownWord]]
"""Words of a phrase that the store knows, by side."""


def known_words(look: Look, phrase: Phrase) -> Known:
    """The words of the phrase that occur in stored pairs, by side."""
    words = phrase.words
    if not words:
        return {}
    names = {f"word{n}": word for n, word in enumerate(words)}
    found = look.rows(
        f"SELECT token, side, id, count FROM vocabulary WHERE token IN ({', '.join(f':{name}' for name in names)})",
        False,
        **names,
    )
    known: dict[str, dict[str, KnownWord]] = {}
    for token, side, word_id, count in found:
        known.setdefault(side, {})[token] = KnownWord(word_id, count)
    return known


def likely_side(known: Known, phrase: Phrase) -> str:
    """The side on which all of the phrase's words occur, the one where its rarest word is more frequent."""

    def rarest(side: str) -> int:
        words = known.get(side, {})
        return min((words[word].count if word in words else 0 for word in phrase.words), default=0)

    return TARGET if rarest(TARGET) > rarest(SOURCE) else SOURCE


def search(look: Look, phrase: Phrase, query: Query, after: Place | None = None) -> Answer:
    """Rules that are expected to be used, hold the phrase on the query's side, and meet its filters."""
    notation = notation_of(look.settings().grammar)
    values: dict[str, Value] = {}
    conditions = _conditions(phrase, query, _Words(look, phrase, query, notation), values)
    if conditions is None:
        return Answer([], None)
    side = query.side if TWO_SIDES in notation.offers else SOURCE
    if query.order == USE:
        statement = _by_use(conditions + _after_use(after, values))
    else:
        statement = _by_probability(conditions, query, side, _after_probability(after, query, values))
    rows = _ask(look, statement, query.limit + 1, values)
    rules = [Found(*row[:12]) for row in rows[: query.limit]]
    if len(rows) <= query.limit:
        return Answer(rules, None)
    last = rows[query.limit - 1]
    return Answer(rules, Place(0.0 if query.order == USE else float(last[13]), int(last[12]), int(last[0])))


def most_used(look: Look, phrase: Phrase, side: str, limit: int) -> list[Used]:
    """The most used rules that hold the phrase on a side, without their probabilities, which take their time."""
    notation = notation_of(look.settings().grammar)
    values: dict[str, Value] = {}
    query = Query(side=side)
    conditions = _conditions(phrase, query, _Words(look, phrase, query, notation), values)
    if conditions is None:
        return []
    rows = _ask(
        look,
        f"SELECT r.source, r.target, {MEAN.format('r')} AS mean\n  FROM {conditions}\n"
        " ORDER BY r.sampled_count DESC, r.id\n LIMIT :most",
        limit,
        values,
    )
    return [Used(*row) for row in rows]


class _Words:
    """What the conditions of a search are made from: the words that the phrase holds, of the side where they are."""

    def __init__(self, look: Look, phrase: Phrase, query: Query, notation: Notation) -> None:
        self.postgres = look.postgres
        self.two_sides = TWO_SIDES in notation.offers
        self.side = query.side if self.two_sides else notation.rule_words[0].vocabulary
        known = known_words(look, phrase).get(self.side, {})
        self.all_known = bool(phrase.words) and all(word in known for word in phrase.words)
        self.rarest_first = sorted(((word, known[word]) for word in phrase.words if word in known), key=_frequency)


def _frequency(word: tuple[str, KnownWord]) -> int:
    return word[1].count


def _ask(look: Look, statement: str, most: int, values: dict[str, Value]) -> list[tuple[Any, ...]]:
    """What the statement finds. It is asked with the ids of words, since Postgres knows how many rules these have; what
    is shown has the words.
    """
    found = look.rows(statement, False, most=most, **values)
    named = _WORD_ID.sub(r"(SELECT id FROM vocabulary WHERE token = :\1 AND side = :vocabulary)", statement)
    look.asked.append(readable(named, {**values, "most": most}))
    return found


def _conditions(phrase: Phrase, query: Query, words: _Words, values: dict[str, Value]) -> str | None:
    """FROM and WHERE of the rules that match, and the values in them; None where no rule can."""
    if not words.all_known:
        return None
    if query.match == WHOLE and words.two_sides and not phrase.has_gap:
        values["side"] = phrase.side()
        source, where = "rules AS r", [f"r.{query.side} = :side"]
    else:
        # The rarest word finds the rules, the others only test them.
        source, where = "rule_words AS w JOIN rules AS r ON r.id = w.rule_id", ["w.word_id = :word0_id"]
        if words.postgres:
            # As an array: Postgres reads the index of ids once, from page to page, and not from its root each time.
            ids = "SELECT w.rule_id FROM rule_words AS w WHERE w.word_id = :word0_id"
            source, where = "rules AS r", [f"r.id = ANY(ARRAY({ids}))"]
        for number, (word, known) in enumerate(words.rarest_first):
            values |= {f"word{number}": word, f"word{number}_id": known.id}
            if number:
                held = f"SELECT 1 FROM rule_words AS v WHERE v.word_id = :word{number}_id AND v.rule_id = r.id"
                where.append(f"EXISTS ({held})")
        values["vocabulary"] = words.side
        if words.two_sides and (query.match == WHOLE or not phrase.is_word):
            values["pattern"] = phrase.pattern(words.postgres, whole=query.match == WHOLE)
            test = "LIKE :pattern ESCAPE '!'" if words.postgres else "GLOB :pattern"
            where.append(f"' ' || r.{query.side} || ' ' {test}")
    where += _filters(query, values)
    together = "\n           AND ".join(where)
    return f"{source}\n         WHERE {together}"


def _filters(query: Query, values: dict[str, Value]) -> list[str]:
    fewest = int(query.order == SURPRISE) if query.min_count is None else query.min_count
    values["fewest"] = max(1, fewest * ONE_USE)
    found = ["r.sampled_count >= :fewest"]
    if query.max_scope is not None:
        values["scope"] = query.max_scope
        found.append("r.scope <= :scope")
    if query.corpus is not None:
        values["corpus"] = query.corpus
        found.append(
            "EXISTS (SELECT 1 FROM rule_pairs AS u JOIN sentence_pairs AS p ON p.id = u.pair_id\n"
            "                        JOIN corpora AS c ON c.id = p.corpus_id\n"
            "                WHERE u.rule_id = r.id AND c.name = :corpus)"
        )
    return found


def _after_use(after: Place | None, values: dict[str, Value]) -> str:
    if after is None:
        return ""
    values |= {"last_uses": after.uses, "last_id": after.id}
    return "\n           AND (r.sampled_count < :last_uses OR (r.sampled_count = :last_uses AND r.id > :last_id))"


def _by_use(conditions: str) -> str:
    return f"""WITH found AS MATERIALIZED (
        SELECT {_columns("r")}
          FROM {conditions}
         ORDER BY r.sampled_count DESC, r.id
         LIMIT :most),
{_with_totals("")}
 ORDER BY f.sampled_count DESC, f.id"""


def _after_probability(after: Place | None, query: Query, values: dict[str, Value]) -> str:
    if after is None:
        return ""
    values |= {"last_p": after.probability, "last_uses": after.uses, "last_id": after.id}
    sign = "<" if query.order == PROBABILITY else ">"
    return (
        f"\n         WHERE p.p {sign} :last_p OR (p.p = :last_p AND"
        " (p.sampled_count < :last_uses OR (p.sampled_count = :last_uses AND p.id > :last_id)))"
    )


def _by_probability(conditions: str, query: Query, side: str, after: str) -> str:
    order = f"p.p{' DESC' if query.order == PROBABILITY else ''}, p.sampled_count DESC, p.id"
    # Few columns, since there may be many rules to be ordered.
    return f"""WITH matched AS MATERIALIZED (
        SELECT r.id, r.{side}, r.sampled_count
          FROM {conditions}
         ORDER BY r.sampled_count DESC, r.id
         LIMIT {MOST_RANKED}),
     sides AS MATERIALIZED ({_totals(side, "matched")}),
     best AS (
        SELECT p.id, p.p
          FROM (SELECT m.id, m.sampled_count, CAST(m.sampled_count AS DOUBLE PRECISION) / s.total AS p
                  FROM matched AS m
                  JOIN sides AS s ON s.{side} = m.{side}) AS p{after}
         ORDER BY {order}
         LIMIT :most),
     found AS MATERIALIZED (
        SELECT {_columns("r")}, b.p
          FROM best AS b
          JOIN rules AS r ON r.id = b.id),
{_with_totals(", f.p")}
 ORDER BY {order.replace("p.", "f.")}"""


def _totals(side: str, of: str) -> str:
    """The expected uses of all rules with each of the sides, each summed once, which databases have to be told."""
    return f"""
        SELECT d.{side}, (SELECT sum(r.sampled_count) FROM rules AS r WHERE r.{side} = d.{side}) AS total
          FROM (SELECT DISTINCT {side} FROM {of}) AS d"""


def _columns(rule: str) -> str:
    return ", ".join(f"{rule}.{column}" for column in _COLUMNS.split(", "))


def _with_totals(more: str) -> str:
    """The rules of `found` with both probabilities."""
    return f"""     sources AS MATERIALIZED ({_totals(SOURCE, "found")}),
     targets AS MATERIALIZED ({_totals(TARGET, "found")})
SELECT f.id, f.source, f.target, {MEAN.format("f")} AS mean,
       {ERROR.format("f")} AS mean_error,
       f.count, f.length, f.scope, f.nonterminals, f.hiero,
       CAST(f.sampled_count AS DOUBLE PRECISION) / s.total AS p_target_given_source,
       CAST(f.sampled_count AS DOUBLE PRECISION) / t.total AS p_source_given_target, f.sampled_count{more}
  FROM found AS f
  JOIN sources AS s ON s.source = f.source
  JOIN targets AS t ON t.target = f.target"""
