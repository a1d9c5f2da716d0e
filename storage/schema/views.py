"""SQL views, the store's public interface, and descriptions of relations and columns (`catalog.toml`).

A view is defined after the views that it uses.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from hierogram.storage.records.uncertainty import squared_error_sql, standard_error_sql


@dataclass(frozen=True)
class Relation:
    """Description of a table or view. An `internal` relation may change with any version."""

    name: str
    about: str
    columns: dict[str, str]
    internal: bool


@cache
def relations() -> tuple[Relation, ...]:
    """Return the descriptions of all tables and views in the order of `catalog.toml`."""
    content = tomllib.loads(files("hierogram.storage.schema").joinpath("catalog.toml").read_text(encoding="utf-8"))
    shared, described = content["rule_table"], []
    for name, texts in content.items():
        about, is_internal = texts.pop("about"), texts.pop("internal", False)
        columns = {column: texts.get(column) or shared[column] for column in texts.pop("columns", texts)}
        described.append(Relation(name, about, columns, is_internal))
    return tuple(described)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _catalog() -> str:
    rows = [
        f"({_literal(relation.name)}, {_literal(column)}, {_literal(text)}, {int(not relation.internal)})"
        for relation in relations()
        for column, text in {"": relation.about, **relation.columns}.items()
    ]
    body = ",\n".join(rows)
    return (
        "WITH described(relation, column_name, description, stable) AS (VALUES\n"
        f"{body}\n) SELECT relation, column_name, description, stable FROM described"
    )


VIEWS = {
    "catalog": _catalog(),
    "rule_table": f"""
SELECT r.id, r.source, r.target, r.expected_uses, {standard_error_sql("r.")} AS expected_uses_error,
       r.expected_uses
         / (SELECT sum(s.expected_uses) FROM rules AS s WHERE s.source = r.source) AS p_target_given_source,
       r.expected_uses
         / (SELECT sum(t.expected_uses) FROM rules AS t WHERE t.target = r.target) AS p_source_given_target,
       r.count, r.length, r.scope, r.nonterminals, r.hiero
  FROM rules AS r
 WHERE r.expected_uses > 0""",
    "current_sample_rule_table": """
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
    "current_sample_by_source": """
SELECT id, source, target, count,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY source) AS p_target_given_source,
       scope, nonterminals, hiero
  FROM rules
 WHERE count > 0""",
    "current_sample_by_target": """
SELECT id, target, source, count,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY target) AS p_source_given_target,
       scope, nonterminals, hiero
  FROM rules
 WHERE count > 0""",
    "current_sample_grammar": """
SELECT id, source, target, count,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY source) AS p_target_given_source,
       CAST(count AS DOUBLE PRECISION) / sum(count) OVER (PARTITION BY target) AS p_source_given_target,
       CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END AS words_only, CASE WHEN count = 1 THEN 1 ELSE 0 END AS singleton,
       scope, nonterminals, hiero
  FROM rules
 WHERE count > 0""",
    "averaged_grammar": f"""
SELECT id, source, target,
       expected_uses, {standard_error_sql()} AS expected_uses_error,
       expected_uses / sum(expected_uses) OVER (PARTITION BY source) AS p_target_given_source,
       expected_uses / sum(expected_uses) OVER (PARTITION BY target) AS p_source_given_target,
       CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END AS words_only,
       scope, nonterminals, hiero
  FROM rules
 WHERE expected_uses > 0""",
    "translation_grammar": """
SELECT id, source, target, translation_weight,
       translation_weight / sum(translation_weight) OVER (PARTITION BY source) AS p_target_given_source,
       translation_weight / sum(translation_weight) OVER (PARTITION BY target) AS p_source_given_target,
       expected_uses, minimal_uses,
       CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END AS words_only,
       scope, nonterminals, hiero
  FROM (
        SELECT id, source, target, expected_uses + minimal_uses / 8.0 AS translation_weight,
               expected_uses, minimal_uses, scope, nonterminals, hiero
          FROM rules
       ) AS weighted
 WHERE translation_weight > 0""",
    "rule_changes": f"""
SELECT c.day, c.rule_id, c.source, c.target, c.expected_uses_before, c.expected_uses_now,
       c.expected_uses_now - c.expected_uses_before AS change, sqrt(c.squared_error) AS standard_error,
       CASE WHEN abs(c.expected_uses_now - c.expected_uses_before) > 2 * sqrt(c.squared_error) THEN 1 ELSE 0 END
         AS significant
  FROM (
        SELECT h.day, h.rule_id, h.source, h.target,
               h.expected_uses AS expected_uses_before, coalesce(r.expected_uses, 0) AS expected_uses_now,
               {squared_error_sql("h.expected_uses", "h.expected_uses_variance")}
                 + coalesce({squared_error_sql("r.expected_uses", "r.expected_uses_variance")}, 0) AS squared_error
          FROM rule_history AS h
          LEFT JOIN rules AS r ON r.id = coalesce(
                 (SELECT s.id FROM rules AS s WHERE s.id = h.rule_id AND s.source = h.source AND s.target = h.target),
                 (SELECT t.id FROM rules AS t WHERE t.source = h.source AND t.target = h.target)
               )
       ) AS c""",
    "rule_support": """
SELECT r.id AS rule_id, r.source AS rule_source, r.target AS rule_target, u.uses, p.id AS pair_id, c.name AS corpus,
       p.source, p.target, p.alignment, CASE WHEN i.position = v.position THEN 1 ELSE 0 END AS current
  FROM rules AS r
  JOIN rule_pairs AS u ON u.rule_id = r.id
  JOIN sentence_pairs AS p ON p.id = u.pair_id
  JOIN indexed_pairs AS i ON i.pair_id = p.id
  JOIN pair_positions AS v ON v.pair_id = p.id
  JOIN corpora AS c ON c.id = p.corpus_id""",
    "scored_pairs": """
SELECT s.pair_id, c.name AS corpus, p.source, p.target, s.doubt, s.evidence, s.log_probability,
       s.unseen, s.source_misfit_log_odds, s.target_misfit_log_odds, s.links, s.scored_at
  FROM pair_scores AS s
  JOIN sentence_pairs AS p ON p.id = s.pair_id
  JOIN corpora AS c ON c.id = p.corpus_id""",
    "pairs_by_day": """
SELECT {day} AS day, count(*) AS pairs,
       sum(source_length) AS source_tokens, sum(target_length) AS target_tokens
  FROM sentence_pairs
 GROUP BY {day}""",
    "rejections": """
SELECT reason, origin, CAST(sum(last_line - line + 1) AS BIGINT) AS lines
  FROM rejected_lines
 GROUP BY reason, origin""",
}
"""SELECT statements by view name, in the order of creation. Replace `{day}` by an expression of `DAY`."""

DAY = {
    "sqlite": "date(added_at)",
    "postgresql": "to_char(added_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}
"""SQL expressions, by dialect, of the day on which a pair was stored."""


def comments() -> list[str]:
    """Return the statements that add the descriptions to tables, views and columns on Postgres."""
    statements = []
    for relation in relations():
        kind = "VIEW" if relation.name in VIEWS else "TABLE"
        statements.append(f"COMMENT ON {kind} {relation.name} IS {_literal(relation.about)}")
        statements += [
            f'COMMENT ON COLUMN {relation.name}."{column}" IS {_literal(text)}'
            for column, text in relation.columns.items()
        ]
    return statements
