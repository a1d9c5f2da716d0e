"""Schedules have names; stores that are there keep theirs, which goes by level of phrase."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_SETTINGS = {"schedule": '"paper"', "settling": "10"}


def upgrade() -> None:
    connection = op.get_bind()
    # A store that is being made has no settings yet, and gets all of its own.
    if connection.scalar(sa.text("SELECT count(*) FROM settings")):
        connection.execute(
            sa.text("INSERT INTO settings (name, value) VALUES (:name, :value)"),
            [{"name": name, "value": value} for name, value in _SETTINGS.items()],
        )


def downgrade() -> None:
    op.get_bind().execute(
        sa.text("DELETE FROM settings WHERE name IN :names").bindparams(sa.bindparam("names", expanding=True)),
        {"names": list(_SETTINGS)},
    )
