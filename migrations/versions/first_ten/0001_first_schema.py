"""The first schema: pairs, derivations, rules with their words, and the history of what was done."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

_VIEWS = {
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
    "growth": """
SELECT {day} AS day, count(*) AS pairs,
       sum(source_length) AS source_tokens, sum(target_length) AS target_tokens
  FROM sentence_pairs
 GROUP BY {day}""",
    "rejections": """
SELECT reason, origin, count(*) AS number
  FROM rejected_lines
 GROUP BY reason, origin""",
}
_DAY = {
    "sqlite": "date(added_at)",
    "postgresql": "to_char(added_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}

_TABLES = (
    "settings",
    "store_state",
    "corpora",
    "ingest_batches",
    "sentence_pairs",
    "derivations",
    "rules",
    "vocabulary",
    "rule_words",
    "rejected_lines",
    "sweeps",
    "exports",
)


def upgrade() -> None:
    op.create_table(
        "settings",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("value", TEXT, nullable=False),
    )
    op.create_table(
        "store_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("last_pair_id", sa.BigInteger, nullable=False),
        sa.Column("last_rule_id", sa.BigInteger, nullable=False),
        sa.Column("last_word_id", sa.BigInteger, nullable=False),
        sa.Column("waiting", sa.BigInteger, nullable=False),
        sa.Column("sampling", sa.BigInteger, nullable=False),
        sa.Column("settled", sa.BigInteger, nullable=False),
        sa.Column("source_types", sa.BigInteger, nullable=False),
        sa.Column("target_types", sa.BigInteger, nullable=False),
        sa.Column("rules", sa.BigInteger, nullable=False),
        sa.Column("rule_tokens", sa.BigInteger, nullable=False),
        sa.Column("sampled_tokens", sa.BigInteger, nullable=False),
        sa.Column("rejected", sa.BigInteger, nullable=False),
        sa.Column("sweeps", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="store_state_has_one_row"),
    )
    op.create_table(
        "corpora",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("pairs", sa.BigInteger, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
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
        sa.CheckConstraint("state IN ('running', 'done', 'failed')", name="ingest_batches_state"),
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
        sa.Column("source_length", sa.Integer, nullable=False),
        sa.Column("target_length", sa.Integer, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("sweep", sa.BigInteger, nullable=False),
        sa.Column("added_at", MOMENT, nullable=False),
        sa.CheckConstraint("state IN ('waiting', 'sampling', 'settled')", name="sentence_pairs_state"),
    )
    op.create_table(
        "derivations",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("current", sa.LargeBinary, nullable=False),
        sa.Column("ring", sa.LargeBinary, nullable=False),
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
        sa.Column("hiero", sa.Boolean, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("sampled_count", sa.BigInteger, nullable=False),
        sa.CheckConstraint("count >= 0 AND sampled_count >= 0 AND count + sampled_count > 0", name="rules_counts"),
        # Room on each page for the new version of a row whose counts change.
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "vocabulary",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("side", TEXT, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.CheckConstraint("side IN ('source', 'target')", name="vocabulary_side"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "rule_words",
        sa.Column("word_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("rule_id", SERIAL, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rejected_lines",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("batch_id", SERIAL, sa.ForeignKey("ingest_batches.id"), nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("line", sa.BigInteger, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
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
    )
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
        sa.CheckConstraint("state IN ('running', 'done', 'failed')", name="exports_state"),
    )
    op.create_index("corpora_by_name", "corpora", ["name"], unique=True)
    op.create_index("vocabulary_by_token", "vocabulary", ["token", "side"], unique=True)
    op.create_index("rejected_lines_by_digest", "rejected_lines", ["digest"], unique=True)
    op.create_index("sentence_pairs_by_identity", "sentence_pairs", ["identity"], unique=True)
    op.create_index("sentence_pairs_by_state", "sentence_pairs", ["state", "id"])
    op.create_index("sentence_pairs_by_sweep", "sentence_pairs", ["sweep", "id"])
    op.create_index(
        "sentence_pairs_by_external_id",
        "sentence_pairs",
        ["corpus_id", "external_id"],
        sqlite_where=sa.text("external_id IS NOT NULL"),
        postgresql_where=sa.text("external_id IS NOT NULL"),
    )
    op.create_index("rules_by_key", "rules", ["key_high", "key_low"], unique=True)
    dialect = op.get_bind().dialect.name
    if dialect == "sqlite":
        op.create_index("rules_by_source", "rules", ["source", "count"])
        op.create_index("rules_by_target", "rules", ["target", "count"])
    else:
        op.create_index("rules_by_source", "rules", ["source"], postgresql_using="hash")
        op.create_index("rules_by_target", "rules", ["target"], postgresql_using="hash")
    for name, text in _VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {text.strip().format(day=_DAY[dialect])}")


def downgrade() -> None:
    for name in reversed(_VIEWS):
        op.execute(f"DROP VIEW {name}")
    for name in reversed(_TABLES):
        op.drop_table(name)
