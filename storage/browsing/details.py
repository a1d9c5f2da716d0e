"""Details of a rule or a pair: uses now and before, competing rules, pairs that use a rule, neighbors."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.browsing.search import Phrase
from hierogram.storage.database.transactions import now
from hierogram.storage.grammar.changes import HISTORY_DAYS
from hierogram.storage.pairs import pairs
from hierogram.storage.records.grammar import RuleRow
from hierogram.storage.records.pairs import PairRecord
from hierogram.storage.records.uncertainty import standard_error_sql
from hierogram.storage.schema.tables import corpora, sentence_pairs

_PAIRS_PER_SCAN = 5_000
"""Number of pairs that one call of `likely_supporting_pairs` examines."""


@dataclass(frozen=True, slots=True)
class CompetingRule:
    """Rule with a given side: its other side, its expected uses, and the probability of the other side."""

    id: int
    other: str
    expected_uses: float
    probability: float


def find_rule(transaction: ReadTransaction, source: str, target: str) -> RuleRow | None:
    """Return the rule with these sides, or None if it has no count and no expected uses."""
    rows = transaction.records(
        f"""SELECT r.id, r.source, r.target, r.expected_uses, {standard_error_sql("r.")} AS expected_uses_error,
       r.count, r.length, r.scope, r.nonterminals, r.hiero,
       coalesce(r.expected_uses / NULLIF(
         (SELECT sum(s.expected_uses) FROM rules AS s WHERE s.source = r.source), 0), 0) AS p_target_given_source,
       coalesce(r.expected_uses / NULLIF(
         (SELECT sum(t.expected_uses) FROM rules AS t WHERE t.target = r.target), 0), 0) AS p_source_given_target
  FROM rules AS r
 WHERE r.source = :source AND r.target = :target AND r.count + r.expected_uses > 0""",
        source=source,
        target=target,
    )
    return RuleRow(**rows[0]) if rows else None


def find_competing_rules(transaction: ReadTransaction, side: str, text: str, limit: int) -> list[CompetingRule]:
    """Return up to `limit` rules with expected uses whose `side` is `text`, most used first."""
    other = TARGET if side == SOURCE else SOURCE
    rows = transaction.rows(
        f"""SELECT id, {other}, expected_uses,
       expected_uses / sum(expected_uses) OVER () AS p_{other}_given_{side}
  FROM rules
 WHERE {side} = :side AND expected_uses > 0
 ORDER BY expected_uses DESC, {other}
 LIMIT :limit""",
        side=text,
        limit=limit,
    )
    return [CompetingRule(*row) for row in rows]


def read_rule_history(transaction: ReadTransaction, rule_id: int) -> list[dict[str, Any]]:
    """Return the rule's expected uses at the start of each day with a change, oldest first, for a year."""
    today = now().date()
    # List the days, because the key of the table begins with the day.
    days = ", ".join(f"'{today - timedelta(days=back)}'" for back in range(HISTORY_DAYS + 1))
    transaction.statements.append(
        f"SELECT day, expected_uses\n  FROM rule_history\n WHERE rule_id = {rule_id}\n ORDER BY day"
    )
    return transaction.records(
        f"SELECT day, expected_uses FROM rule_history WHERE rule_id = :rule AND day IN ({days}) ORDER BY day",
        False,
        rule=rule_id,
    )


def indexed_supporting_pairs(transaction: ReadTransaction, rule_id: int, after_id: int, limit: int) -> list[int]:
    """Return sorted ids > `after_id` of pairs whose derivation used the rule when they were indexed."""
    rows = transaction.rows(
        """SELECT pair_id
  FROM rule_pairs
 WHERE rule_id = :rule AND pair_id > :after
 ORDER BY pair_id
 LIMIT :limit""",
        rule=rule_id,
        after=after_id,
        limit=limit,
    )
    return [row[0] for row in rows]


