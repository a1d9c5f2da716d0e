"""Which pairs hold which words: it finds pairs that are like a sentence without looking at the rest."""

from collections.abc import Iterator, Mapping

import sqlalchemy as sa
from alembic import op

from hierogram.storage.operations.settings import read_notation
from hierogram.storage.pairs.pair_words import BLOCK_BITS, are_noted, postings

revision = "0020"
down_revision = "0019"

_ROWS_A_STATEMENT = 10_000


def upgrade() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "pair_words",
        sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("word_id", serial, primary_key=True, autoincrement=False),
        sa.Column("pairs", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    last_pair = connection.execute(sa.text("SELECT coalesce(max(id), 0) FROM sentence_pairs")).scalar_one()
    if not last_pair or not are_noted(read_notation(connection)):
        return
    vocabulary = connection.execute(sa.text("SELECT token, id FROM vocabulary WHERE side = 'source'"))
    ids = {row.token: row.id for row in vocabulary}
    insert = sa.text("INSERT INTO pair_words (block, word_id, pairs) VALUES (:block, :word, :pairs)")
    insert = insert.bindparams(sa.bindparam("pairs", type_=sa.LargeBinary))
    for some in _together(_of_pairs(last_pair, ids)):
        connection.execute(insert, some)


def _of_pairs(last_pair: int, ids: Mapping[str, int]) -> Iterator[dict[str, object]]:
    statement = sa.text("SELECT id, source FROM sentence_pairs WHERE id >= :first AND id < :end ORDER BY id")
    for block in range((last_pair >> BLOCK_BITS) + 1):
        values = {"first": block << BLOCK_BITS, "end": block + 1 << BLOCK_BITS}
        rows = op.get_bind().execute(statement, values).all()
        for of_block, word, pairs in postings([row[0] for row in rows], [row[1] for row in rows], ids):
            yield {"block": of_block, "word": word, "pairs": pairs}


def _together(rows: Iterator[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    some: list[dict[str, object]] = []
    for row in rows:
        some.append(row)
        if len(some) == _ROWS_A_STATEMENT:
            yield some
            some = []
    if some:
        yield some


def downgrade() -> None:
    op.drop_table("pair_words")
