"""Stores name what aligns their pairs; those that are there have the aligner with fertilities."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    connection = op.get_bind()
    # A store that is being made has no settings yet, and gets all of its own.
    if connection.scalar(sa.text("SELECT count(*) FROM settings")):
        connection.execute(sa.text("INSERT INTO settings (name, value) VALUES ('aligner', '\"bhmm-f\"')"))


def downgrade() -> None:
    op.get_bind().execute(sa.text("DELETE FROM settings WHERE name = 'aligner'"))