def likely_supporting_pairs(
    transaction: ReadTransaction, rule: tuple[str, str], after_id: int, limit: int
) -> tuple[list[int], int]:
    """Return ids > `after_id` of pairs with the rule's words in order, and the last examined id."""
    conditions, values = [], {}
    for side, text in zip((SOURCE, TARGET), rule, strict=True):
        parts = tuple(symbol if isinstance(symbol, str) else None for symbol in parse_side(text))
        if any(part is not None for part in parts):
            values[side] = Phrase(parts).pattern(transaction.postgres, of_text=True)
            test = f"LIKE :{side} ESCAPE '!'" if transaction.postgres else f"GLOB :{side}"
            conditions.append(f" AND ' ' || {side} || ' ' {test}")
    last = after_id + _PAIRS_PER_SCAN
    rows = transaction.rows(
        f"SELECT id FROM sentence_pairs WHERE id > :after AND id <= :last{''.join(conditions)}"
        " ORDER BY id LIMIT :limit",
        False,
        after=after_id,
        last=last,
        limit=limit,
        **values,
    )
    ids = [row[0] for row in rows]
    return ids, ids[-1] if len(ids) == limit else last


def find_pair(transaction: ReadTransaction, pair_id: int) -> PairRecord | None:
    """Return the pair, or None if it is not stored."""
    transaction.statements.append(f"SELECT *\n  FROM sentence_pairs\n WHERE id = {pair_id}")
    return pairs.find_pair(transaction.connection, pair_id)


_PAIRS_PER_PAGE = 10_000


def find_pairs_by_id_prefix(transaction: ReadTransaction, corpus: str, prefix: str) -> list[PairRecord]:
    """Return the pairs of the corpus with this name whose external ids begin with `prefix`, newest first."""
    external_id = sentence_pairs.c.external_id
    # Compare with a range, because LIKE cannot use an index. The only caller's ids are hexadecimal digests, which sort
    # before "{".
    in_range = (corpora.c.name == corpus) & (external_id >= prefix) & (external_id < prefix + "{")
    return pairs.pair_records(transaction.connection, in_range)[::-1]


def list_pairs(transaction: ReadTransaction, after: int, corpus: str | None, limit: int) -> list[PairRecord]:
    """Return up to `limit` pairs of a corpus, or of all corpora, with ids above `after`, ordered by id."""
    condition = sentence_pairs.c.id > after
    if corpus is not None:
        condition &= corpora.c.name == corpus
    return pairs.pair_records(transaction.connection, condition, limit)


def iterate_pairs(transaction: ReadTransaction, corpus: str | None) -> Iterator[PairRecord]:
    """Yield the pairs of a corpus, or of all corpora if None, ordered by id."""
    after = 0
    while page := list_pairs(transaction, after, corpus, _PAIRS_PER_PAGE):
        yield from page
        after = page[-1].id


def find_neighbors(transaction: ReadTransaction, pair_id: int) -> tuple[int | None, int | None]:
    """Return the ids of the stored pairs before and after `pair_id`, or None at either end."""
    [(before,)] = transaction.rows("SELECT max(id) FROM sentence_pairs WHERE id < :pair", False, pair=pair_id)
    [(after,)] = transaction.rows("SELECT min(id) FROM sentence_pairs WHERE id > :pair", False, pair=pair_id)
    return before, after


def count_uses(
    transaction: ReadTransaction, rules: Collection[tuple[str, str]]
) -> dict[tuple[str, str], tuple[float, int]]:
    """Return the expected uses and the count of each rule. Rules that are not stored are omitted."""
    uses = {}
    for n, (source, target) in enumerate(sorted(rules)):
        row = transaction.row(
            "SELECT expected_uses, count FROM rules WHERE source = :source AND target = :target",
            n == 0,
            source=source,
            target=target,
        )
        if row is not None:
            uses[source, target] = row[0], row[1]
    return uses
