"""Words of pairs: ids and counts, search for similar words, and the index of pairs by source word.

The index has a row for each block of pairs and each word, with the positions of the pairs in the block.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import ColumnElement, Connection, select

from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, GrammarKind
from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.transactions import (
    WriteTransaction,
    largest_id,
    read_grammar_kind,
    read_rows,
    rows_with,
    staged_increments,
    staged_pair_words,
    staged_words,
    upsert,
)
from hierogram.storage.records.parts import is_part
from hierogram.storage.schema.tables import pair_words, vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Word = TypeVar("Word", bound=Hashable)

WordCounts = Mapping[str, Mapping[str, int]]
"""Word counts by side, then by token."""


def count_pair_words(grammar_kind: GrammarKind, sources: Sequence[str], targets: Sequence[str]) -> WordCounts:
    """Count the space-separated tokens of pairs by side, for the sides that consist of words."""
    texts = {SOURCE: sources, TARGET: targets}
    counts = {side: Counter(" ".join(texts[side]).split(" ")) for side in grammar_kind.pair_words}
    for words in counts.values():
        # Several spaces in a row, or no texts, give empty tokens.
        del words[""]
    return counts


def count_words(transaction: WriteTransaction, words: WordCounts, sign: int = 1) -> None:
    """Add word counts to the vocabulary (subtract if `sign` is -1). Words with count 0 keep their ids."""
    increments: list[tuple[int, int]] = []
    for side, counts in words.items():
        ids = _known_ids(transaction, side, list(counts))
        increments += [(word_id, sign * counts[token]) for token, word_id in ids.items()]
        # Add frequent words first, so that rarer words usually have higher ids.
        new = sorted((-count, token) for token, count in counts.items() if token not in ids)
        _add_words(transaction, side, {token: -count for count, token in new})
    transaction.loader.stage(staged_increments, sorted(increments))
    all_in_use = transaction.state.source_types + transaction.state.target_types == transaction.state.last_word_id
    unused = _count_unused(transaction) if sign > 0 and not all_in_use else {}
    transaction.execute(
        "UPDATE vocabulary SET count = vocabulary.count + s.count FROM staged_increments AS s WHERE id = s.word_id"
    )
    for side, number in (unused if sign > 0 else _count_unused(transaction)).items():
        transaction.state.add(f"{side}_types", sign * number)


def _count_unused(transaction: WriteTransaction) -> dict[str, int]:
    rows = transaction.execute(
        "SELECT side, count(*) FROM staged_increments JOIN vocabulary ON id = word_id"
        " WHERE vocabulary.count = 0 GROUP BY side"
    )
    return dict(rows.all())


def word_ids(transaction: WriteTransaction, side: str, tokens: Iterable[str]) -> Mapping[str, int]:
    """Return the ids of words by token. New words are added with count 0."""
    distinct = list(dict.fromkeys(tokens))
    ids = _known_ids(transaction, side, distinct)
    return ids | _add_words(transaction, side, {token: 0 for token in distinct if token not in ids})


def _known_ids(transaction: WriteTransaction, side: str, tokens: Sequence[str]) -> dict[str, int]:
    """Return the ids of the words in the vocabulary. Uses the ids cached by this and earlier transactions."""
    caches = (transaction.seen_words, transaction.new_words)
    ids = {token: words[side][token] for words in caches for token in tokens if token in words[side]}
    in_memory = sum(len(words[side]) for words in caches for side in (SOURCE, TARGET))
    # Skip the query if all words of the store are cached, because then all other words are new.
    if len(ids) < len(tokens) and in_memory < transaction.state.last_word_id:
        uncached = [token for token in tokens if token not in ids]
        transaction.loader.stage(staged_words, ((n, side, token) for n, token in enumerate(uncached)))
        rows = transaction.execute(
            "SELECT s.n, vocabulary.id FROM staged_words AS s"
            " JOIN vocabulary ON vocabulary.token = s.token AND vocabulary.side = s.side"
        )
        stored_ids = {uncached[n]: word_id for n, word_id in rows}
        ids |= stored_ids
        transaction.new_words[side].update(stored_ids)
    return ids


def _add_words(transaction: WriteTransaction, side: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Insert new words, with ids in the given order. Returns the ids by token."""
    state = transaction.state
    first = state.last_word_id + 1
    ids = {token: word_id for word_id, token in enumerate(counts, first)}
    transaction.loader.insert(
        vocabulary,
        ((word_id, side, token, count, fold(token)) for word_id, (token, count) in enumerate(counts.items(), first)),
    )
    state.last_word_id += len(ids)
    state.add(f"{side}_types", sum(count > 0 for count in counts.values()))
    transaction.new_words[side].update(ids)
    return ids


