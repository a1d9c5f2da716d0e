"""Search for rules that contain a phrase on one side, one page at a time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from hierogram.samplers.grammar.kinds import FRAGMENTS, SOURCE, TARGET, TWO_SIDES, find_grammar_kind
from hierogram.samplers.grammar.rules import escape_terminal
from hierogram.storage.browsing.reader import ReadTransaction, Value, inline_parameters
from hierogram.storage.grammar.rules import RULE_COLUMNS, select_with_totals, side_totals
from hierogram.storage.options import Option
from hierogram.storage.pairs.vocabulary import VocabularyWord, find_words, fold, readings, spellings
from hierogram.storage.records.grammar import RuleRow

GAP = "_"
"""Placeholder for one or more symbols. A word of the same spelling is typed with a backslash."""

MAX_WORDS = 20


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in order, with None for a gap. A gap matches one or more symbols of a rule or words of a text."""

    parts: tuple[str | None, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Distinct words in the order of first occurrence."""
        return tuple(dict.fromkeys(part for part in self.parts if part is not None))

    @property
    def is_word(self) -> bool:
        """True if the phrase is a single word."""
        return len(self.parts) == 1 and self.parts[0] is not None

    def replace_words(self, words: Mapping[str, str]) -> "Phrase":
        """Return the phrase with each word replaced by its value in `words`, which must have all words."""
        return Phrase(tuple(None if part is None else words[part] for part in self.parts))

    def typed(self) -> str:
        """Return the phrase as a user types it. This is the inverse of `read_phrase`."""
        return " ".join(
            GAP if part is None else f"\\{part}" if part in (GAP, f"\\{GAP}") else part for part in self.parts
        )

    def side(self) -> str:
        """Return the phrase as the side of a rule, without its gaps."""
        return " ".join(escape_terminal(part) for part in self.parts if part is not None)

    def pattern(self, postgres: bool, *, whole_side: bool = False, of_text: bool = False) -> str:
        """Return a pattern for LIKE (escape `!`) or GLOB that matches a side or text with a space at each end."""
        # Use GLOB on SQLite, because LIKE ignores case there.
        anything, mark, special = ("%", "!{}", "%_!") if postgres else ("*", "[{}]", "*?[")
        marks = str.maketrans({sign: mark.format(sign) for sign in special})
        words = (part if part is None or of_text else escape_terminal(part) for part in self.parts)
        pieces = [anything if word is None else word.translate(marks) for word in words]
        inside = f" {' '.join(pieces)} "
        return inside if whole_side else f"{anything}{inside}{anything}"


def read_phrase(typed: str) -> Phrase:
    """Parse up to 2 * `MAX_WORDS` words and gaps. Drops gaps at the ends of the phrase and repeated gaps."""
    parts: list[str | None] = []
    for piece in typed.split()[: 2 * MAX_WORDS]:
        if piece != GAP:
            parts.append(piece[1:] if piece in (f"\\{GAP}", f"\\\\{GAP}") else piece)
        elif parts and parts[-1] is not None:
            parts.append(None)
    while parts and parts[-1] is None:
        parts.pop()
    return Phrase(tuple(parts))


USE, PROBABILITY, SURPRISE = "use", "probability", "surprise"
"""Orders of rules: by expected uses, or by the probability of the other side given the searched side."""
ORDERS = {USE: "most used first", PROBABILITY: "most probable first", SURPRISE: "least probable first"}

PART, WHOLE = "part", "whole"
MATCHES = {PART: "the side contains the phrase", WHOLE: "the side is exactly the phrase"}

_WORD_ID = re.compile(r":(\w*word\d+)_id\b")
_MAX_LABELS = 5_000
_MAX_USES = 1 << 53
"""Limit of `Query.min_count`, up to which a double represents every integer."""

MAX_RANKED = 2_000
"""Maximum number of rules that are sorted by probability. Less used rules are omitted."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """Search options: side, filters and order."""

    side: Annotated[str, Option("Side to search", values={SOURCE: "", TARGET: ""})] = SOURCE
    match: Annotated[str, Option("Match", values=MATCHES)] = PART
    order: Annotated[str, Option("Order", values=ORDERS)] = USE
    min_count: Annotated[
        int | None, Option("Minimum expected uses. The default is 1 if the order is by surprise.", min=0)
    ] = None
    max_scope: Annotated[int | None, Option("Maximum scope.", min=0)] = None
    corpus: Annotated[str | None, Option("Show only rules used by pairs of this corpus.", metavar="NAME")] = None
    limit: Annotated[int, Option("Maximum number of rules.", min=1)] = 20


@dataclass(frozen=True, slots=True)
class UsedRule:
    """Sides and expected uses of a rule."""

    source: str
    target: str
    expected_uses: float


@dataclass(frozen=True, slots=True)
class PagePosition:
    """Last rule of a page. `respelled` is True if the rule contains the phrase in another spelling."""

    probability: float
    uses: float
    id: int
    respelled: bool = False


class RulePage(NamedTuple):
    """Page of rules. `next` is the last rule of this page, or None if no page follows.

    Rules that contain the phrase as typed come first. Rules that contain one of its `readings`, the same words with
    other accents or case, follow. `exact` is True if the vocabulary of the searched side has all words as typed.
    `unknown` lists the words that it has in no spelling, `labels` the names of the tree labels in the phrase. Words of
    withdrawn pairs remain in the vocabulary.
    """

    rules: list[RuleRow]
    next: PagePosition | None
    readings: tuple[Phrase, ...]
    unknown: tuple[str, ...]
    labels: tuple[str, ...]
    exact: bool


def guess_side(transaction: ReadTransaction, phrases: Mapping[str, Phrase]) -> str:
    """Return the side with fewer parts, or if equal, the side whose rarest word is more frequent."""
    fewest = sorted((SOURCE, TARGET), key=lambda side: len(phrases[side].parts))
    if len(phrases[fewest[0]].parts) < len(phrases[fewest[1]].parts):
        return fewest[0]
    words_by_side = find_words(transaction.connection, [word for phrase in phrases.values() for word in phrase.words])
    if not any(all(word in words_by_side[side] for word in phrase.words) for side, phrase in phrases.items()):
        words_by_side = {
            side: {word: found[0] for word, found in _find_spellings(transaction, side, phrase.words).items() if found}
            for side, phrase in phrases.items()
        }

    def rarest(side: str) -> int:
        words = words_by_side[side]
        return min((words[word].count if word in words else 0 for word in phrases[side].words), default=0)

    return TARGET if rarest(TARGET) > rarest(SOURCE) else SOURCE


def phrase_occurs(transaction: ReadTransaction, side: str, phrase: Phrase) -> bool:
    """Check if the phrase has words, and each occurs on a side of some pair with any accents and case."""
    return bool(phrase.words) and all(_find_spellings(transaction, side, phrase.words).values())


def _find_spellings(transaction: ReadTransaction, side: str, words: Sequence[str]) -> dict[str, list[VocabularyWord]]:
    return {word: spellings(transaction.connection, side, word) for word in words}


def search(transaction: ReadTransaction, phrase: Phrase, query: Query, after: PagePosition | None = None) -> RulePage:
    """Return a page of rules that match the query and contain the phrase or one of its readings.

    In a store of trees, the words may be in any order, and a phrase may contain labels. The first label must be the
    root label of the fragments. Other labels may occur anywhere in the fragments. `(NP` is always a label. `NP` is a
    label if the store has a label of this name in any spelling, and the vocabulary does not contain the word.
    """
    state = _Search(transaction, phrase, query)
    rows: list[dict[str, Any]] = []
    if after is None or not after.respelled:
        rows = state.page([phrase], None, after, query.limit + 1)
    exact = len(rows)
    if exact <= query.limit and state.readings:
        last_reading = after if after is not None and after.respelled else None
        rows += state.page(state.readings, phrase, last_reading, query.limit + 1 - exact)
    probabilities = [row.pop("p", 0.0) for row in rows]
    rules = [RuleRow(**row) for row in rows[: query.limit]]
    position = None
    if len(rows) > query.limit:
        last = rules[-1]
        position = PagePosition(
            probabilities[query.limit - 1], last.expected_uses, last.id, respelled=query.limit > exact
        )
    return RulePage(rules, position, tuple(state.readings), state.unknown, tuple(state.labels.values()), state.exact)


def most_used_rules(transaction: ReadTransaction, phrase: Phrase, side: str, limit: int) -> list[UsedRule]:
    """Return the most used rules with the phrase on a side, without probabilities, which take longer."""
    state = _Search(transaction, phrase, Query(side=side), find_readings=False)
    values: dict[str, Value] = {}
    conditions = state.conditions(phrase, "", values)
    if conditions is None:
        return []
    rows = _run(
        transaction,
        f"SELECT r.source, r.target, r.expected_uses\n  FROM {conditions}\n"
        " ORDER BY r.expected_uses DESC, r.id\n LIMIT :limit",
        limit,
        values,
    )
    return [UsedRule(**row) for row in rows]


class _Search:
    """Words, labels and readings of a searched phrase, and the SQL for its rules."""

    def __init__(
        self, transaction: ReadTransaction, phrase: Phrase, query: Query, *, find_readings: bool = True
    ) -> None:
        grammar_kind = find_grammar_kind(transaction.settings().grammar)
        self.transaction, self.query = transaction, query
        self.two_sides = TWO_SIDES in grammar_kind.capabilities
        self.side = query.side if self.two_sides else SOURCE
        self.vocabulary_side = query.side if self.two_sides else grammar_kind.rule_words[0].vocabulary
        self.found_words = find_words(transaction.connection, phrase.words)[self.vocabulary_side]
        self.labels = (
            _find_labels(transaction, phrase, self.found_words) if FRAGMENTS in grammar_kind.capabilities else {}
        )
        words = [word for word in phrase.words if word not in self.labels]
        self.exact = all(word in self.found_words for word in words)
        self.readings: list[Phrase] = []
        self.unknown: tuple[str, ...] = ()
        if not find_readings:
            return
        spellings = _find_spellings(transaction, self.vocabulary_side, words)
        self.unknown = tuple(word for word in words if not spellings[word] and word not in self.found_words)
        side = self.vocabulary_side
        choices = {(side, word): [spelling.token for spelling in found] for word, found in spellings.items()}
        for reading in readings(choices):
            phrase_reading = {word: reading.get((side, word), word) for word in phrase.words}
            self.readings.append(phrase.replace_words(phrase_reading))
        self.found_words |= {word.token: word for candidates in spellings.values() for word in candidates}

    def page(
        self, phrases: Sequence[Phrase], excluded: Phrase | None, after: PagePosition | None, limit: int
    ) -> list[dict[str, Any]]:
        """Return up to `limit` rules after a position that contain one of the `phrases` but not `excluded`."""
        values: dict[str, Value] = {}
        phrase_conditions = [self.conditions(phrase, f"p{n}_" if n else "", values) for n, phrase in enumerate(phrases)]
        known_conditions = [conditions for conditions in phrase_conditions if conditions is not None]
        if not known_conditions:
            return []
        conditions = known_conditions[0]
        if excluded is not None:
            ids = "\n     UNION\n        ".join(f"SELECT r.id FROM {condition}" for condition in known_conditions)
            if (without := self.conditions(excluded, "but_", values)) is not None:
                ids += f"\n    EXCEPT\n        SELECT r.id FROM {without}"
            test = f"= ANY(ARRAY({ids}))" if self.transaction.postgres else f"IN ({ids})"
            conditions = f"rules AS r\n         WHERE r.id {test}"
        if self.query.order == USE:
            statement = _by_use(conditions, after, values)
        else:
            statement = _by_probability(conditions, self.query, self.side, after, values)
        return _run(self.transaction, statement, limit, values)

    def conditions(self, phrase: Phrase, prefix: str, values: dict[str, Value]) -> str | None:
        """Return the SQL after FROM for rules with the phrase, or None if none exists. Adds to `values`."""
        words = [word for word in phrase.words if word not in self.labels]
        if not all(word in self.found_words for word in words) or not (words or self.labels):
            return None
        postgres, query = self.transaction.postgres, self.query
        where: list[str] = []
        if query.match == WHOLE and self.two_sides and None not in phrase.parts:
            values[f"{prefix}side"] = phrase.side()
            source, where = "rules AS r", [f"r.{query.side} = :{prefix}side"]
        elif not words:
            source = "rules AS r"
        else:
            # Start from the rarest word, because it has the fewest rules to filter by the other words.
            source, where = "rule_words AS w JOIN rules AS r ON r.id = w.rule_id", [f"w.word_id = :{prefix}word0_id"]
            if postgres:
                # Use an array, because Postgres then scans the index of ids once instead of searching it for each id.
                ids = f"SELECT w.rule_id FROM rule_words AS w WHERE w.word_id = :{prefix}word0_id"
                source, where = "rules AS r", [f"r.id = ANY(ARRAY({ids}))"]
            for number, word in enumerate(sorted(words, key=lambda word: self.found_words[word].count)):
                values |= {f"{prefix}word{number}": word, f"{prefix}word{number}_id": self.found_words[word].id}
                if number:
                    join_condition = f"v.word_id = :{prefix}word{number}_id AND v.rule_id = r.id"
                    where.append(f"EXISTS (SELECT 1 FROM rule_words AS v WHERE {join_condition})")
            values["vocabulary"] = self.vocabulary_side
            if self.two_sides and (query.match == WHOLE or not phrase.is_word):
                values[f"{prefix}pattern"] = phrase.pattern(postgres, whole_side=query.match == WHOLE)
                test = f"LIKE :{prefix}pattern ESCAPE '!'" if postgres else f"GLOB :{prefix}pattern"
                where.append(f"' ' || r.{query.side} || ' ' {test}")
        for number, label in enumerate(self.labels.values()):
            values[f"label{number}"] = label
            if not number:
                where.append("r.source = :label0")
                continue
            opened = f"'(' || :label{number}"
            where.append(
                f"(replace(r.target, {opened} || ' ', '') <> r.target"
                f" OR replace(r.target, {opened} || ')', '') <> r.target)"
            )
        where += _filters(query, values)
        together = "\n           AND ".join(where)
        return f"{source}\n         WHERE {together}"


def _find_labels(transaction: ReadTransaction, phrase: Phrase, words: Mapping[str, VocabularyWord]) -> dict[str, str]:
    """Map each word of the phrase that is a label, such as `(NP` or `NP`, to the name of the label."""
    labels = {word: word[1:].rstrip(")") for word in phrase.words if word.startswith("(") and len(word) > 1}
    unlabeled = [word for word in phrase.words if word not in labels and word not in words]
    if unlabeled:
        names = {fold(name): name for name in known_labels(transaction)}
        labels |= {word: names[fold(word)] for word in unlabeled if fold(word) in names}
    return {word: labels[word] for word in phrase.words if word in labels}


def known_labels(transaction: ReadTransaction) -> list[str]:
    """Return up to `_MAX_LABELS` labels of a store of trees, in alphabetical order."""
    rows = transaction.rows("SELECT label FROM labels ORDER BY label LIMIT :limit", False, limit=_MAX_LABELS)
    return [row[0] for row in rows]


def _run(transaction: ReadTransaction, statement: str, limit: int, values: dict[str, Value]) -> list[dict[str, Any]]:
    # Run the statement with word ids, so that Postgres can estimate the number of rows. Record it with words.
    records = transaction.records(statement, False, limit=limit, **values)
    named = _WORD_ID.sub(r"(SELECT id FROM vocabulary WHERE token = :\1 AND side = :vocabulary)", statement)
    transaction.statements.append(inline_parameters(named, {**values, "limit": limit}))
    return records


def _filters(query: Query, values: dict[str, Value]) -> list[str]:
    min_count = int(query.order == SURPRISE) if query.min_count is None else query.min_count
    conditions = ["r.expected_uses > 0"]
    if min_count:
        values["min_count"] = min(min_count, _MAX_USES)
        conditions = ["r.expected_uses >= :min_count"]
    if query.max_scope is not None:
        values["scope"] = query.max_scope
        conditions.append("r.scope <= :scope")
    if query.corpus is not None:
        values["corpus"] = query.corpus
        conditions.append(
            "EXISTS (SELECT 1 FROM rule_pairs AS u JOIN sentence_pairs AS p ON p.id = u.pair_id\n"
            "                        JOIN corpora AS c ON c.id = p.corpus_id\n"
            "                WHERE u.rule_id = r.id AND c.name = :corpus)"
        )
    return conditions


def _by_use(conditions: str, after: PagePosition | None, values: dict[str, Value]) -> str:
    if after is not None:
        values |= {"last_uses": after.uses, "last_id": after.id}
        conditions += (
            "\n           AND (r.expected_uses < :last_uses OR (r.expected_uses = :last_uses AND r.id > :last_id))"
        )
    return f"""WITH found AS MATERIALIZED (
        SELECT {RULE_COLUMNS}
          FROM {conditions}
         ORDER BY r.expected_uses DESC, r.id
         LIMIT :limit),
{select_with_totals()}
 ORDER BY f.expected_uses DESC, f.id"""


def _by_probability(
    conditions: str, query: Query, side: str, after: PagePosition | None, values: dict[str, Value]
) -> str:
    order = f"p.p{' DESC' if query.order == PROBABILITY else ''}, p.expected_uses DESC, p.id"
    is_after = ""
    if after is not None:
        values |= {"last_p": after.probability, "last_uses": after.uses, "last_id": after.id}
        sign = "<" if query.order == PROBABILITY else ">"
        is_after = (
            f"\n         WHERE p.p {sign} :last_p OR (p.p = :last_p AND"
            " (p.expected_uses < :last_uses OR (p.expected_uses = :last_uses AND p.id > :last_id)))"
        )
    # Select few columns, because many rules may be sorted.
    return f"""WITH matched AS MATERIALIZED (
        SELECT r.id, r.{side}, r.expected_uses
          FROM {conditions}
         ORDER BY r.expected_uses DESC, r.id
         LIMIT {MAX_RANKED}),
     sides AS MATERIALIZED ({side_totals(side, "matched")}),
     best AS (
        SELECT p.id, p.p
          FROM (SELECT m.id, m.expected_uses, m.expected_uses / s.total AS p
                  FROM matched AS m
                  JOIN sides AS s ON s.{side} = m.{side}) AS p{is_after}
         ORDER BY {order}
         LIMIT :limit),
     found AS MATERIALIZED (
        SELECT {RULE_COLUMNS}, b.p
          FROM best AS b
          JOIN rules AS r ON r.id = b.id),
{select_with_totals(columns=", f.p")}
 ORDER BY {order.replace("p.", "f.")}"""
