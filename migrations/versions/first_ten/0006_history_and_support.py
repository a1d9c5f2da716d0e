"""What counts were, which pairs use a rule, and views for whole dumps."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_VIEWS = {
    "by_source": """
SELECT id, source, target, count,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY source) AS p_target_given_source,
       scope, nonterminals, hiero
  FROM rules
 WHERE count > 0""",
    "by_target": """
SELECT id, target, source, count,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY target) AS p_source_given_target,
       scope, nonterminals, hiero
  FROM rules
 WHERE count > 0""",
    "grammar": """
SELECT id, source, target, count,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY source) AS p_target_given_source,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY target) AS p_source_given_target,
       CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END AS words_only, CASE WHEN count = 1 THEN 1 ELSE 0 END AS singleton,
       scope, nonterminals, hiero
  FROM rules
 WHERE count > 0""",
    "averaged_grammar": """
SELECT id, source, target,
       sampled_count / (SELECT CAST(value AS DOUBLE PRECISION) FROM settings WHERE name = 'samples') AS count,
       CAST(sampled_count AS DOUBLE PRECISION) / sum(sampled_count) OVER (PARTITION BY source) AS p_target_given_source,
       CAST(sampled_count AS DOUBLE PRECISION) / sum(sampled_count) OVER (PARTITION BY target) AS p_source_given_target,
       CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END AS words_only,
       scope, nonterminals, hiero
  FROM rules
 WHERE sampled_count > 0""",
    "rule_changes": """
SELECT h.day, h.rule_id, h.source, h.target, h.count AS count_before, coalesce(r.count, 0) AS count_now,
       coalesce(r.count, 0) - h.count AS change
  FROM rule_history AS h
  LEFT JOIN rules AS r ON r.source = h.source AND r.target = h.target""",
    "rule_support": """
SELECT r.id AS rule_id, r.source AS rule_source, r.target AS rule_target, u.uses, p.id AS pair_id, c.name AS corpus,
       p.source, p.target, p.alignment, CASE WHEN i.position = v.position THEN 1 ELSE 0 END AS current
  FROM rules AS r
  JOIN rule_pairs AS u ON u.rule_id = r.id
  JOIN sentence_pairs AS p ON p.id = u.pair_id
  JOIN indexed_pairs AS i ON i.pair_id = p.id
  JOIN visits AS v ON v.pair_id = p.id
  JOIN corpora AS c ON c.id = p.corpus_id""",
}


def upgrade() -> None:
    op.create_table(
        "rule_history",
        sa.Column("day", TEXT, primary_key=True),
        sa.Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rule_pairs",
        sa.Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("rule_pairs_by_pair", "rule_pairs", ["pair_id"])
    op.create_table(
        "indexed_pairs",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    for name, text in _VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {text.strip()}")


def downgrade() -> None:
    for name in reversed(_VIEWS):
        op.execute(f"DROP VIEW {name}")
    for name in ("indexed_pairs", "rule_pairs", "rule_history"):
        op.drop_table(name)
