"""Words have a folded form beside them, by which people find them; sweeps may say how likely things were before them.

A folded form is the word without accents and capital letters.
"""

import sqlalchemy as sa
from alembic import op

from hierogram.storage.pairs.spellings import folded

revision = "0026"
down_revision = "0024"

_WORDS_AT_ONCE = 20_000


def upgrade() -> None:
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("vocabulary", sa.Column("folded", text, nullable=False, server_default=""))
    connection = op.get_bind()
    last = connection.execute(sa.text("SELECT coalesce(max(id), 0) FROM vocabulary")).scalar_one()
    update = sa.text("UPDATE vocabulary SET folded = :form WHERE id = :word")
    some = sa.text("SELECT id, token FROM vocabulary WHERE id > :after AND id <= :last")
    for after in range(0, last, _WORDS_AT_ONCE):
        words = connection.execute(some, {"after": after, "last": after + _WORDS_AT_ONCE}).all()
        if words:
            connection.execute(update, [{"word": word_id, "form": folded(token)} for word_id, token in words])
    op.add_column("sweeps", sa.Column("log_likelihood_before", sa.Double))
    op.create_index("vocabulary_by_form", "vocabulary", ["folded", "side"])


def downgrade() -> None:
    op.drop_column("sweeps", "log_likelihood_before")
    op.drop_index("vocabulary_by_form", "vocabulary")
    op.drop_column("vocabulary", "folded")
