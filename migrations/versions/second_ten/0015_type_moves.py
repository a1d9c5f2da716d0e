"""Stores may ask for type-based moves; those that are there do not."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    connection = op.get_bind()
    # A store that is being made has no settings yet, and gets all of its own.
    if connection.scalar(sa.text("SELECT count(*) FROM settings")):
        connection.execute(sa.text("INSERT INTO settings (name, value) VALUES ('type_moves', '0')"))


def downgrade() -> None:
    op.get_bind().execute(sa.text("DELETE FROM settings WHERE name = 'type_moves'"))
