"""Pairs may arrive without an alignment: who aligned a pair, the state before, and what the aligner has learned."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

_STATES = "state IN ('waiting', 'sampling', 'settled')"
_STATES_NOW = "state IN ('unaligned', 'waiting', 'sampling', 'settled')"
_ALIGNERS = "aligned_by IN ('nobody', 'given', 'aligner')"

_GROWTH = """CREATE VIEW growth AS SELECT date(added_at) AS day, count(*) AS pairs,
       sum(source_length) AS source_tokens, sum(target_length) AS target_tokens
  FROM sentence_pairs
 GROUP BY date(added_at)"""

_PAIR_COLUMNS = (
    "id, corpus_id, batch_id, external_id, identity, source, target, alignment, source_length, target_length, state, "
    "stage, sweep, added_at"
)
_TOTALS = (
    "id, position, last_pair_id, last_rule_id, last_word_id, waiting, sampling, settled, source_types, target_types, "
    "rules, rule_tokens, sampled_tokens, rejected, sweeps"
)


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _rebuild(
            more_totals=[sa.Column("unaligned", sa.BigInteger, nullable=False)],
            more_columns=[sa.Column("aligned_by", TEXT, nullable=False)],
            checks=[
                sa.CheckConstraint(_STATES_NOW, name="sentence_pairs_state"),
                sa.CheckConstraint(_ALIGNERS, name="sentence_pairs_aligned_by"),
            ],
            totals="unaligned",
            columns="aligned_by",
            values=("0", "'given'"),
        )
    else:
        op.add_column("store_state", sa.Column("unaligned", sa.BigInteger, nullable=False, server_default="0"))
        op.alter_column("store_state", "unaligned", server_default=None)
        op.add_column("sentence_pairs", sa.Column("aligned_by", TEXT, nullable=False, server_default="given"))
        op.alter_column("sentence_pairs", "aligned_by", server_default=None)
        op.drop_constraint("sentence_pairs_state", "sentence_pairs")
        op.create_check_constraint("sentence_pairs_state", "sentence_pairs", _STATES_NOW)
        op.create_check_constraint("sentence_pairs_aligned_by", "sentence_pairs", _ALIGNERS)
    op.create_table(
        "pair_links",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("forward", sa.LargeBinary, nullable=False),
        sa.Column("backward", sa.LargeBinary, nullable=False),
        sa.Column("sweep", sa.BigInteger, nullable=False),
    )
    op.create_index("pair_links_by_sweep", "pair_links", ["sweep", "pair_id"])
    op.create_table(
        "aligner_lexicon",
        sa.Column("source", TEXT, primary_key=True),
        sa.Column("target", TEXT, primary_key=True),
        sa.Column("forward", sa.BigInteger, nullable=False),
        sa.Column("backward", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "aligner_words",
        sa.Column("side", TEXT, primary_key=True),
        sa.Column("word", TEXT, primary_key=True),
        sa.Column("links", sa.BigInteger, nullable=False),
        *(sa.Column(f"with_{number}", sa.BigInteger, nullable=False) for number in range(8)),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 80},
    )
    op.create_table(
        "aligner_jumps",
        sa.Column("direction", TEXT, primary_key=True),
        sa.Column("width", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Pairs without an alignment stay, as pairs without any link."""
    for table in ("aligner_jumps", "aligner_words", "aligner_lexicon", "pair_links"):
        op.drop_table(table)
    op.execute("UPDATE sentence_pairs SET state = 'waiting' WHERE state = 'unaligned'")
    op.execute("UPDATE store_state SET waiting = waiting + unaligned")
    if op.get_bind().dialect.name == "sqlite":
        _rebuild([], [], [sa.CheckConstraint(_STATES, name="sentence_pairs_state")], "", "", ())
    else:
        op.drop_constraint("sentence_pairs_aligned_by", "sentence_pairs")
        op.drop_constraint("sentence_pairs_state", "sentence_pairs")
        op.create_check_constraint("sentence_pairs_state", "sentence_pairs", _STATES)
        op.drop_column("sentence_pairs", "aligned_by")
        op.drop_column("store_state", "unaligned")


def _rebuild(
    more_totals: list[sa.Column[object]],
    more_columns: list[sa.Column[object]],
    checks: list[sa.CheckConstraint],
    totals: str,
    columns: str,
    values: tuple[str, ...],
) -> None:
    """SQLite cannot change a check or add a column before others: both tables are made anew, with what they held.

    `derivations` refers to the pairs, so it steps aside meanwhile.
    """
    op.execute("DROP VIEW growth")
    op.execute("CREATE TABLE kept_derivations AS SELECT pair_id, current, ring FROM derivations")
    op.execute("CREATE TABLE kept_pairs AS SELECT * FROM sentence_pairs")
    op.execute("CREATE TABLE kept_state AS SELECT * FROM store_state")
    for table in ("derivations", "sentence_pairs", "store_state"):
        op.drop_table(table)
    names = ("position", "last_pair_id", "last_rule_id", "last_word_id")
    later = (
        "waiting", "sampling", "settled", "source_types", "target_types", "rules", "rule_tokens", "sampled_tokens",
        "rejected", "sweeps",
    )  # fmt: skip
    op.create_table(
        "store_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in names),
        *more_totals,
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in later),
        sa.CheckConstraint("id = 1", name="store_state_has_one_row"),
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
        *more_columns,
        sa.Column("source_length", sa.Integer, nullable=False),
        sa.Column("target_length", sa.Integer, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("sweep", sa.BigInteger, nullable=False),
        sa.Column("added_at", MOMENT, nullable=False),
        *checks,
    )
    op.create_table(
        "derivations",
        sa.Column("pair_id", SERIAL, sa.ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
        sa.Column("current", sa.LargeBinary, nullable=False),
        sa.Column("ring", sa.LargeBinary, nullable=False),
    )
    total, value = values or ("", "")
    for table, kept, named, more, filled in (
        ("store_state", "kept_state", _TOTALS, totals, total),
        ("sentence_pairs", "kept_pairs", _PAIR_COLUMNS, columns, value),
    ):
        into, what = (f"{named}, {more}", f"{named}, {filled}") if more else (named, named)
        op.execute(f"INSERT INTO {table} ({into}) SELECT {what} FROM {kept}")
    op.execute("INSERT INTO derivations SELECT pair_id, current, ring FROM kept_derivations")
    for table in ("kept_derivations", "kept_pairs", "kept_state"):
        op.drop_table(table)
    op.create_index("sentence_pairs_by_identity", "sentence_pairs", ["identity"], unique=True)
    op.create_index("sentence_pairs_by_state", "sentence_pairs", ["state", "id"])
    op.create_index("sentence_pairs_by_sweep", "sentence_pairs", ["sweep", "id"])
    op.create_index(
        "sentence_pairs_by_external_id",
        "sentence_pairs",
        ["corpus_id", "external_id"],
        sqlite_where=sa.text("external_id IS NOT NULL"),
    )
    op.execute(_GROWTH)
