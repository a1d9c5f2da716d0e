"""Rules have anchors, by which those that match a sentence are found without looking at the rest."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import sqlalchemy as sa
from alembic import op

from hierogram.storage.grammar.rule_words import RuleWords
from hierogram.storage.operations.settings import read_notation

revision = "0024"
down_revision = "0023"

_RULES_AT_ONCE = 20_000
_IDS_AT_ONCE = 200_000


def upgrade() -> None:
    connection = op.get_bind()
    last_rule = connection.execute(sa.text("SELECT coalesce(max(id), 0) FROM rules")).scalar_one()
    if not last_rule:
        return
    # Of stores whose anchors do not tell how the words stand to each other.
    op.execute("DELETE FROM rule_words WHERE word_id < 0")
    ids: dict[str, dict[str, int]] = {"source": {}, "target": {}}
    for side, token, word_id in connection.execute(sa.text("SELECT side, token, id FROM vocabulary")):
        ids[side][token] = word_id

    def word_ids(side: str, tokens: Iterable[str]) -> Mapping[str, int]:
        return {token: ids[side].get(token, 0) for token in tokens}

    words = RuleWords(read_notation(connection), word_ids, last_rule)
    insert = sa.text("INSERT INTO rule_words (word_id, rule_id) VALUES (:word, :rule)")
    for some in _anchors(words, last_rule):
        connection.execute(insert, some)


def _anchors(words: RuleWords, last_rule: int) -> Iterator[list[dict[str, int]]]:
    """The anchors of rules whose words are noted, of some rules at a time."""
    noted = np.zeros(last_rule + 1, np.bool_)
    for rows in op.get_bind().execute(sa.text("SELECT rule_id FROM rule_words")).scalars().partitions(_IDS_AT_ONCE):
        rule_ids = np.array(rows, np.int64)
        noted[rule_ids[rule_ids <= last_rule]] = True
    statement = sa.text("SELECT id, source, target FROM rules WHERE id > :after AND id <= :last ORDER BY id")
    for after in range(0, last_rule, _RULES_AT_ONCE):
        values = {"after": after, "last": after + _RULES_AT_ONCE}
        rules = [row for row in op.get_bind().execute(statement, values) if noted[row[0]]]
        sides = {"source": [row[1] for row in rules], "target": [row[2] for row in rules]}
        found = words.find(sides, np.array([row[0] for row in rules], np.int64))
        anchored = found[found < 0]
        if len(anchored):
            numbers = zip(words.word_ids(anchored).tolist(), words.rule_ids(anchored).tolist(), strict=True)
            yield [{"word": word, "rule": rule} for word, rule in numbers]


def downgrade() -> None:
    op.execute("DELETE FROM rule_words WHERE word_id < 0")
