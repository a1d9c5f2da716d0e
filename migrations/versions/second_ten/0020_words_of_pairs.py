"""Which pairs hold which words, and anchors of rules: both find what is like a sentence without looking at the rest."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import sqlalchemy as sa
from alembic import op

from hierogram.storage.grammar.rule_words import RuleWords
from hierogram.storage.operations.settings import read_notation
from hierogram.storage.pairs.pair_words import BLOCK_BITS, are_noted, postings

revision = "0020"
down_revision = "0019"

_RULES_AT_ONCE = 200_000
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
    last_pair, last_rule = (
        connection.execute(sa.text(f"SELECT coalesce(max(id), 0) FROM {table}")).scalar_one()
        for table in ("sentence_pairs", "rules")
    )
    if not (last_pair or last_rule):
        return
    notation = read_notation(connection)
    vocabulary = connection.execute(sa.text("SELECT side, token, id FROM vocabulary"))
    ids: dict[str, dict[str, int]] = {"source": {}, "target": {}}
    for side, token, word_id in vocabulary:
        ids[side][token] = word_id
    if are_noted(notation):
        insert = sa.text("INSERT INTO pair_words (block, word_id, pairs) VALUES (:block, :word, :pairs)")
        insert = insert.bindparams(sa.bindparam("pairs", type_=sa.LargeBinary))
        for some in _together(_of_pairs(last_pair, ids["source"])):
            connection.execute(insert, some)

    def word_ids(side: str, tokens: Iterable[str]) -> Mapping[str, int]:
        return {token: ids[side].get(token, 0) for token in tokens}

    words = RuleWords(notation, word_ids, last_rule)
    insert = sa.text("INSERT INTO rule_words (word_id, rule_id) VALUES (:word, :rule)")
    for some in _together(_of_rules(words, last_rule)):
        connection.execute(insert, some)


def _of_pairs(last_pair: int, ids: Mapping[str, int]) -> Iterator[dict[str, object]]:
    statement = sa.text("SELECT id, source FROM sentence_pairs WHERE id >= :first AND id < :end ORDER BY id")
    for block in range((last_pair >> BLOCK_BITS) + 1):
        values = {"first": block << BLOCK_BITS, "end": block + 1 << BLOCK_BITS}
        rows = op.get_bind().execute(statement, values).all()
        for of_block, word, pairs in postings([row[0] for row in rows], [row[1] for row in rows], ids):
            yield {"block": of_block, "word": word, "pairs": pairs}


def _of_rules(words: RuleWords, last_rule: int) -> Iterator[dict[str, object]]:
    """The anchors of rules whose words are noted."""
    noted = np.zeros(last_rule + 1, np.bool_)
    for rows in op.get_bind().execute(sa.text("SELECT rule_id FROM rule_words")).scalars().partitions(_RULES_AT_ONCE):
        rule_ids = np.array(rows, np.int64)
        noted[rule_ids[rule_ids <= last_rule]] = True
    statement = sa.text("SELECT id, source, target FROM rules WHERE id > :after AND id <= :last ORDER BY id")
    for after in range(0, last_rule, _RULES_AT_ONCE):
        values = {"after": after, "last": after + _RULES_AT_ONCE}
        rules = [row for row in op.get_bind().execute(statement, values) if noted[row[0]]]
        sides = {"source": [row[1] for row in rules], "target": [row[2] for row in rules]}
        found = words.find(sides, np.array([row[0] for row in rules], np.int64))
        anchored = found[found < 0]
        for word, rule in zip(words.word_ids(anchored).tolist(), words.rule_ids(anchored).tolist(), strict=True):
            yield {"word": word, "rule": rule}


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
    op.execute("DELETE FROM rule_words WHERE word_id < 0")
    op.drop_table("pair_words")
