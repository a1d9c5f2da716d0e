"""Details of a word: count, collocates, distribution by corpus and month, and pairs with the word."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nlargest
from math import log2, sqrt
from operator import itemgetter
from typing import NamedTuple

from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, find_grammar_kind
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.browsing.search import UsedRule
from hierogram.storage.browsing.similar_pairs import read_postings
from hierogram.storage.pairs.pair_index import POSITION_BITS, decode_pairs
from hierogram.storage.pairs.pairs import pairs_by_id
from hierogram.storage.pairs.vocabulary import find_words
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.parts import PART_MARK, is_part

SAMPLED_PAIRS = 10_000
"""Maximum number of pairs read for a word's distribution, evenly spaced in a larger store."""
_MAX_COLLOCATES = 100
_LATEST_PAIRS = 20_000
"""Number of the newest pairs that are searched for a word without an index."""
_LATEST_AT_ONCE = 2_000
_BLOCKS_AT_ONCE = 16


class Collocate(NamedTuple):
    """Word that occurs in rules together with another word: expected uses of these rules, and logDice."""

    token: str
    uses: float
    score: float


class CorpusMonth(NamedTuple):
    """Number of pairs in a corpus and month (YYYY-MM), in total and with the word. May be estimates."""

    corpus: str
    month: str
    pairs: int
    pairs_with_word: int


def count_word(transaction: ReadTransaction, side: str, token: str) -> int | None:
    """Return the count of a word (of pairs with it in a store of word parts), or None if not stored."""
    if transaction.settings().word_parts:
        condition = _contains_word_sql(transaction, side)
        statement = f"SELECT count(*) FROM sentence_pairs AS p WHERE {condition}"
        [(count,)] = transaction.rows(statement, word=_attach_parts(token))
        return count or None
    row = transaction.row(
        "SELECT count FROM vocabulary WHERE token = :token AND side = :side", side=side, token=token
    )  # fmt: skip
    return None if row is None else int(row[0])


def find_collocates(
    transaction: ReadTransaction, side: str, token: str, rules: Sequence[UsedRule], limit: int
) -> list[Collocate]:
    """Return whole words on the same side of these rules as the word, by descending logDice.

    logDice = 14 + log₂(2·f(x, y) / (f(x) + f(y))), at most 14. f(x, y) are expected uses of rules, f(x) word counts.
    """
    grammar_kind = find_grammar_kind(transaction.settings().grammar)
    uses_by_word: defaultdict[str, float] = defaultdict(float)
    for rule in rules:
        words = {word for where, word in grammar_kind.words_of_rule(rule.source, rule.target) if where == side}
        for word in words - {token}:
            if not is_part(word):
                uses_by_word[word] += rule.expected_uses
    most_used = dict(nlargest(_MAX_COLLOCATES, uses_by_word.items(), key=itemgetter(1)))
    if not most_used:
        return []
    found = find_words(transaction.connection, [token, *most_used])[side]
    counts = Counter({word: word_row.count for word, word_row in found.items()})
    collocates = [
        Collocate(word, uses, 14 + log2(2 * uses / max(counts[token] + counts[word], 2 * uses)))
        for word, uses in most_used.items()
    ]
    return sorted(collocates, key=lambda entry: (-entry.score, -entry.uses, entry.token))[:limit]


class CorpusDistribution(NamedTuple):
    """Distribution of a word by corpus and month.

    `pairs_with_word` is the number of pairs that contain the word, with the standard error `error` (0 if exact).
    `complete` is True if all pairs were read.
    """

    shares: list[CorpusMonth]
    pairs_read: int
    complete: bool
    pairs_with_word: int
    error: float


def find_distribution(transaction: ReadTransaction, side: str, token: str) -> CorpusDistribution:
    """Return the distribution of a word on a side. Reads up to `SAMPLED_PAIRS` evenly spaced pairs."""
    state = transaction.state()
    last, stored = state.last_pair_id, sum(state.pairs().values())
    sample_size = min(last, SAMPLED_PAIRS)
    month = (
        "to_char(p.added_at AT TIME ZONE 'UTC', 'YYYY-MM')" if transaction.postgres else "strftime('%Y-%m', p.added_at)"
    )  # fmt: skip
    contains_word = _contains_word_sql(transaction, side)
    rows = transaction.rows(
        f"""WITH RECURSIVE sampled(n) AS (
        SELECT CAST(0 AS BIGINT)
     UNION ALL
        SELECT n + 1 FROM sampled WHERE n + 1 < :sampled)
SELECT c.name, {month} AS month, count(*) AS pairs, sum(CASE WHEN {contains_word} THEN 1 ELSE 0 END) AS pairs_with_word
  FROM sampled AS s
  JOIN sentence_pairs AS p ON p.id = 1 + s.n * :last / :sampled
  JOIN corpora AS c ON c.id = p.corpus_id
 GROUP BY c.name, {month}
 ORDER BY c.name, month""",
        last=last,
        sampled=max(1, sample_size),
        word=_attach_parts(token),
    )
    shares = [CorpusMonth(*row) for row in rows]
    pairs_read, found_pairs = sum(share.pairs for share in shares), sum(share.pairs_with_word for share in shares)
    if sample_size == last or not pairs_read:
        return CorpusDistribution(shares, pairs_read, True, found_pairs, 0.0)
    proportion, exact_count = found_pairs / pairs_read, _count_pairs_with(transaction, side, token, last)
    error = stored * sqrt(proportion * (1 - proportion) / pairs_read * max(0.0, 1 - pairs_read / max(stored, 1)))
    pairs_with_word = round(proportion * stored) if exact_count is None else exact_count
    pair_scale, word_scale = stored / pairs_read, pairs_with_word / max(1, found_pairs)
    estimated = [
        share._replace(pairs=pairs, pairs_with_word=min(pairs, round(share.pairs_with_word * word_scale)))
        for share in shares
        for pairs in [round(share.pairs * pair_scale)]
    ]
    return CorpusDistribution(estimated, pairs_read, False, pairs_with_word, 0.0 if exact_count is not None else error)


