"""Scores of pairs under the grammar."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, Table

from hierogram.storage.schema.types import MOMENT, SERIAL, TEXT, metadata

# How probable pairs are under all that the store has learned, as it was at `position`; see `hierogram score --keep`.
pair_scores = Table(
    "pair_scores",
    metadata,
    Column("pair_id", SERIAL, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("scored_at", MOMENT, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("log_probability", Double, nullable=False),
    Column("log_probability_error", Double),
    Column("evidence", Double, nullable=False),
    Column("unseen", Double, nullable=False),
    Column("unseen_error", Double),
    Column("pieces", Integer, nullable=False),
    Column("exact", Boolean, nullable=False),
    Column("source_misfit", Double),
    Column("source_misfit_word", Integer),
    Column("target_misfit", Double),
    Column("target_misfit_word", Integer),
    Column("links", TEXT, nullable=False),
    Column("derivation", Double),
    Index("pair_scores_by_evidence", "evidence", "pair_id"),
)
