"""Words of rules that no present derivation uses, and of which half a use is expected: these find them, too."""

import sqlalchemy as sa
from alembic import op

from hierogram.storage.operations.settings import read_notation

revision = "0018"
down_revision = "0017"

_EXPECTED = "SELECT id, source, target FROM rules WHERE count = 0 AND sampled_count >= 2048"


def upgrade() -> None:
    connection = op.get_bind()
    expected = connection.execute(sa.text(_EXPECTED)).all()
    if not expected:
        return
    notation = read_notation(connection)
    vocabulary = connection.execute(sa.text("SELECT side, token, id FROM vocabulary"))
    ids = {(side, token): word_id for side, token, word_id in vocabulary}
    held = {
        (ids[word], rule_id)
        for rule_id, source, target in expected
        for word in notation.words_of_rule(source, target)
        if word in ids
    }
    insert = sa.text("INSERT INTO rule_words (word_id, rule_id) VALUES (:word, :rule) ON CONFLICT DO NOTHING")
    connection.execute(insert, [{"word": word, "rule": rule} for word, rule in sorted(held)])


def downgrade() -> None:
    """Words that are noted for more rules than need them do no harm."""
