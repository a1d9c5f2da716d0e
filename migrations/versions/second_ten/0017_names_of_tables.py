"""Tables and columns have the field's names: `expected_uses`, `expansion_probability` and `resampled`."""

from alembic import op
from sqlalchemy import text

revision = "0017"
down_revision = "0016"

_COLUMNS = (("derivations", "ring", "expected_uses"), ("labels", "expanded", "expansion_probability"))
_SUPPORT = """
SELECT r.id AS rule_id, r.source AS rule_source, r.target AS rule_target, u.uses, p.id AS pair_id, c.name AS corpus,
       p.source, p.target, p.alignment, CASE WHEN i.position = v.position THEN 1 ELSE 0 END AS current
  FROM rules AS r
  JOIN rule_pairs AS u ON u.rule_id = r.id
  JOIN sentence_pairs AS p ON p.id = u.pair_id
  JOIN indexed_pairs AS i ON i.pair_id = p.id
  JOIN {table} AS v ON v.pair_id = p.id
  JOIN corpora AS c ON c.id = p.corpus_id"""


def _rename_not_null(table: str, before: str, after: str) -> None:
    """Postgres names such constraints from version 18 on; their names begin with the names of table and column."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    found = text("SELECT conname FROM pg_constraint WHERE conrelid = CAST(:name AS regclass) AND contype = 'n'")
    for name in connection.scalars(found, {"name": table}).all():
        if name.startswith(before):
            op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {name} TO {after}{name[len(before) :]}")


def _rename_table(before: str, after: str) -> None:
    op.execute("DROP VIEW rule_support")
    op.drop_index(f"{before}_by_position", table_name=before)
    op.rename_table(before, after)
    op.create_index(f"{after}_by_position", after, ["position", "pair_id"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {after} RENAME CONSTRAINT {before}_pkey TO {after}_pkey")
        _rename_not_null(after, f"{before}_", f"{after}_")
    op.execute(f"CREATE VIEW rule_support AS {_SUPPORT.format(table=after).strip()}")


def upgrade() -> None:
    # Not alter_column, which would copy the whole table on SQLite.
    for table, before, after in _COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {before} TO {after}")
        _rename_not_null(table, f"{table}_{before}_", f"{table}_{after}_")
    _rename_table("visits", "resampled")


def downgrade() -> None:
    _rename_table("resampled", "visits")
    for table, before, after in _COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {after} TO {before}")
        _rename_not_null(table, f"{table}_{after}_", f"{table}_{before}_")