def _contains_word_sql(transaction: ReadTransaction, side: str) -> str:
    """Return the SQL condition that a side of a pair `p` contains `:word`, a result of `_attach_parts`."""
    settings = transaction.settings()
    words = f"p.{side if side == SOURCE or len(find_grammar_kind(settings.grammar).pair_words) > 1 else SOURCE}"
    if settings.word_parts:
        words = f"replace(replace({words}, ' {PART_MARK}', '{PART_MARK}'), '{PART_MARK} ', '{PART_MARK}')"
    text = f"' ' || {words} || ' '"
    # Compare by replace, because LIKE ignores case in SQLite.
    return f"replace({text}, :word, '') <> {text}"


def _attach_parts(token: str) -> str:
    return f" {token} ".replace(f" {PART_MARK}", PART_MARK).replace(f"{PART_MARK} ", PART_MARK)


def _count_pairs_with(transaction: ReadTransaction, side: str, token: str, last_pair: int) -> int | None:
    """Return the number of pairs that contain the word, or None if the side has no word index."""
    if not _is_indexed(transaction, side):
        return None
    [(count,)] = transaction.rows(
        f"""WITH RECURSIVE blocks(block) AS (
        SELECT 0
     UNION ALL
        SELECT block + 1 FROM blocks WHERE block < {last_pair >> POSITION_BITS})
SELECT CAST(coalesce(sum(length(w.pairs)), 0) / 2 AS BIGINT)
  FROM blocks AS b
  {"JOIN" if transaction.postgres else "CROSS JOIN"} pair_words AS w ON w.block = b.block
   AND w.word_id = (SELECT id FROM vocabulary WHERE token = :token AND side = '{SOURCE}')""",
        token=token,
    )
    return int(count)


def pairs_containing(transaction: ReadTransaction, side: str, token: str, limit: int) -> list[PairRow]:
    """Return pairs with the word, newest first. Without an index, searches only the newest pairs."""
    ids = (
        _find_latest_by_index(transaction, token, limit)
        if _is_indexed(transaction, side)
        else _find_latest_by_text(transaction, side, token, limit)
    )
    return pairs_by_id(transaction.connection, ids)[::-1]


def _is_indexed(transaction: ReadTransaction, side: str) -> bool:
    settings = transaction.settings()
    return side == SOURCE and find_grammar_kind(settings.grammar).input_kind == PAIRS and not settings.word_parts


def _find_latest_by_index(transaction: ReadTransaction, token: str, limit: int) -> list[int]:
    words = [word.id for word in find_words(transaction.connection, [token])[SOURCE].values()]
    pair_ids: list[int] = []
    for last in range(transaction.state().last_pair_id >> POSITION_BITS, -1, -_BLOCKS_AT_ONCE):
        rows = read_postings(transaction, words, range(max(0, last + 1 - _BLOCKS_AT_ONCE), last + 1))
        for block, _, content in reversed(rows):
            pair_ids += decode_pairs(block, content)[::-1].tolist()
        if len(pair_ids) >= limit:
            break
    return sorted(pair_ids[:limit])


def _find_latest_by_text(transaction: ReadTransaction, side: str, token: str, limit: int) -> list[int]:
    contains_word = _contains_word_sql(transaction, side)
    last = transaction.state().last_pair_id
    pair_ids: list[int] = []
    for end in range(last, max(0, last - _LATEST_PAIRS), -_LATEST_AT_ONCE):
        rows = transaction.rows(
            f"SELECT p.id FROM sentence_pairs AS p WHERE p.id > :after AND p.id <= :last"
            f" AND {contains_word} ORDER BY p.id DESC LIMIT :limit",
            False,
            after=end - _LATEST_AT_ONCE,
            last=end,
            word=_attach_parts(token),
            limit=limit - len(pair_ids),
        )
        pair_ids += [row[0] for row in rows]
        if len(pair_ids) >= limit:
            break
    return sorted(pair_ids)
