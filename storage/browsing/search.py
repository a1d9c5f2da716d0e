"""Rules that hold a phrase on a side, a page at a time, in the order that a person wants."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, Notation, notation_of
from hierogram.storage.browsing.phrases import Phrase
from hierogram.storage.browsing.reader import Look, Value
from hierogram.storage.options import Option

USE, PROBABILITY, SURPRISE = "use", "probability", "surprise"
ORDERS = {USE: "most used first", PROBABILITY: "most probable first", SURPRISE: "least probable first"}

PART, WHOLE = "part", "whole"
MATCHES = {PART: "the rule holds the phrase", WHOLE: "the side is the phrase and nothing else"}

LONGEST_QUERY = 10_000

_COLUMNS = "id, source, target, count, sampled_count, length, scope, nonterminals, hiero"


@dataclass(frozen=True, kw_only=True)
class Query:
    """What rules to find: the phrase on a side, filters, and the order."""

    side: Annotated[str, Option("Side of the rule", values={SOURCE: "", TARGET: ""})] = SOURCE
    match: Annotated[str, Option("What matches", values=MATCHES)] = PART
    order: Annotated[str, Option("Order", values=ORDERS)] = USE
    min_count: Annotated[int, Option("Uses of the rule, at least.", least=1)] = 1
    max_scope: Annotated[int | None, Option("Scope of the rule, at most.", least=0)] = None
    corpus: Annotated[str | None, Option("Only rules that pairs of this corpus use.", metavar="NAME")] = None
    limit: Annotated[int, Option("Rules to show, at most.", least=1)] = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that was found, with what its sides say of each other."""

    id: int
    source: str
    target: str
    count: int
    sampled_count: int
    length: int
    scope: int
    nonterminals: int
    hiero: bool
    p_target_given_source: float
    p_source_given_target: float


@dataclass(frozen=True, slots=True)
class Used:
    """A rule by its sides, and its uses."""

    source: str
    target: str
    count: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of answers ended: the last rule's probability (0 where it does not order), count and id."""

    probability: float
    count: int
    id: int


class Answer(NamedTuple):
    """A page of rules, and where the next page begins (None: there is none)."""

    rules: list[Found]
    next: Place | None


def word_counts(look: Look, phrase: Phrase) -> dict[str, dict[str, int]]:
    """How often each word of the phrase occurs in stored pairs, by side; words that no pair has are left out."""
    words = phrase.words
    if not words:
        return {}
    names = {f"word{n}": word for n, word in enumerate(words)}
    found = look.rows(
        f"SELECT token, side, count FROM vocabulary WHERE token IN ({', '.join(f':{name}' for name in names)})",
        False,
        **names,
    )
    counts: dict[str, dict[str, int]] = {}
    for token, side, count in found:
        counts.setdefault(side, {})[token] = count
    return counts


def likely_side(counts: dict[str, dict[str, int]], phrase: Phrase) -> str:
    """The side on which all of the phrase's words occur, the one where its rarest word is more frequent."""

    def rarest(side: str) -> int:
        return min((counts.get(side, {}).get(word, 0) for word in phrase.words), default=0)

    return TARGET if rarest(TARGET) > rarest(SOURCE) else SOURCE


def search(look: Look, phrase: Phrase, query: Query, after: Place | None = None) -> Answer:
    """Rules in use that hold the phrase on the query's side, and meet its filters."""
    notation = notation_of(look.settings().grammar)
    counts = word_counts(look, phrase)
    conditions, values = _conditions(look, phrase, query, counts, notation)
    if conditions is None:
        return Answer([], None)
    side = query.side if TWO_SIDES in notation.offers else SOURCE
    if query.order == USE:
        statement = _by_use(conditions, _after_use(after, values))
    else:
        filters = " AND ".join(_filters(query, "m", values)) + _after_probability(after, query, values)
        statement = _by_probability(conditions, query, side, filters)
    rows = look.rows(statement, most=query.limit + 1, **values)
    rules = [Found(*row[:11]) for row in rows[: query.limit]]
    if len(rows) <= query.limit:
        return Answer(rules, None)
    last = rules[-1]
    ordering = 0.0 if query.order == USE else float(rows[query.limit - 1][11])
    return Answer(rules, Place(ordering, last.count, last.id))


def most_used(look: Look, phrase: Phrase, side: str, limit: int) -> list[Used]:
    """The most used rules that hold the phrase on a side, without their probabilities, which take their time."""
    notation = notation_of(look.settings().grammar)
    query = Query(side=side)
    conditions, values = _conditions(look, phrase, query, word_counts(look, phrase), notation)
    if conditions is None:
        return []
    rows = look.rows(
        f"SELECT r.source, r.target, r.count\n          FROM {conditions}\n         ORDER BY r.count DESC, r.id\n"
        "         LIMIT :most",
        most=limit,
        **values,
    )
    return [Used(*row) for row in rows]


