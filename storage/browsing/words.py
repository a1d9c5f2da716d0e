"""A word looked at: how often it occurs, with which other words, and where."""

from collections import defaultdict
from collections.abc import Sequence
from heapq import nlargest
from math import log2
from operator import itemgetter
from typing import NamedTuple

from hierogram.samplers.grammar.kinds import SOURCE, notation_of
from hierogram.storage.browsing.reader import Look
from hierogram.storage.browsing.search import Used

SAMPLED_PAIRS = 3_000
"""Pairs that are looked at to see where a word occurs, spread evenly over all."""
_PAIRS_A_RENDERING = 500
_MOST_COLLOCATES = 100
_FIRST_WORDS = 2_000


class Collocate(NamedTuple):
    """A word that stands in rules together with another one: expected uses of these rules, and logDice."""

    token: str
    uses: float
    score: float


class Share(NamedTuple):
    """Of the pairs that were looked at in a corpus and a month (YYYY-MM), how many hold the word."""

    corpus: str
    month: str
    pairs: int
    holding: int


class CorpusUses(NamedTuple):
    """Uses of a rule by pairs of a corpus, of the first pairs that use it."""

    rule_id: int
    corpus: str
    uses: int


def word_count(look: Look, side: str, token: str) -> int | None:
    """How often the word occurs in stored pairs; None where it never has."""
    row = look.row(
        "SELECT count FROM vocabulary WHERE token = :token AND side = :side", side=side, token=token
    )  # fmt: skip
    return None if row is None else int(row[0])


def collocates(look: Look, side: str, token: str, rules: Sequence[Used], limit: int) -> list[Collocate]:
    """Words that stand on the same side of these rules as the word, by logDice, the strongest first.

    logDice = 14 + log₂(2·f(x, y) / (f(x) + f(y))), where f(x, y) are the rules' expected uses, the others counts in all
    pairs.
    """
    notation = notation_of(look.settings().grammar)
    together: defaultdict[str, float] = defaultdict(float)
    for rule in rules:
        words = {word for where, word in notation.words_of_rule(rule.source, rule.target) if where == side}
        for word in words - {token}:
            together[word] += rule.mean
    chosen = dict(nlargest(_MOST_COLLOCATES, together.items(), key=itemgetter(1)))
    if not chosen:
        return []
    names = {f"word{n}": word for n, word in enumerate([token, *chosen])}
    counts: dict[str, int] = {
        row[0]: row[1]
        for row in look.rows(
            f"SELECT token, count FROM vocabulary WHERE side = :side AND token IN "
            f"({', '.join(f':{name}' for name in names)})",
            False,
            side=side,
            **names,
        )
    }
    found = [
        Collocate(word, uses, 14 + log2(2 * uses / max(counts.get(token, 0) + counts.get(word, 0), 2 * uses)))
        for word, uses in chosen.items()
    ]
    return sorted(found, key=lambda entry: (-entry.score, -entry.uses, entry.token))[:limit]


def dispersion(look: Look, side: str, token: str) -> list[Share]:
    """Where the word occurs, of some thousand pairs that are spread evenly over all."""
    last = look.row("SELECT last_pair_id FROM store_state", False)
    step = max(1, -(-(last[0] if last else 0) // SAMPLED_PAIRS))
    column = side if side == SOURCE or len(notation_of(look.settings().grammar).pair_words) > 1 else SOURCE
    month = (
        "to_char(p.added_at AT TIME ZONE 'UTC', 'YYYY-MM')" if look.postgres else "strftime('%Y-%m', p.added_at)"
    )  # fmt: skip
    # Not LIKE: SQLite's does not tell capital letters from others.
    held = f"replace(' ' || p.{column} || ' ', :word, '') <> ' ' || p.{column} || ' '"
    rows = look.rows(
        f"""WITH RECURSIVE sampled(id) AS (
        SELECT 1
     UNION ALL
        SELECT id + :step FROM sampled WHERE id + :step <= (SELECT last_pair_id FROM store_state))
SELECT c.name, {month} AS month, count(*) AS pairs, sum(CASE WHEN {held} THEN 1 ELSE 0 END) AS holding
  FROM sampled AS s
  JOIN sentence_pairs AS p ON p.id = s.id
  JOIN corpora AS c ON c.id = p.corpus_id
 GROUP BY c.name, {month}
 ORDER BY c.name, month""",
        step=step,
        word=f" {token} ",
    )
    return [Share(*row) for row in rows]


def uses_by_corpus(look: Look, rule_ids: Sequence[int]) -> list[CorpusUses]:
    """How often pairs of each corpus use each of the rules, of the first pairs that were indexed as its users."""
    if not rule_ids:
        return []
    first = "\n     UNION ALL\n".join(
        f"        SELECT * FROM (SELECT rule_id, pair_id, uses FROM rule_pairs WHERE rule_id = {int(rule)} "
        f"ORDER BY pair_id LIMIT {_PAIRS_A_RENDERING}) AS u{n}"
        for n, rule in enumerate(rule_ids)
    )
    rows = look.rows(
        f"""WITH users AS (
{first})
SELECT u.rule_id, c.name AS corpus, CAST(sum(u.uses) AS BIGINT) AS uses
  FROM users AS u
  JOIN sentence_pairs AS p ON p.id = u.pair_id
  JOIN corpora AS c ON c.id = p.corpus_id
 GROUP BY u.rule_id, c.name
 ORDER BY c.name, uses DESC"""
    )
    return [CorpusUses(*row) for row in rows]


def common_words(look: Look, side: str, limit: int) -> list[tuple[str, int]]:
    """Frequent words of a side, of those that came first into the store."""
    rows = look.rows(
        """SELECT token, count
  FROM (SELECT token, count FROM vocabulary WHERE side = :side ORDER BY id LIMIT :first) AS f
 WHERE count > 0
 ORDER BY count DESC, token
 LIMIT :most""",
        side=side,
        first=_FIRST_WORDS,
        most=limit,
    )
    return [(row[0], row[1]) for row in rows]
