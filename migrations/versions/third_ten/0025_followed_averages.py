"""Averages follow their chains, variances are in units of 1/4096², and what no rule counts is added up.

What pairs of a store expected is in a form that cannot be read: they average again from their next sweep. Until then
`hierogram repair` makes the rules' expected uses follow from their derivations.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

_UNIT = 4096
_WORD_RULES = """
SELECT v.token, v.side, r.*
  FROM vocabulary AS v
  JOIN rule_words AS w ON w.word_id = v.id
  JOIN rule_table AS r ON r.id = w.rule_id"""


def _rule_table(error: str) -> str:
    return f"""
SELECT r.id, r.source, r.target, CAST(r.sampled_count AS DOUBLE PRECISION) / 4096 AS mean,
       {error} AS mean_error,
       CAST(r.sampled_count AS DOUBLE PRECISION)
         / (SELECT sum(s.sampled_count) FROM rules AS s WHERE s.source = r.source) AS p_target_given_source,
       CAST(r.sampled_count AS DOUBLE PRECISION)
         / (SELECT sum(t.sampled_count) FROM rules AS t WHERE t.target = r.target) AS p_source_given_target,
       r.count, CAST(round(CAST(r.sampled_count AS DOUBLE PRECISION) / 512) AS BIGINT) AS sampled_count,
       r.length, r.scope, r.nonterminals, r.hiero
  FROM rules AS r
 WHERE r.sampled_count > 0"""


def _averaged_grammar(error: str) -> str:
    return f"""
SELECT id, source, target,
       CAST(sampled_count AS DOUBLE PRECISION) / 4096 AS count,
       {error} AS error,
       CAST(sampled_count AS DOUBLE PRECISION) / sum(sampled_count) OVER (PARTITION BY source) AS p_target_given_source,
       CAST(sampled_count AS DOUBLE PRECISION) / sum(sampled_count) OVER (PARTITION BY target) AS p_source_given_target,
       CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END AS words_only,
       scope, nonterminals, hiero
  FROM rules
 WHERE sampled_count > 0"""


def _rule_changes(draw: int, unit: int) -> str:
    return f"""
SELECT c.day, c.rule_id, c.source, c.target, c.count_before, c.count_now, c.count_now - c.count_before AS change,
       sqrt(c.variance) AS error,
       CASE WHEN abs(c.count_now - c.count_before) > 2 * sqrt(c.variance) THEN 1 ELSE 0 END AS news
  FROM (
        SELECT h.day, h.rule_id, h.source, h.target,
               coalesce(CAST(h.sampled_count AS DOUBLE PRECISION) / 4096, h.count) AS count_before,
               coalesce(CAST(r.sampled_count AS DOUBLE PRECISION) / 4096, 0) AS count_now,
               (coalesce(h.sampled_variance, {draw} * h.count) + CAST(coalesce(r.sampled_variance, 0)
                 AS DOUBLE PRECISION)) / {unit} AS variance
          FROM rule_history AS h
          LEFT JOIN rules AS r ON r.source = h.source AND r.target = h.target
       ) AS c"""


_BEFORE = {
    "rule_table": _rule_table("sqrt(CAST(r.sampled_variance AS DOUBLE PRECISION) / 4096)"),
    "word_rules": _WORD_RULES,
    "averaged_grammar": _averaged_grammar("sqrt(CAST(sampled_variance AS DOUBLE PRECISION) / 4096)"),
    "rule_changes": _rule_changes(6 * _UNIT, _UNIT),
}
_AFTER = {
    "rule_table": _rule_table("sqrt(CAST(r.sampled_variance AS DOUBLE PRECISION)) / 4096"),
    "word_rules": _WORD_RULES,
    "averaged_grammar": _averaged_grammar("sqrt(CAST(sampled_variance AS DOUBLE PRECISION)) / 4096"),
    "rule_changes": _rule_changes(6 * _UNIT * _UNIT, _UNIT * _UNIT),
}


def _remake(views: dict[str, str]) -> None:
    for name in reversed(views):
        op.execute(f"DROP VIEW {name}")
    for name, text in views.items():
        op.execute(f"CREATE VIEW {name} AS {text.strip()}")


def _forget_averages() -> None:
    empty = "x''" if op.get_bind().dialect.name == "sqlite" else "''::bytea"
    op.execute(f"UPDATE derivations SET expected_uses = {empty} WHERE length(expected_uses) > 0")


def upgrade() -> None:
    for k in range(4):
        op.add_column("store_state", sa.Column(f"left_out_{k}", sa.BigInteger, nullable=False, server_default="0"))
    for table in ("rules", "rule_history", "told_rules"):
        op.execute(f"UPDATE {table} SET sampled_variance = sampled_variance * {_UNIT}")
    _forget_averages()
    _remake(_AFTER)


def downgrade() -> None:
    _remake(_BEFORE)
    _forget_averages()
    for table in ("rules", "rule_history", "told_rules"):
        op.execute(f"UPDATE {table} SET sampled_variance = sampled_variance / {_UNIT}")
    for k in range(4):
        op.drop_column("store_state", f"left_out_{k}")