def _conditions(
    look: Look, phrase: Phrase, query: Query, counts: dict[str, dict[str, int]], notation: Notation
) -> tuple[str | None, dict[str, Value]]:
    """FROM and WHERE of the rules that match; None where no rule can."""
    values: dict[str, Value] = {}
    two_sides = TWO_SIDES in notation.offers
    vocabulary = query.side if two_sides else notation.rule_words[0].vocabulary
    known = counts.get(vocabulary, {})
    words = sorted(phrase.words, key=lambda word: known.get(word, 0))
    if not words or any(word not in known for word in words):
        return None, values
    if query.match == WHOLE and two_sides and not phrase.has_gap:
        values["side"] = phrase.side()
        source, where = "rules AS r", [f"r.{query.side} = :side"]
    else:
        # The rarest word finds the rules, the others only test them.
        source, where = "rule_words AS w JOIN rules AS r ON r.id = w.rule_id", [f"w.word_id = {_word('word0')}"]
        for number, word in enumerate(words):
            values[f"word{number}"] = word
            if number:
                held = f"SELECT 1 FROM rule_words AS v WHERE v.word_id = {_word(f'word{number}')} AND v.rule_id = r.id"
                where.append(f"EXISTS ({held})")
        values["vocabulary"] = vocabulary
        if two_sides and (query.match == WHOLE or not phrase.is_word):
            values["pattern"] = phrase.pattern(look.postgres, whole=query.match == WHOLE)
            test = "LIKE :pattern ESCAPE '!'" if look.postgres else "GLOB :pattern"
            where.append(f"' ' || r.{query.side} || ' ' {test}")
    if query.max_scope is not None:
        values["scope"] = query.max_scope
        where.append("r.scope <= :scope")
    if query.order == USE:
        where += _filters(query, "r", values)
    else:
        where.append("r.count > 0")
    together = "\n           AND ".join(where)
    return f"{source}\n         WHERE {together}", values


def _word(name: str) -> str:
    return f"(SELECT id FROM vocabulary WHERE token = :{name} AND side = :vocabulary)"


def _filters(query: Query, rule: str, values: dict[str, Value]) -> list[str]:
    """The filters that do not depend on the side with the phrase."""
    values["fewest"] = query.min_count
    found = [f"{rule}.count >= :fewest"]
    if query.corpus is not None:
        values["corpus"] = query.corpus
        found.append(
            f"EXISTS (SELECT 1 FROM rule_pairs AS u JOIN sentence_pairs AS p ON p.id = u.pair_id\n"
            f"                        JOIN corpora AS c ON c.id = p.corpus_id\n"
            f"                WHERE u.rule_id = {rule}.id AND c.name = :corpus)"
        )
    return found


def _after_use(after: Place | None, values: dict[str, Value]) -> str:
    if after is None:
        return ""
    values |= {"last_count": after.count, "last_id": after.id}
    return "\n           AND (r.count < :last_count OR (r.count = :last_count AND r.id > :last_id))"


def _by_use(conditions: str, after: str) -> str:
    columns = ", ".join(f"r.{column}" for column in _COLUMNS.split(", "))
    return f"""WITH found AS (
        SELECT {columns}
          FROM {conditions}{after}
         ORDER BY r.count DESC, r.id
         LIMIT :most)
{_with_totals("")}
 ORDER BY f.count DESC, f.id"""


def _after_probability(after: Place | None, query: Query, values: dict[str, Value]) -> str:
    if after is None:
        return ""
    values |= {"last_p": after.probability, "last_count": after.count, "last_id": after.id}
    sign = "<" if query.order == PROBABILITY else ">"
    return (
        f" AND (m.p {sign} :last_p OR (m.p = :last_p AND"
        " (m.count < :last_count OR (m.count = :last_count AND m.id > :last_id))))"
    )


def _by_probability(conditions: str, query: Query, side: str, filters: str) -> str:
    order = f"m.p{' DESC' if query.order == PROBABILITY else ''}, m.count DESC, m.id"
    columns = ", ".join(f"r.{column}" for column in _COLUMNS.split(", "))
    # All rules with this side match, since that depends on the side alone: so the sum is the side's. Few columns, since
    # there may be many rules to be sorted.
    return f"""WITH matched AS (
        SELECT r.id, r.count, CAST(r.count AS DOUBLE PRECISION) / sum(r.count) OVER (PARTITION BY r.{side}) AS p
          FROM {conditions}),
     best AS (
        SELECT m.id, m.p
          FROM matched AS m
         WHERE {filters}
         ORDER BY {order}
         LIMIT :most),
     found AS (
        SELECT {columns}, b.p
          FROM best AS b
          JOIN rules AS r ON r.id = b.id)
{_with_totals(", f.p")}
 ORDER BY {order.replace("m.", "f.")}"""


def _with_totals(more: str) -> str:
    """The rules of `found` with both probabilities; each side's uses are summed once."""
    return f"""SELECT {", ".join(f"f.{column}" for column in _COLUMNS.split(", "))},
       CAST(f.count AS DOUBLE PRECISION) / s.total AS p_target_given_source,
       CAST(f.count AS DOUBLE PRECISION) / t.total AS p_source_given_target{more}
  FROM found AS f
  JOIN (SELECT d.source, (SELECT sum(r.count) FROM rules AS r WHERE r.source = d.source) AS total
          FROM (SELECT DISTINCT source FROM found) AS d) AS s ON s.source = f.source
  JOIN (SELECT d.target, (SELECT sum(r.count) FROM rules AS r WHERE r.target = d.target) AS total
          FROM (SELECT DISTINCT target FROM found) AS d) AS t ON t.target = f.target"""
