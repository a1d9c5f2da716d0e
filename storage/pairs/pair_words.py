"""Inverted index of pairs by source word: for each block of pairs and each word in it, the positions of the pairs.

Ids of new pairs are higher than all earlier ids, so new pairs change only the last block and add blocks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, select, text, update

from hierogram.samplers.grammar.kinds import PAIRS, SOURCE
from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.settings import read_grammar_kind
from hierogram.storage.database.transactions import WriteTransaction, staged_pair_words
from hierogram.storage.pairs.vocabulary import known_words, word_ids
from hierogram.storage.schema.tables import pair_words

BLOCK_BITS = 14
"""Number of low bits of a pair id that differ within a block. A block has 2^`BLOCK_BITS` ids."""

_POSITION_MASK = (1 << BLOCK_BITS) - 1

WordIds = Callable[[Iterable[str]], Mapping[str, int]]
"""Function that returns the ids of words."""

Posting = tuple[int, int, bytes]
"""Block, word id, and the encoded positions of the pairs in the block that contain the word."""


def decode_pairs(block: int, content: bytes) -> NDArray[np.int64]:
    """Decode the sorted pair ids of a row: positions in the block, uint16 each, little-endian."""
    return np.frombuffer(content, "<u2").astype(np.int64) + (block << BLOCK_BITS)


def make_postings(pair_ids: Sequence[int], sources: Sequence[str], find_ids: WordIds) -> Iterator[Posting]:
    """Yield the postings of source texts, sorted by block and word id."""
    if not pair_ids:
        return
    tokens = " ".join(sources).split(" ")
    ids = find_ids(dict.fromkeys(tokens))
    words = np.fromiter(map(ids.__getitem__, tokens), np.int64, len(tokens))
    lengths = np.fromiter((source.count(" ") + 1 for source in sources), np.int64, len(sources))
    numbers = np.repeat(np.array(pair_ids, np.int64), lengths)
    bits = int(words.max()).bit_length()
    # Pack block, word and position into one number, so that one sort orders all three.
    packed = np.sort((numbers >> BLOCK_BITS << bits | words) << BLOCK_BITS | numbers & _POSITION_MASK)
    packed = packed[np.append(True, packed[1:] != packed[:-1])]
    keys = packed >> BLOCK_BITS
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    positions = (packed & _POSITION_MASK).astype("<u2")
    ends = np.append(starts[1:], len(positions))
    postings = zip(
        (keys[starts] >> bits).tolist(),
        (keys[starts] & ((1 << bits) - 1)).tolist(),
        starts.tolist(),
        ends.tolist(),
        strict=True,
    )
    content = positions.tobytes()
    for block, word, first, last in postings:
        yield block, word, content[2 * first : 2 * last]


def index_pairs(transaction: WriteTransaction, pair_ids: Sequence[int], sources: Sequence[str]) -> None:
    """Index new pairs by the words of their source sides. Their ids must exceed all indexed ids."""
    if not pair_ids or read_grammar_kind(transaction.connection).input_kind != PAIRS:
        return
    postings = list(make_postings(pair_ids, sources, partial(word_ids, transaction, SOURCE)))
    # Append to stored rows only in the first block, because the other blocks are new.
    started = pair_ids[0] >> BLOCK_BITS
    started_blocks = [row for row in postings if row[0] == started] if pair_ids[0] & _POSITION_MASK else []
    transaction.loader.insert(pair_words, ("block", "word_id", "pairs"), postings[len(started_blocks) :])
    if not started_blocks:
        return
    transaction.loader.stage(staged_pair_words, started_blocks)
    concatenated = "pair_words.pairs || excluded.pairs"
    if transaction.connection.dialect.name != POSTGRES:
        # Convert the result, because || returns text in SQLite.
        concatenated = f"CAST({concatenated} AS BLOB)"
    transaction.connection.execute(
        text(
            "INSERT INTO pair_words (block, word_id, pairs) SELECT block, word_id, pairs FROM staged_pair_words"
            f" WHERE true ORDER BY block, word_id ON CONFLICT (block, word_id) DO UPDATE SET pairs = {concatenated}"
        )
    )


def unindex_pairs(transaction: WriteTransaction, pair_ids: Sequence[int], sources: Sequence[str]) -> None:
    """Remove pairs with the given source texts from the index."""
    if not pair_ids or read_grammar_kind(transaction.connection).input_kind != PAIRS:
        return
    rows = dict(zip(pair_ids, sources, strict=True))
    by_block: dict[int, list[int]] = {}
    for pair_id in sorted(rows):
        by_block.setdefault(pair_id >> BLOCK_BITS, []).append(pair_id)
    for block, ids in by_block.items():
        _unindex(transaction, block, ids, [rows[pair_id] for pair_id in ids])


def _unindex(transaction: WriteTransaction, block: int, pair_ids: Sequence[int], sources: Sequence[str]) -> None:
    connection = transaction.connection
    postings = make_postings(pair_ids, sources, partial(word_ids, transaction, SOURCE))
    removed = {word: content for _, word, content in postings}
    transaction.loader.stage(staged_pair_words, ((block, word, b"") for word in sorted(removed)))
    stored = connection.execute(
        select(pair_words.c.word_id, pair_words.c.pairs).join(
            staged_pair_words,
            (staged_pair_words.c.block == pair_words.c.block) & (staged_pair_words.c.word_id == pair_words.c.word_id),
        )
    ).all()
    remaining = {
        word: np.setdiff1d(np.frombuffer(content, "<u2"), np.frombuffer(removed[word], "<u2"), assume_unique=True)
        for word, content in stored
    }
    transaction.loader.stage(
        staged_pair_words, ((block, word, remaining[word].tobytes()) for word in sorted(remaining))
    )
    staged = staged_pair_words.c
    is_same_row = (staged.block == pair_words.c.block) & (staged.word_id == pair_words.c.word_id)
    connection.execute(update(pair_words).values(pairs=staged.pairs).where(is_same_row))
    connection.execute(
        text(
            "DELETE FROM pair_words WHERE (block, word_id) IN"
            " (SELECT block, word_id FROM staged_pair_words WHERE length(pairs) = 0)"
        )
    )


def wrong_blocks(connection: Connection) -> list[int]:
    """Return the sorted blocks whose rows do not match the pairs' texts."""
    if read_grammar_kind(connection).input_kind != PAIRS:
        return []
    last_pair, last_row = (
        connection.execute(text(f"SELECT coalesce(max({column}), 0) FROM {table}")).scalar_one()
        for column, table in (("id", "sentence_pairs"), ("block", "pair_words"))
    )
    last = max(last_pair >> BLOCK_BITS, last_row)
    wrong = []
    for block in range(last + 1):
        stored = connection.execute(
            select(pair_words.c.word_id, pair_words.c.pairs)
            .where(pair_words.c.block == block)
            .order_by(pair_words.c.word_id)
        )
        stored_postings = [(block, word, bytes(content)) for word, content in stored]
        try:
            matches = stored_postings == _recount_block(connection, block, partial(_known_ids, connection))
        except KeyError:
            # The block is wrong, because it has a word that is missing from the vocabulary.
            matches = False
        if not matches:
            wrong.append(block)
    return wrong


def _recount_block(connection: Connection, block: int, find_ids: WordIds) -> list[Posting]:
    rows = connection.execute(
        text("SELECT id, source FROM sentence_pairs WHERE id >= :first AND id <= :last ORDER BY id"),
        {"first": block << BLOCK_BITS, "last": block << BLOCK_BITS | _POSITION_MASK},
    ).all()
    return list(make_postings([row[0] for row in rows], [row[1] for row in rows], find_ids))


def rebuild_blocks(transaction: WriteTransaction, blocks: Sequence[int]) -> None:
    """Rebuild the rows of the blocks from the pairs' texts."""
    for block in blocks:
        transaction.connection.execute(delete(pair_words).where(pair_words.c.block == block))
        counted = _recount_block(transaction.connection, block, partial(word_ids, transaction, SOURCE))
        transaction.loader.insert(pair_words, ("block", "word_id", "pairs"), counted)


def _known_ids(connection: Connection, tokens: Iterable[str]) -> dict[str, int]:
    return {token: word.id for token, word in known_words(connection, tokens)[SOURCE].items()}
