"""Grammars of tree fragments: their settings, and what is learned of labels."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

_SETTINGS = {
    "grammar": '"synchronous"',
    "base": '"pcfg"',
    "start": '"joined"',
    "temperature": "5.0",
    "annealing": "200",
}


def upgrade() -> None:
    op.create_table(
        "labels",
        sa.Column("label", TEXT, primary_key=True),
        sa.Column("strength", sa.Double, nullable=False),
        sa.Column("expanded", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    # A store that is being made has no settings yet, and gets all of its own.
    if connection.scalar(sa.text("SELECT count(*) FROM settings")):
        connection.execute(
            sa.text("INSERT INTO settings (name, value) VALUES (:name, :value)"),
            [{"name": name, "value": value} for name, value in _SETTINGS.items()],
        )


def downgrade() -> None:
    op.drop_table("labels")
    op.get_bind().execute(
        sa.text("DELETE FROM settings WHERE name IN :names").bindparams(sa.bindparam("names", expanding=True)),
        {"names": list(_SETTINGS)},
    )
