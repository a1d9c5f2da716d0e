"""Index of pairs by source word.

The index has a row for each block of pairs and each word, with the positions of the pairs in the block.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from hierogram.samplers.grammar.kinds import PAIRS, SOURCE
from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.transactions import (
    WriteTransaction,
    largest_id,
    read_grammar_kind,
    read_rows,
    staged_pair_words,
    upsert,
)
from hierogram.storage.pairs.vocabulary import find_or_add_ids, find_words
from hierogram.storage.schema.tables import pair_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POSITION_BITS = 14
"""Number of low bits of a pair id that are its position in a block. A block has 2^`POSITION_BITS` ids."""

_POSITION_MASK = (1 << POSITION_BITS) - 1

WordIds = Callable[[Iterable[str]], Mapping[str, int]]
"""Function that returns the ids of source words by token."""

Posting = tuple[int, int, bytes]
"""Row of the index: block, word id, and encoded positions of the pairs that contain the word."""


def decode_pairs(block: int, content: bytes) -> "NDArray[np.int64]":
    """Decode the sorted pair ids of a row: positions in the block, uint16 each, little-endian."""
    import numpy as np

    return np.frombuffer(content, "<u2").astype(np.int64) + (block << POSITION_BITS)


def make_postings(pair_ids: Sequence[int], sources: Sequence[str], find_ids: WordIds) -> Iterator[Posting]:
    """Yield the rows of the index for source texts by block and word. Raises `KeyError` without an id."""
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
    postings = list(make_postings(pair_ids, sources, partial(find_or_add_ids, transaction, SOURCE)))
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
    """Remove pairs with the given source texts from the index. Does nothing in a store of trees."""
    import numpy as np

    if not pair_ids or read_grammar_kind(transaction.connection).input_kind != PAIRS:
        return
    postings = make_postings(pair_ids, sources, partial(find_or_add_ids, transaction, SOURCE))
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
    """Return the sorted blocks whose rows do not match the source texts of the pairs."""
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
            matches = stored_postings == _make_block(connection, block, partial(_source_word_ids, connection))
        except KeyError:
            # The block is wrong, because it has a word that is missing from the vocabulary.
            matches = False
        if not matches:
            wrong.append(block)
    return wrong


def _make_block(connection: Connection, block: int, find_ids: WordIds) -> list[Posting]:
    rows = read_rows(
        connection,
        "SELECT id, source FROM sentence_pairs WHERE id >= :first AND id <= :last ORDER BY id",
        {"first": block << POSITION_BITS, "last": block << POSITION_BITS | _POSITION_MASK},
    )
    return list(make_postings([row[0] for row in rows], [row[1] for row in rows], find_ids))


def rebuild_blocks(transaction: WriteTransaction, blocks: Sequence[int]) -> None:
    """Replace the rows of the blocks by rows made from the source texts of the pairs."""
    for block in blocks:
        transaction.execute("DELETE FROM pair_words WHERE block = :block", block=block)
        postings = _make_block(transaction.connection, block, partial(find_or_add_ids, transaction, SOURCE))
        transaction.loader.insert(pair_words, postings)


def _source_word_ids(connection: Connection, tokens: Iterable[str]) -> dict[str, int]:
    return {token: word.id for token, word in find_words(connection, tokens)[SOURCE].items()}
