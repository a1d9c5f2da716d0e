"""The schema: tables, indexes, views, and the rows that every store has."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

_BLOCK_BITS = 17
_RULES = 1 << 20

_VIEWS = {
    "rule_table": """
SELECT r.id, r.source, r.target, r.expected_uses, sqrt(r.expected_uses_variance) AS expected_uses_error,
       r.expected_uses
         / (SELECT sum(s.expected_uses) FROM rules AS s WHERE s.source = r.source) AS p_target_given_source,
       r.expected_uses
         / (SELECT sum(t.expected_uses) FROM rules AS t WHERE t.target = r.target) AS p_source_given_target,
       r.count, r.length, r.scope, r.nonterminals, r.hiero, r.label
  FROM rules AS r
 WHERE r.expected_uses > 0""",
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
       expected_uses, sqrt(expected_uses_variance) AS expected_uses_error,
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
    "rule_changes": """
SELECT c.day, c.rule_id, c.source, c.target, c.expected_uses_before, c.expected_uses_now,
       c.expected_uses_now - c.expected_uses_before AS change, sqrt(c.variance) AS error,
       CASE WHEN abs(c.expected_uses_now - c.expected_uses_before) > 2 * sqrt(c.variance) THEN 1 ELSE 0 END AS news
  FROM (
        SELECT h.day, h.rule_id, h.source, h.target,
               h.expected_uses AS expected_uses_before, coalesce(r.expected_uses, 0) AS expected_uses_now,
               h.expected_uses_variance + coalesce(r.expected_uses_variance, 0) AS variance
          FROM rule_history AS h
          LEFT JOIN rules AS r ON r.source = h.source AND r.target = h.target
       ) AS c""",
    "rule_support": """
SELECT r.id AS rule_id, r.source AS rule_source, r.target AS rule_target, u.uses, p.id AS pair_id, c.name AS corpus,
       p.source, p.target, p.alignment, CASE WHEN i.position = v.position THEN 1 ELSE 0 END AS current
  FROM rules AS r
  JOIN rule_pairs AS u ON u.rule_id = r.id
  JOIN sentence_pairs AS p ON p.id = u.pair_id
  JOIN indexed_pairs AS i ON i.pair_id = p.id
  JOIN resampled AS v ON v.pair_id = p.id
  JOIN corpora AS c ON c.id = p.corpus_id""",
    "scored_pairs": """
SELECT s.pair_id, c.name AS corpus, p.source, p.target, s.doubt, s.evidence, s.log_probability,
       s.unseen, s.source_misfit, s.target_misfit, s.links, s.scored_at
  FROM pair_scores AS s
  JOIN sentence_pairs AS p ON p.id = s.pair_id
  JOIN corpora AS c ON c.id = p.corpus_id""",
    "growth": """
SELECT {day} AS day, count(*) AS pairs,
       sum(source_length) AS source_tokens, sum(target_length) AS target_tokens
  FROM sentence_pairs
 GROUP BY {day}""",
    "rejections": """