MAX_FOLDED_LENGTH = 128
"""Maximum length of a folded form in characters. Longer words are compared by this prefix."""

MAX_READINGS = 8
"""Maximum number of readings of a phrase, without the phrase itself."""
_MAX_SPELLINGS = 16
_COMBINATIONS = 64
_MAX_READ_PER_FORM = 200
_MAX_READ_PER_PREFIX = 4_000
_MIN_STEM_LENGTH = 2
_MIN_SIMILARITY = 0.75
MAX_SIMILAR = 8
_KEPT_MARKS = frozenset({0, 7, 8, 9})
"""Combining classes that are not accents: letters and vowel signs, nuktas, kana marks, viramas."""


def fold(token: str) -> str:
    """Return the first `MAX_FOLDED_LENGTH` characters of the word, case-folded, without accents, in NFC.

    Accents are removed after a compatibility decomposition [Unicode Standard Annex 15]. Case is removed by case folding
    [Unicode Standard, section 3.13]. `Λόγος`, `λογος` and a decomposed `λόγος` have the same form.
    The form is empty only if the word is empty.
    """
    if token.isascii():
        return token[:MAX_FOLDED_LENGTH].lower()
    letters = unicodedata.normalize("NFKD", token[:MAX_FOLDED_LENGTH])
    letters = unicodedata.normalize("NFKD", letters.casefold())
    base_letters = "".join(letter for letter in letters if unicodedata.combining(letter) in _KEPT_MARKS)
    return (unicodedata.normalize("NFC", base_letters) or token)[:MAX_FOLDED_LENGTH]


@dataclass(frozen=True, slots=True)
class KnownWord:
    """Word of the vocabulary with its id and its count in stored pairs."""

    token: str
    id: int
    count: int


def known_words(connection: Connection, tokens: Iterable[str]) -> dict[str, dict[str, KnownWord]]:
    """Return the words with these tokens by side, then by token. Omits words not in the vocabulary."""
    words: dict[str, dict[str, KnownWord]] = {SOURCE: {}, TARGET: {}}
    table = vocabulary.c
    statement = select(table.side, table.token, table.id, table.count)
    for side, token, word_id, count in rows_with(connection, statement, table.token, tokens):
        words[side][token] = KnownWord(token, word_id, count)
    return words


def spellings(connection: Connection, side: str, token: str) -> list[KnownWord]:
    """Return words that equal `token` except for accents and case: the word itself, then by frequency."""
    words = _words(connection, side, vocabulary.c.folded == fold(token), _MAX_READ_PER_FORM)
    return sorted(words, key=lambda word: (word.token != token, -word.count, word.token))[:_MAX_SPELLINGS]


def readings(choices: Mapping[Word, Sequence[str]]) -> list[dict[Word, str]]:
    """Return up to `MAX_READINGS` readings: combinations of spellings of words, likeliest first.

    `choices` are the spellings of each word, likeliest first. The words themselves are not a reading. If a word has no
    spelling, the result is empty. Only a few spellings of each word of a long phrase are tried.
    """
    # Limit the spellings of each word, so that a long phrase has few combinations.
    max_choices = max(1, int(_COMBINATIONS ** (1 / max(len(choices), 1)) + 1e-9))
    combinations = product(*(range(min(max_choices, len(candidates))) for candidates in choices.values()))
    ranked = sorted(combinations, key=lambda ranks: (sum(ranks), ranks))
    spelled = ({word: choices[word][rank] for word, rank in zip(choices, ranks, strict=True)} for ranks in ranked)
    return list(islice((reading for reading in spelled if any(a != b for a, b in reading.items())), MAX_READINGS))


