"""Rules whose source words occur in a sentence, and pairs that share words with the sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from hierogram.storage.browsing.details import CompetingRule
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.pairs.pair_index import POSITION_BITS, Posting, decode_pairs
from hierogram.storage.pairs.vocabulary import VocabularyWord
from hierogram.storage.records.pairs import DICTIONARIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_CANDIDATES = 4_000
"""Maximum number of pairs examined per word. For more frequent words, only the last blocks are read."""
_LAST_BLOCKS = 1
_MAX_BLOCKS = 1_000
"""Number of the last blocks of the pair index that are searched for rarer words."""
_PAIRS_PER_WORD = 12
"""Number of pairs returned for each word and order of ties, besides the best pairs overall."""


@dataclass(frozen=True, slots=True)
class SimilarPair:
    """Pair with the name of its corpus."""

    id: int
    corpus: str
    source: str
    target: str


def find_source_sides(transaction: ReadTransaction, words: Sequence[VocabularyWord | None]) -> dict[str, float]:
    """Return a superset of the source sides that match a sentence, with their expected uses."""
    import numpy as np

    from hierogram.storage.grammar.word_index import sentence_anchors

    keys = sentence_anchors(np.array([word.id if word else 0 for word in words], np.int64)).tolist()
    if not keys:
        return {}
    if transaction.postgres:
        # Use an array, because Postgres then reads the index for all values together.
        rule_ids = f"SELECT rule_id FROM rule_words WHERE word_id = ANY(CAST(ARRAY{keys} AS bigint[]))"
        rules = f"rules AS r WHERE r.id = ANY(ARRAY({rule_ids}))"
    else:
        has_key = f"w.word_id IN ({', '.join(map(str, keys))})"
        rules = f"rule_words AS w CROSS JOIN rules AS r ON r.id = w.rule_id WHERE {has_key}"
    return dict(transaction.rows(f"SELECT r.source, sum(r.expected_uses) FROM {rules} GROUP BY r.source", False))


def find_rules_by_source(
    transaction: ReadTransaction, sides: Sequence[str], limit: int
) -> dict[str, list[CompetingRule]]:
    """Return up to `limit` rules of each source side, most used first. Omits sides without expected uses."""
    if not sides:
        return {}
    names = {f"side{n}": side for n, side in enumerate(dict.fromkeys(sides))}
    rows = transaction.rows(
        f"""WITH found AS (
        SELECT r.source, r.id, r.target, r.expected_uses,
               sum(r.expected_uses) OVER (PARTITION BY r.source) AS total,
               row_number() OVER (PARTITION BY r.source ORDER BY r.expected_uses DESC, r.id) AS rank
          FROM rules AS r
         WHERE r.source IN ({", ".join(f":{name}" for name in names)}) AND r.expected_uses > 0)
SELECT source, id, target, expected_uses, total FROM found WHERE rank <= :limit ORDER BY source, rank""",
        False,
        limit=limit,
        **names,
    )
    by_side: dict[str, list[CompetingRule]] = {}
    for side, rule_id, target, uses, total in rows:
        by_side.setdefault(side, []).append(CompetingRule(rule_id, target, uses, uses / total))
    return by_side


def weigh_words(words: Sequence[str], counts: Mapping[str, VocabularyWord]) -> dict[str, float]:
    """Return a weight for each word: the rarer the word, the larger. A missing count is replaced by 1."""
    most = max((known.count for known in counts.values()), default=1)
    return {word: log(2 + most / max(1, counts[word].count if word in counts else 1)) for word in words}


def find_similar_pairs(
    transaction: ReadTransaction, words: Mapping[str, VocabularyWord], limit: int
) -> tuple[list[SimilarPair], list[SimilarPair]]:
    """Return the pairs and dictionary entries that share the most words, best first, then best by word."""
    ids = _most_similar(transaction, words, limit)
    if not ids:
        return [], []
    rows = transaction.rows(
        f"""SELECT p.id, c.name, p.source, p.target, b.format
  FROM sentence_pairs AS p
  JOIN corpora AS c ON c.id = p.corpus_id
  JOIN ingest_batches AS b ON b.id = p.batch_id
 WHERE p.id IN ({", ".join(map(str, ids))})""",
        False,
    )
    pairs_by_id = {row[0]: (SimilarPair(*row[:4]), row[4] in DICTIONARIES) for row in rows}
    pairs, entries = (
        [pairs_by_id[k][0] for k in ids if k in pairs_by_id and pairs_by_id[k][1] == kind] for kind in (False, True)
    )
    return pairs, entries


def _most_similar(transaction: ReadTransaction, words: Mapping[str, VocabularyWord], limit: int) -> list[int]:
    import numpy as np

    state = transaction.state()
    pairs_by_word = _pairs_by_word(transaction, words, state.last_pair_id)
    if not pairs_by_word:
        return []
    number = max(sum(state.pairs().values()), 1)
    weights = {word.id: log(1 + number / max(word.count, 1)) for word in words.values()}
    all_pairs = np.concatenate(list(pairs_by_word.values()))
    shares = np.concatenate([np.full(len(pairs), weights[word]) for word, pairs in pairs_by_word.items()])
    ids, positions = np.unique(all_pairs, return_inverse=True)
    scores = np.bincount(positions, shares)
    order = np.lexsort((-ids, -scores))
    chosen = ids[order[:limit]].tolist()
    for pairs in pairs_by_word.values():
        positions_of_word = np.searchsorted(ids, pairs)
        # Break ties once by newest and once by oldest id, because dictionary entries with adjacent ids often tie.
        for age in (-pairs, pairs):
            best = np.lexsort((age, -scores[positions_of_word]))[:_PAIRS_PER_WORD]
            chosen += pairs[best].tolist()
    return list(dict.fromkeys(chosen))


def _pairs_by_word(
    transaction: ReadTransaction, words: Mapping[str, VocabularyWord], last_pair: int
) -> "dict[int, NDArray[np.int64]]":
    """Return the ascending ids of up to `_MAX_CANDIDATES` pairs with each word, by word id."""
    import numpy as np

    last = last_pair >> POSITION_BITS
    blocks = range(max(0, last + 1 - _MAX_BLOCKS), last + 1)
    frequent = [word.id for word in words.values() if word.count > _MAX_CANDIDATES]
    rare = [word.id for word in words.values() if 0 < word.count <= _MAX_CANDIDATES]
    rows = read_postings(transaction, rare, blocks) + read_postings(transaction, frequent, blocks[-_LAST_BLOCKS:])
    pairs_by_word: dict[int, list[NDArray[np.int64]]] = {}
    for block, word, content in rows:
        pairs_by_word.setdefault(word, []).append(decode_pairs(block, content))
    return {word: np.concatenate(parts)[-_MAX_CANDIDATES:] for word, parts in pairs_by_word.items()}


def read_postings(transaction: ReadTransaction, words: Sequence[int], blocks: range) -> list[Posting]:
    """Return the rows of the pair index for word ids in blocks, in block order."""
    if not words or not blocks:
        return []
    word_list, block_list = (", ".join(map(str, numbers)) for numbers in (words, blocks))
    if transaction.postgres:
        where = f"block = ANY(ARRAY[{block_list}]) AND word_id = ANY(CAST(ARRAY[{word_list}] AS bigint[]))"
    else:
        where = f"block IN ({block_list}) AND word_id IN ({word_list})"
    rows = transaction.rows(f"SELECT block, word_id, pairs FROM pair_words WHERE {where} ORDER BY block", False)
    return [(row[0], row[1], bytes(row[2])) for row in rows]