SELECT reason, origin, CAST(sum(last_line - line + 1) AS BIGINT) AS number
  FROM rejected_lines
 GROUP BY reason, origin""",
}
_DAY = {
    "sqlite": "date(added_at)",
    "postgresql": "to_char(added_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}

_TABLES = (
    "aligner_jumps",
    "aligner_lexicon",
    "aligner_words",
    "claims",
    "corpora",
    "event_state",
    "events",
    "exports",
    "failed_files",
    "indexed_pairs",
    "labels",
    "learning_runs",
    "pair_scores",
    "pair_words",
    "reported_rules",
    "requests",
    "resampled",
    "restarts",
    "rule_history",
    "rule_key_runs",
    "rule_pairs",
    "rule_words",
    "rules",
    "scheduled_jobs",
    "sentence_pairs",
    "settings",
    "store_state",
    "sweeps",
    "vocabulary",
    "webhook_deliveries",
    "webhooks",
    "withdrawals",
    "corrections",
    "derivations",
    "human_links",
    "ingest_batches",
    "pair_links",
    "rejected_lines",
)


def upgrade() -> None:
    connection = op.get_bind()
    dialect = connection.dialect.name
    _make_tables()
    op.execute("INSERT INTO event_state (id, last_id, kept) VALUES (1, 0, 100000)")
    if dialect == "sqlite":
        _index_rules_by_blocks(connection)
    else:
        for side in ("source", "target"):
            op.create_index(f"rules_by_{side}", "rules", [side], postgresql_using="hash")
        # Random bytes, which it would try to compress.
        op.execute("ALTER TABLE rule_key_runs ALTER COLUMN content SET STORAGE EXTERNAL")
    for name, query in _VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query.strip().format(day=_DAY[dialect])}")


def _index_rules_by_blocks(connection: sa.Connection) -> None:
    for side in ("source", "target"):
        op.create_index(f"rules_by_{side}", "rules", [sa.text(f"id >> {_BLOCK_BITS}"), side])
    # What ANALYZE would find in a large store: rules, rules of a block, rules of a block with the same side. Without
    # it, SQLite would read all rules to find one by its side.
    connection.exec_driver_sql("ANALYZE sqlite_master")
    connection.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE tbl = 'rules'")
    for side in ("source", "target"):
        connection.exec_driver_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('rules', ?, ?)",
            (f"rules_by_{side}", f"{_RULES} {1 << _BLOCK_BITS} 4"),
        )
    # Has the connection read it.
    connection.exec_driver_sql("ANALYZE sqlite_master")


def downgrade() -> None:
    for name in reversed(_VIEWS):
        op.execute(f"DROP VIEW {name}")
    for name in reversed(_TABLES):
        op.drop_table(name)


def _make_tables() -> None:
    op.create_table(
        "aligner_jumps",
        sa.Column("direction", TEXT, primary_key=True),
        sa.Column("width", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "aligner_lexicon",
        sa.Column("source", TEXT, primary_key=True),
        sa.Column("target", TEXT, primary_key=True),
        sa.Column("forward", sa.BigInteger, nullable=False),
        sa.Column("backward", sa.BigInteger, nullable=False),
        postgresql_with={"fillfactor": 80},
        sqlite_with_rowid=False,
    )
    op.create_table(
        "aligner_words",
        sa.Column("side", TEXT, primary_key=True),
        sa.Column("word", TEXT, primary_key=True),
        sa.Column("links", sa.BigInteger, nullable=False),
        sa.Column("with_0", sa.BigInteger, nullable=False),
        sa.Column("with_1", sa.BigInteger, nullable=False),
        sa.Column("with_2", sa.BigInteger, nullable=False),
        sa.Column("with_3", sa.BigInteger, nullable=False),
        sa.Column("with_4", sa.BigInteger, nullable=False),
        sa.Column("with_5", sa.BigInteger, nullable=False),
        sa.Column("with_6", sa.BigInteger, nullable=False),
        sa.Column("with_7", sa.BigInteger, nullable=False),
        postgresql_with={"fillfactor": 80},
        sqlite_with_rowid=False,
    )
    op.create_table(
        "claims",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("process", TEXT, nullable=False),
        sa.Column("command", TEXT, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
    )
    op.create_table(
        "corpora",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("pairs", sa.BigInteger, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
    )
    op.create_index("corpora_by_name", "corpora", ["name"], unique=True)
    op.create_table(
        "event_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.Column("kept", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="event_state_has_one_row"),
    )
    op.create_table(
        "events",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("rule_id", sa.BigInteger),
        sa.Column("source", TEXT),
        sa.Column("target", TEXT),
        sa.Column("expected_uses_before", sa.Double),
        sa.Column("expected_uses_now", sa.Double),
        sa.Column("error", sa.Double),
        sa.Column("number", sa.BigInteger),
        sa.Column("detail", TEXT),
    )
    op.create_index("events_by_kind", "events", ["kind", "id"])
    op.create_table(
        "exports",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("format", TEXT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("rules", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("sha256", TEXT),
        sa.Column("position", sa.BigInteger),
        sa.Column("error", TEXT),
        sa.Column("manifest", TEXT),
        sa.Column("job", TEXT),
        sa.Column("process", TEXT),
        sa.Column("seconds", sa.Double),
        sa.Column("last_event", sa.BigInteger),
        sa.CheckConstraint("state IN ('running', 'done', 'failed')", name="exports_state"),
    )
    op.create_index("exports_by_job", "exports", ["job", "state", "id"])
    op.create_index(
        "exports_running",
        "exports",
        ["id"],
        postgresql_where=sa.text("state = 'running'"),
        sqlite_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "failed_files",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("corpus", TEXT, nullable=False),
        sa.Column("file", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
    )
    op.create_table(
        "indexed_pairs",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "labels",
        sa.Column("label", TEXT, primary_key=True),
        sa.Column("strength", sa.Double, nullable=False),
        sa.Column("expansion_probability", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "learning_runs",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("sweeps", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("after_id", SERIAL, nullable=False),
        sa.Column("within", sa.BigInteger, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
    )
    op.create_table(
        "pair_scores",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("scored_at", MOMENT, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("doubt", sa.Double, nullable=False),
        sa.Column("log_probability", sa.Double, nullable=False),
        sa.Column("evidence", sa.Double, nullable=False),
        sa.Column("unseen", sa.Double, nullable=False),
        sa.Column("pieces", sa.Integer, nullable=False),
        sa.Column("exact", sa.Boolean, nullable=False),
        sa.Column("source_misfit", sa.Double),
        sa.Column("source_misfit_word", sa.Integer),
        sa.Column("target_misfit", sa.Double),
        sa.Column("target_misfit_word", sa.Integer),
        sa.Column("links", TEXT, nullable=False),
        sa.Column("derivation", sa.Double),
    )
    op.create_index("pair_scores_by_evidence", "pair_scores", ["evidence", "pair_id"])
    op.create_table(
        "pair_words",
        sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("word_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("pairs", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reported_rules",
        sa.Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("expected_uses", sa.Double, nullable=False),
        sa.Column("expected_uses_variance", sa.Double, nullable=False),
    )
    op.create_table(
        "requests",
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("corpus", TEXT, nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
        sa.Column("answer", TEXT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("touched_at", MOMENT, nullable=False),
    )
    op.create_index("requests_by_touch", "requests", ["touched_at"])
    op.create_table(
        "resampled",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    op.create_index("resampled_by_position", "resampled", ["position", "pair_id"])
    op.create_table(
        "restarts",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "rule_history",
        sa.Column("day", TEXT, primary_key=True),
        sa.Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("expected_uses", sa.Double, nullable=False),
        sa.Column("expected_uses_variance", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rule_key_runs",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
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
        "rule_words",
        sa.Column("word_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rules",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("key_high", sa.BigInteger, nullable=False),
        sa.Column("key_low", sa.BigInteger, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("scope", sa.Integer, nullable=False),
        sa.Column("nonterminals", sa.Integer, nullable=False),
        sa.Column("source_terminals", sa.Integer, nullable=False),
        sa.Column("target_terminals", sa.Integer, nullable=False),
        sa.Column("label", sa.Integer, nullable=False, server_default="0"),
        sa.Column("hiero", sa.Boolean, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("expected_uses", sa.Double, nullable=False),
        sa.Column("expected_uses_variance", sa.Double, nullable=False, server_default="0"),
        sa.Column("minimal_uses", sa.BigInteger, nullable=False, server_default="0"),
        sa.CheckConstraint(
            "count >= 0 AND expected_uses >= 0 AND minimal_uses >= 0 AND count + expected_uses + minimal_uses > 0",
            name="rules_counts",
        ),
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "scheduled_jobs",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("configured", sa.Boolean, nullable=False),
        sa.Column("next_run", sa.Double),
        sa.Column("unchanged_at", sa.Double),
        sa.Column("job", TEXT, nullable=False),
    )
    op.create_table(
        "sentence_pairs",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("corpus_id", SERIAL, nullable=False),
        sa.Column("batch_id", SERIAL, nullable=False),
        sa.Column("external_id", TEXT),
        sa.Column("identity", sa.LargeBinary, nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("alignment", TEXT, nullable=False),
        sa.Column("aligned_by", TEXT, nullable=False),
        sa.Column("source_length", sa.Integer, nullable=False),
        sa.Column("target_length", sa.Integer, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("sweep", sa.BigInteger, nullable=False),
        sa.Column("added_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "state = 'unaligned' OR state = 'waiting' OR state = 'sampling' OR state = 'settled'",
            name="sentence_pairs_state",
        ),
        sa.CheckConstraint(
            "aligned_by = 'nobody' OR aligned_by = 'given' OR aligned_by = 'aligner'", name="sentence_pairs_aligned_by"
        ),
    )
    op.create_index(
        "sentence_pairs_by_external_id",
        "sentence_pairs",
        ["corpus_id", "external_id"],
        postgresql_where=sa.text("external_id IS NOT NULL"),
        sqlite_where=sa.text("external_id IS NOT NULL"),
    )
    op.create_index("sentence_pairs_by_identity", "sentence_pairs", ["identity"], unique=True)
    op.create_index("sentence_pairs_by_state", "sentence_pairs", ["state", "id"])
    op.create_table(
        "settings",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("value", TEXT, nullable=False),
    )
    op.create_table(
        "store_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("grammar_position", sa.BigInteger, nullable=False),
        sa.Column("last_pair_id", sa.BigInteger, nullable=False),
        sa.Column("last_rule_id", sa.BigInteger, nullable=False),
        sa.Column("last_word_id", sa.BigInteger, nullable=False),
        sa.Column("unaligned", sa.BigInteger, nullable=False),
        sa.Column("waiting", sa.BigInteger, nullable=False),
        sa.Column("sampling", sa.BigInteger, nullable=False),
        sa.Column("settled", sa.BigInteger, nullable=False),
        sa.Column("source_types", sa.BigInteger, nullable=False),
        sa.Column("target_types", sa.BigInteger, nullable=False),
        sa.Column("rules_in_use", sa.BigInteger, nullable=False),
        sa.Column("rules_expected", sa.BigInteger, nullable=False),
        sa.Column("rules_stored", sa.BigInteger, nullable=False),
        sa.Column("rule_tokens", sa.BigInteger, nullable=False),
        sa.Column("expected_tokens", sa.Double, nullable=False),
        sa.Column("rejected", sa.BigInteger, nullable=False),
        sa.Column("sweeps", sa.BigInteger, nullable=False),
        sa.Column("left_out_0", sa.Double, nullable=False, server_default="0"),
        sa.Column("left_out_1", sa.Double, nullable=False, server_default="0"),
        sa.Column("left_out_2", sa.Double, nullable=False, server_default="0"),
        sa.Column("left_out_3", sa.Double, nullable=False, server_default="0"),
        sa.Column("day", TEXT, nullable=False, server_default=""),
        sa.Column("last_rule_id_before", sa.BigInteger, nullable=False, server_default="0"),
        sa.CheckConstraint("id = 1", name="store_state_has_one_row"),
    )
    op.create_table(
        "sweeps",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("pairs", sa.BigInteger, nullable=False),
        sa.Column("log_likelihood", sa.Double),
        sa.Column("edges_sampled", sa.BigInteger, nullable=False),
        sa.Column("edges_changed", sa.BigInteger, nullable=False),
        sa.Column("cuts_sampled", sa.BigInteger, nullable=False),
        sa.Column("cuts_changed", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("finished_at", MOMENT, nullable=False),
        sa.Column("log_likelihood_before", sa.Double),
    )
    op.create_table(
        "vocabulary",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("side", TEXT, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("folded", TEXT, nullable=False, server_default=""),
        sa.CheckConstraint("side IN ('source', 'target')", name="vocabulary_side"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index("vocabulary_by_form", "vocabulary", ["folded", "side"])
    op.create_index("vocabulary_by_token", "vocabulary", ["token", "side"], unique=True)
    op.create_table(
        "webhook_deliveries",
        sa.Column("url", TEXT, primary_key=True),
        sa.Column("event_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("body", TEXT, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("error", TEXT),
        sa.CheckConstraint("state IN ('waiting', 'done', 'failed')", name="webhook_deliveries_state"),
        sqlite_with_rowid=False,
    )
    op.create_index("webhook_deliveries_by_state", "webhook_deliveries", ["state", "next_at"])
    op.create_table(
        "webhooks",
        sa.Column("url", TEXT, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "withdrawals",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("corpus_id", SERIAL, nullable=False),
        sa.Column("batch_id", SERIAL, nullable=False),
        sa.Column("requested_at", MOMENT, nullable=False),
        sa.Column("done_at", MOMENT),
    )
    op.create_index(
        "withdrawals_pending",
        "withdrawals",
        ["pair_id"],
        postgresql_where=sa.text("done_at IS NULL"),
        sqlite_where=sa.text("done_at IS NULL"),
    )
    op.create_table(
        "corrections",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("given", TEXT),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    op.create_index("corrections_by_text", "corrections", ["digest"])
    op.create_index(
        "corrections_pending",
        "corrections",
        ["pair_id"],
        postgresql_where=sa.text("done < asked"),
        sqlite_where=sa.text("done < asked"),
    )
    op.create_table(
        "derivations",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("current", sa.LargeBinary, nullable=False),
        sa.Column("averages", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "human_links",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("source", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("target", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("fixed", sa.Boolean, nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("added_at", MOMENT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ingest_batches",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("corpus_id", SERIAL, sa.ForeignKey("corpora.id"), nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("format", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("accepted", sa.BigInteger, nullable=False),
        sa.Column("duplicates", sa.BigInteger, nullable=False),
        sa.Column("rejected", sa.BigInteger, nullable=False),
        sa.Column("error", TEXT),
        sa.Column("notes", TEXT),
        sa.CheckConstraint("state IN ('running', 'done', 'failed')", name="ingest_batches_state"),
    )
    op.create_table(
        "pair_links",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("forward", sa.LargeBinary, nullable=False),
        sa.Column("backward", sa.LargeBinary, nullable=False),
        sa.Column("sweep", sa.BigInteger, nullable=False),
    )
    op.create_index("pair_links_by_sweep", "pair_links", ["sweep", "pair_id"])
    op.create_table(
        "rejected_lines",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("batch_id", SERIAL, sa.ForeignKey("ingest_batches.id"), nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("line", sa.BigInteger, nullable=False),
        sa.Column("last_line", sa.BigInteger, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    op.create_index("rejected_lines_by_digest", "rejected_lines", ["digest"], unique=True)