def similar_words(connection: Connection, side: str, token: str) -> list[str]:
    """Return up to `MAX_SIMILAR` other words: spellings, then words with this prefix, then similar words."""
    form = fold(token)
    words: dict[str, KnownWord] = {word.token: word for word in spellings(connection, side, token)}
    beginning = _words_with_prefix(connection, side, form)
    words |= {word.token: word for word in beginning[:MAX_SIMILAR]}
    stem = form[:_MIN_STEM_LENGTH] if len(form) > _MIN_STEM_LENGTH else ""
    if stem and len(words) < MAX_SIMILAR:
        forms: dict[str, list[KnownWord]] = {}
        for word in _words_with_prefix(connection, side, stem):
            forms.setdefault(fold(word.token), []).append(word)
        for close in get_close_matches(form, forms, MAX_SIMILAR, _MIN_SIMILARITY):
            words |= {word.token: word for word in forms[close]}
    words.pop(token, None)
    return [word for word in words if not is_part(word)][:MAX_SIMILAR]


def _words_with_prefix(connection: Connection, side: str, form: str) -> list[KnownWord]:
    """Return some words whose folded form has the prefix `form`, most frequent first."""
    # U+10FFFF sorts after all letters.
    column = vocabulary.c.folded
    words = _words(connection, side, (column >= form) & (column < form + "\U0010ffff"), _MAX_READ_PER_PREFIX)
    return sorted(words, key=lambda word: (-word.count, word.token))


def _words(connection: Connection, side: str, condition: ColumnElement[bool], limit: int) -> list[KnownWord]:
    columns = vocabulary.c.token, vocabulary.c.id, vocabulary.c.count
    statement = select(*columns).where(vocabulary.c.side == side, condition)
    rows = connection.execute(statement.order_by(vocabulary.c.folded).limit(limit))
    return [KnownWord(*row) for row in rows if row[2]]


POSITION_BITS = 14
"""Number of low bits of a pair id that are its position in a block. A block has 2^`POSITION_BITS` ids."""

_POSITION_MASK = (1 << POSITION_BITS) - 1

WordIds = Callable[[Iterable[str]], Mapping[str, int]]

Posting = tuple[int, int, bytes]
"""Block, word id, and the encoded positions of the pairs in the block that contain the word."""


def decode_pairs(block: int, content: bytes) -> "NDArray[np.int64]":
    """Decode the sorted pair ids of a row: positions in the block, uint16 each, little-endian."""
    import numpy as np

    return np.frombuffer(content, "<u2").astype(np.int64) + (block << POSITION_BITS)


def make_postings(pair_ids: Sequence[int], sources: Sequence[str], find_ids: WordIds) -> Iterator[Posting]:
    """Yield the postings of source texts, sorted by block and word id."""
    import numpy as np

    if not pair_ids:
        return
    tokens = " ".join(sources).split(" ")
    ids = find_ids(dict.fromkeys(tokens))
    words = np.fromiter(map(ids.__getitem__, tokens), np.int64, len(tokens))
    lengths = np.fromiter((source.count(" ") + 1 for source in sources), np.int64, len(sources))
    numbers = np.repeat(np.array(pair_ids, np.int64), lengths)
    bits = int(words.max()).bit_length()
    # Pack block, word and position into one number, so that one sort orders all three.
    packed = np.sort((numbers >> POSITION_BITS << bits | words) << POSITION_BITS | numbers & _POSITION_MASK)
    packed = packed[np.append(True, packed[1:] != packed[:-1])]
    keys = packed >> POSITION_BITS
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    blocks, words_of_blocks = keys[starts] >> bits, keys[starts] & ((1 << bits) - 1)
    content = (packed & _POSITION_MASK).astype("<u2").tobytes()
    columns = (blocks, words_of_blocks, starts, np.append(starts[1:], len(packed)))
    for block, word, first, last in zip(*(column.tolist() for column in columns), strict=True):
        yield block, word, content[2 * first : 2 * last]


