"""Scores of pairs under the grammar."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

SCORED_PAIRS = """
CREATE VIEW scored_pairs AS
SELECT s.pair_id, c.name AS corpus, p.source, p.target, s.evidence, s.log_probability, s.log_probability_error,
       s.unseen, s.unseen_error, s.source_misfit, s.target_misfit, s.links, s.scored_at
  FROM pair_scores AS s
  JOIN sentence_pairs AS p ON p.id = s.pair_id
  JOIN corpora AS c ON c.id = p.corpus_id"""


def upgrade() -> None:
    op.create_table(
        "pair_scores",
        sa.Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("scored_at", MOMENT, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("log_probability", sa.Double, nullable=False),
        sa.Column("log_probability_error", sa.Double),
        sa.Column("evidence", sa.Double, nullable=False),
        sa.Column("unseen", sa.Double, nullable=False),
        sa.Column("unseen_error", sa.Double),
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
    op.execute(SCORED_PAIRS)


def downgrade() -> None:
    op.execute("DROP VIEW scored_pairs")
    op.drop_table("pair_scores")
