"""Expected uses of rules, in units of 1/4096, and the variance of their error, in place of uses in the kept samples.

Pairs keep their samples until they are sampled again; each of these counts for as much as it did. A pair without
samples expects nothing until then.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_ONE_USE = 4096
_SAMPLES = "(SELECT coalesce(nullif(CAST(value AS BIGINT), 0), 1) FROM settings WHERE name = 'samples')"

_BEFORE = {
    "rule_table": """
SELECT r.id, r.source, r.target, r.count,
       CAST(r.count AS DOUBLE PRECISION)
         / (SELECT sum(s.count) FROM rules AS s WHERE s.source = r.source) AS p_target_given_source,
       CAST(r.count AS DOUBLE PRECISION)
         / (SELECT sum(t.count) FROM rules AS t WHERE t.target = r.target) AS p_source_given_target,
       r.sampled_count, r.length, r.scope, r.nonterminals, r.hiero
  FROM rules AS r
 WHERE r.count > 0""",
    "word_rules": """
SELECT v.token, v.side, r.*
  FROM vocabulary AS v
  JOIN rule_words AS w ON w.word_id = v.id
  JOIN rule_table AS r ON r.id = w.rule_id""",
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
}

_AFTER = {
    "rule_table": """
SELECT r.id, r.source, r.target, CAST(r.sampled_count AS DOUBLE PRECISION) / 4096 AS mean,
       sqrt(CAST(r.sampled_variance AS DOUBLE PRECISION) / 4096) AS mean_error,
       CAST(r.sampled_count AS DOUBLE PRECISION)
         / (SELECT sum(s.sampled_count) FROM rules AS s WHERE s.source = r.source) AS p_target_given_source,
       CAST(r.sampled_count AS DOUBLE PRECISION)
         / (SELECT sum(t.sampled_count) FROM rules AS t WHERE t.target = r.target) AS p_source_given_target,
       r.count, CAST(round(CAST(r.sampled_count AS DOUBLE PRECISION) / 512) AS BIGINT) AS sampled_count,
       r.length, r.scope, r.nonterminals, r.hiero
  FROM rules AS r
 WHERE r.sampled_count > 0""",
    "drawn_rule_table": """
SELECT r.id, r.source, r.target, r.count,
       CAST(r.count AS DOUBLE PRECISION)
         / (SELECT sum(s.count) FROM rules AS s WHERE s.source = r.source) AS p_target_given_source,
       CAST(r.count AS DOUBLE PRECISION)
         / (SELECT sum(t.count) FROM rules AS t WHERE t.target = r.target) AS p_source_given_target,
       r.length, r.scope, r.nonterminals, r.hiero
  FROM rules AS r
 WHERE r.count > 0""",
    "word_rules": """
SELECT v.token, v.side, r.*
  FROM vocabulary AS v
  JOIN rule_words AS w ON w.word_id = v.id
  JOIN rule_table AS r ON r.id = w.rule_id""",
    "averaged_grammar": """
SELECT id, source, target,
       CAST(sampled_count AS DOUBLE PRECISION) / 4096 AS count,
       sqrt(CAST(sampled_variance AS DOUBLE PRECISION) / 4096) AS error,
       CAST(sampled_count AS DOUBLE PRECISION) / sum(sampled_count) OVER (PARTITION BY source) AS p_target_given_source,
       CAST(sampled_count AS DOUBLE PRECISION) / sum(sampled_count) OVER (PARTITION BY target) AS p_source_given_target,
       CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END AS words_only,
       scope, nonterminals, hiero
  FROM rules
 WHERE sampled_count > 0""",
    "rule_changes": """
SELECT c.day, c.rule_id, c.source, c.target, c.count_before, c.count_now, c.count_now - c.count_before AS change,
       sqrt(c.variance) AS error,
       CASE WHEN abs(c.count_now - c.count_before) > 2 * sqrt(c.variance) THEN 1 ELSE 0 END AS news
  FROM (
        SELECT h.day, h.rule_id, h.source, h.target,
               coalesce(CAST(h.sampled_count AS DOUBLE PRECISION) / 4096, h.count) AS count_before,
               coalesce(CAST(r.sampled_count AS DOUBLE PRECISION) / 4096, 0) AS count_now,
               (coalesce(h.sampled_variance, 24576 * h.count) + CAST(coalesce(r.sampled_variance, 0)
                 AS DOUBLE PRECISION)) / 4096 AS variance
          FROM rule_history AS h
          LEFT JOIN rules AS r ON r.source = h.source AND r.target = h.target
       ) AS c""",
}

_NOTHING = {"sqlite": "x'000000'", "postgresql": "'\\x000000'::bytea"}
"""What a pair keeps that expects nothing."""


def _remake(old: dict[str, str], new: dict[str, str]) -> None:
    for name in reversed(old):
        op.execute(f"DROP VIEW {name}")
    for name, text in new.items():
        op.execute(f"CREATE VIEW {name} AS {text.strip()}")


def upgrade() -> None:
    nothing = _NOTHING[op.get_bind().dialect.name]
    op.add_column("rules", sa.Column("sampled_variance", sa.BigInteger, nullable=False, server_default="0"))
    for name in ("sampled_count", "sampled_variance"):
        op.add_column("rule_history", sa.Column(name, sa.BigInteger))
    op.execute(
        f"UPDATE rules SET sampled_variance = sampled_count * ({_ONE_USE} / ({_SAMPLES} * {_SAMPLES})),"
        f" sampled_count = sampled_count * ({_ONE_USE} / {_SAMPLES}) WHERE sampled_count > 0"
    )
    op.execute("UPDATE store_state SET sampled_tokens = (SELECT coalesce(sum(sampled_count), 0) FROM rules)")
    op.execute(f"UPDATE derivations SET ring = {nothing} WHERE length(ring) = 0")
    _remake(_BEFORE, _AFTER)


def downgrade() -> None:
    # What pairs expect cannot be told in samples: they keep none until they are sampled again.
    op.execute("UPDATE rules SET sampled_count = 0")
    op.execute("DELETE FROM rules WHERE count = 0")
    op.execute("UPDATE store_state SET sampled_tokens = 0")
    sqlite = op.get_bind().dialect.name == "sqlite"
    empty, mark = ("x''", "x'0000'") if sqlite else ("''::bytea", "'\\x0000'::bytea")
    op.execute(f"UPDATE derivations SET ring = {empty} WHERE substr(ring, 1, 2) = {mark}")
    _remake(_AFTER, {})
    for name in ("sampled_count", "sampled_variance"):
        op.drop_column("rule_history", name)
    op.drop_column("rules", "sampled_variance")
    _remake({}, _BEFORE)