def index_pairs(transaction: WriteTransaction, pair_ids: Sequence[int], sources: Sequence[str]) -> None:
    """Index new pairs by the words of their source sides. Their ids must exceed all indexed ids."""
    if not pair_ids or read_grammar_kind(transaction.connection).input_kind != PAIRS:
        return
    postings = list(make_postings(pair_ids, sources, partial(word_ids, transaction, SOURCE)))
    # Append to stored rows only in the first block, because the other blocks are new.
    started = pair_ids[0] >> POSITION_BITS
    started_blocks = [row for row in postings if row[0] == started] if pair_ids[0] & _POSITION_MASK else []
    transaction.loader.insert(pair_words, postings[len(started_blocks) :])
    if not started_blocks:
        return
    transaction.loader.stage(staged_pair_words, started_blocks)
    concatenated = "pair_words.pairs || excluded.pairs"
    if transaction.connection.dialect.name != POSTGRES:
        # Convert the result, because || returns text in SQLite.
        concatenated = f"CAST({concatenated} AS BLOB)"
    staged = "SELECT * FROM staged_pair_words WHERE true ORDER BY block, word_id"
    transaction.execute(upsert(pair_words, staged, {"pairs": concatenated}))


def unindex_pairs(transaction: WriteTransaction, pair_ids: Sequence[int], sources: Sequence[str]) -> None:
    """Remove pairs with the given source texts from the index."""
    import numpy as np

    if not pair_ids or read_grammar_kind(transaction.connection).input_kind != PAIRS:
        return
    postings = make_postings(pair_ids, sources, partial(word_ids, transaction, SOURCE))
    removed = {(block, word): np.frombuffer(content, "<u2") for block, word, content in postings}
    transaction.loader.stage(staged_pair_words, ((*row, b"") for row in removed))
    stored = transaction.execute(
        "SELECT s.block, s.word_id, pair_words.pairs FROM staged_pair_words AS s"
        " JOIN pair_words ON s.block = pair_words.block AND s.word_id = pair_words.word_id"
    )
    remaining = [
        (block, word, np.setdiff1d(np.frombuffer(content, "<u2"), removed[block, word], assume_unique=True).tobytes())
        for block, word, content in stored
    ]
    transaction.execute(
        "DELETE FROM pair_words WHERE (block, word_id) IN (SELECT block, word_id FROM staged_pair_words)"
    )
    transaction.loader.insert(pair_words, sorted(row for row in remaining if row[2]))


def wrong_blocks(connection: Connection) -> list[int]:
    """Return the sorted blocks whose rows do not match the pairs' texts."""
    if read_grammar_kind(connection).input_kind != PAIRS:
        return []
    last = max(largest_id(connection, "sentence_pairs") >> POSITION_BITS, largest_id(connection, "pair_words", "block"))
    wrong = []
    for block in range(last + 1):
        stored = read_rows(
            connection, "SELECT word_id, pairs FROM pair_words WHERE block = :block ORDER BY word_id", {"block": block}
        )
        stored_postings = [(block, word, bytes(content)) for word, content in stored]
        try:
            matches = stored_postings == _recount_block(connection, block, partial(_stored_ids, connection))
        except KeyError:
            # The block is wrong, because it has a word that is missing from the vocabulary.
            matches = False
        if not matches:
            wrong.append(block)
    return wrong


def _recount_block(connection: Connection, block: int, find_ids: WordIds) -> list[Posting]:
    rows = read_rows(
        connection,
        "SELECT id, source FROM sentence_pairs WHERE id >= :first AND id <= :last ORDER BY id",
        {"first": block << POSITION_BITS, "last": block << POSITION_BITS | _POSITION_MASK},
    )
    return list(make_postings([row[0] for row in rows], [row[1] for row in rows], find_ids))


def rebuild_blocks(transaction: WriteTransaction, blocks: Sequence[int]) -> None:
    """Rebuild the rows of the blocks from the pairs' texts."""
    for block in blocks:
        transaction.execute("DELETE FROM pair_words WHERE block = :block", block=block)
        counted = _recount_block(transaction.connection, block, partial(word_ids, transaction, SOURCE))
        transaction.loader.insert(pair_words, counted)


def _stored_ids(connection: Connection, tokens: Iterable[str]) -> dict[str, int]:
    return {token: word.id for token, word in known_words(connection, tokens)[SOURCE].items()}
