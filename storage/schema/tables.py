"""Tables and indexes of the store.

`catalog.toml` describes the tables and columns. Texts compare and sort by their UTF-8 bytes on both databases. The ids
of pairs, rules and words are allocated from `store_state` and not from database sequences, so that the same input gets
the same ids everywhere, and ids are never reused.
"""

from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator, TypeEngine

TEXT = Text().with_variant(Text(collation="C"), "postgresql")
WHOLE = BigInteger()
SERIAL = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT_FORMAT = "%Y-%m-%d %H:%M:%S"


class Moment(TypeDecorator[datetime]):
    """Time in UTC in whole seconds. SQLite stores a text for its date functions, Postgres a timestamp."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str] | TypeEngine[datetime]:
        """Return the column type of the dialect."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> object:
        """Convert a value for the driver."""
        if value is None:
            return None
        utc = value.astimezone(UTC).replace(microsecond=0)
        return utc.strftime(_MOMENT_FORMAT) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: object, dialect: Dialect) -> datetime | None:
        """Convert a value of the driver to a time in UTC."""
        if isinstance(value, str):
            return datetime.strptime(value, _MOMENT_FORMAT).replace(tzinfo=UTC)
        return value.astimezone(UTC) if isinstance(value, datetime) else None


MOMENT = Moment()


Item = TypeVar("Item", Table, Index)

# Postgres options are set only when an engine for Postgres is created, because SQLAlchemy imports the Postgres dialect
# with the support of all drivers when the first option is set.
_deferred_options: list[tuple[Table | Index, str, object]] = []


def on_postgres(item: Item, option: str, value: object) -> Item:
    """Set a Postgres option of a table or index as soon as an engine for Postgres is created. Returns the item."""
    _deferred_options.append((item, f"postgresql_{option}", value))
    return item


def set_postgres_options() -> None:
    """Set the deferred options of tables and indexes. Call this before creating an engine for Postgres."""
    while _deferred_options:
        item, option, value = _deferred_options.pop()
        item.dialect_kwargs[option] = value


def _partial_index(name: str, condition: ColumnElement[bool], *columns: Column[Any]) -> None:
    on_postgres(Index(name, *columns, sqlite_where=condition), "where", condition)


metadata = MetaData()


def _table(name: str, *items: SchemaItem, sqlite_with_rowid: bool = True) -> Table:
    return Table(name, metadata, *items, sqlite_with_rowid=sqlite_with_rowid)


def _id(name: str) -> Column[int]:
    """Return a primary key column whose values are assigned by the store."""
    return Column(name, SERIAL, primary_key=True, autoincrement=False)


def _required(kind: TypeEngine[Any], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: TypeEngine[Any], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


REVISIONS = ("0001",)
"""Known schema revisions, oldest first. This version reads the last revision, and upgrades the others."""

BLOCK_BITS = 17
"""Number of low bits of a rule id that differ within a block. SQLite's indexes by side are ordered by block first."""


settings = _table(
    "settings",
    Column("name", TEXT, primary_key=True),
    Column("value", TEXT, nullable=False),
)

# The totals are stored so that `status` takes constant time.
store_state = _table(
    "store_state",
    Column("id", Integer, primary_key=True, autoincrement=False),
    *_required(WHOLE, "position", "grammar_position", "last_pair_id", "last_rule_id", "last_word_id"),
    *_required(WHOLE, "unaligned", "waiting", "sampling", "settled", "source_types", "target_types"),
    *_required(WHOLE, "rules_in_use", "rules_expected", "rules_stored", "rule_tokens"),
    Column("expected_tokens", Double, nullable=False),
    *_required(WHOLE, "rejected_lines", "sweeps"),
    # Rules with ids above `last_rule_id_at_day_start` are new on `last_change_day`.
    Column("last_change_day", TEXT, nullable=False, server_default=""),
    Column("last_rule_id_at_day_start", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("id = 1", name="store_state_has_one_row"),
)

corpora = _table(
    "corpora",
    Column("id", SERIAL, primary_key=True),
    Column("name", TEXT, nullable=False),
    Column("pairs", BigInteger, nullable=False),
    Column("created_at", MOMENT, nullable=False),
    Index("corpora_by_name", "name", unique=True),
)

ingest_batches = _table(
    "ingest_batches",
    Column("id", SERIAL, primary_key=True),
    Column("corpus_id", SERIAL, ForeignKey("corpora.id"), nullable=False),
    *_required(TEXT, "origin", "format", "state"),
    Column("started_at", MOMENT, nullable=False),
    Column("finished_at", MOMENT),
    *_required(WHOLE, "accepted", "duplicates", "rejected"),
    *_optional(TEXT, "error", "notes"),
    CheckConstraint("state IN ('running', 'done', 'failed')", name="ingest_batches_state"),
)

sentence_pairs = _table(
    "sentence_pairs",
    _id("id"),
    *_required(SERIAL, "corpus_id", "batch_id"),
    Column("external_id", TEXT),
    Column("identity", LargeBinary, nullable=False),
    *_required(TEXT, "source", "target", "alignment"),
    Column("link_probabilities", TEXT),
    Column("aligned_by", TEXT, nullable=False),
    *_required(Integer(), "source_length", "target_length"),
    Column("state", TEXT, nullable=False),
    Column("stage", Integer, nullable=False),
    Column("sweep", BigInteger, nullable=False),
    Column("added_at", MOMENT, nullable=False),
    # Avoid `IN`, because SQLite would build a temporary index of the values for each inserted row.
    CheckConstraint(
        "state = 'unaligned' OR state = 'waiting' OR state = 'sampling' OR state = 'settled'",
        name="sentence_pairs_state",
    ),
    CheckConstraint(
        "aligned_by = 'none' OR aligned_by = 'given' OR aligned_by = 'aligner'", name="sentence_pairs_aligned_by"
    ),
)
Index("sentence_pairs_by_identity", sentence_pairs.c.identity, unique=True)
Index("sentence_pairs_by_state", sentence_pairs.c.state, sentence_pairs.c.id)
_partial_index(
    "sentence_pairs_by_external_id", sentence_pairs.c.external_id.is_not(None),
    sentence_pairs.c.corpus_id, sentence_pairs.c.external_id,
)  # fmt: skip

# Store a checksum, because a damaged derivation may be another valid derivation, which does not match the counts.
derivations = _table(
    "derivations",
    Column("pair_id", SERIAL, ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
    *_required(LargeBinary(), "current", "averages"),
    Column("checksum", BigInteger, nullable=False),
)

damaged_pairs = _table(
    "damaged_pairs",
    _id("pair_id"),
    Column("reason", TEXT, nullable=False),
    Column("found_at", MOMENT, nullable=False),
)

pair_positions = _table(
    "pair_positions",
    _id("pair_id"),
    Column("position", BigInteger, nullable=False),
    Index("pair_positions_by_position", "position", "pair_id"),
)

# The pair id is the primary key, because a pair is withdrawn only once, and its id is never reused.
withdrawals = _table(
    "withdrawals",
    _id("pair_id"),
    *_required(SERIAL, "corpus_id", "batch_id"),
    Column("requested_at", MOMENT, nullable=False),
    Column("done_at", MOMENT),
)
_partial_index("withdrawals_pending", withdrawals.c.done_at.is_(None), withdrawals.c.pair_id)

leases = _table(
    "leases",
    Column("name", TEXT, primary_key=True),
    *_required(TEXT, "token", "host"),
    Column("pid", Integer, nullable=False),
    *_required(TEXT, "process", "command"),
    *_required(MOMENT, "acquired_at", "expires_at"),
)

# Expected uses are multiples of 1/4096 use, and the variances of their errors are multiples of 1/4096² squared use.
# Sums below 2^41 uses and 2^29 squared uses (a standard error of 23,000 uses) are therefore exact in a double in any
# order, and a recount gives identical numbers.
rules = _table(
    "rules",
    _id("id"),
    *_required(TEXT, "source", "target"),
    *_required(WHOLE, "key_high", "key_low"),
    *_required(Integer(), "length", "scope", "nonterminals", "source_terminals", "target_terminals"),
    Column("hiero", Boolean, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("expected_uses", Double, nullable=False),
    Column("expected_uses_variance", Double, nullable=False, server_default="0"),
    Column("minimal_uses", BigInteger, nullable=False, server_default="0"),
    CheckConstraint(
        "count >= 0 AND expected_uses >= 0 AND minimal_uses >= 0 AND count + expected_uses + minimal_uses > 0",
        name="rules_counts",
    ),
)
# Reserve space on each page for new row versions, so that changes of counts need no new index entries.
on_postgres(rules, "with", {"fillfactor": 80})
# On SQLite, the indexes are ordered by block of ids first. A commit's new rules have the highest ids, so their entries
# are in the last blocks, and a commit changes few index pages in a store of any size. A lookup searches each block by a
# skip-scan, which SQLite chooses by the statistics in `sqlite_stat1` (from the migration or from ANALYZE). On Postgres,
# use hash indexes, because a B-tree cannot index a side of more than 2.7 kB.
Index("rules_by_source", text(f"id >> {BLOCK_BITS}"), rules.c.source).ddl_if(dialect="sqlite")
Index("rules_by_target", text(f"id >> {BLOCK_BITS}"), rules.c.target).ddl_if(dialect="sqlite")
on_postgres(Index("rules_by_source", rules.c.source), "using", "hash").ddl_if(dialect="postgresql")
on_postgres(Index("rules_by_target", rules.c.target), "using", "hash").ddl_if(dialect="postgresql")

rule_key_runs = _table(
    "rule_key_runs",
    _id("id"),
    Column("entries", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

vocabulary = _table(
    "vocabulary",
    _id("id"),
    *_required(TEXT, "side", "token"),
    Column("count", BigInteger, nullable=False),
    Column("folded", TEXT, nullable=False, server_default=""),
    CheckConstraint("side IN ('source', 'target')", name="vocabulary_side"),
    Index("vocabulary_by_token", "token", "side", unique=True),
    Index("vocabulary_by_form", "folded", "side"),
)
on_postgres(vocabulary, "with", {"fillfactor": 70})

# The index has no foreign keys, because checking them would take longer than the rest of a commit. A rule without a
# count and with less than 0.5 expected uses may have no rows. A negative word id is an anchor of the rule, see
# `hierogram.storage.grammar.rule_words`.
rule_words = _table(
    "rule_words",
    _id("word_id"),
    _id("rule_id"),
    sqlite_with_rowid=False,
)

pair_words = _table(
    "pair_words",
    Column("block", Integer, primary_key=True, autoincrement=False),
    _id("word_id"),
    Column("pairs", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

rule_history = _table(
    "rule_history",
    Column("day", TEXT, primary_key=True),
    _id("rule_id"),
    *_required(TEXT, "source", "target"),
    Column("count", BigInteger, nullable=False),
    *_required(Double(), "expected_uses", "expected_uses_variance"),
    sqlite_with_rowid=False,
)

# Rows of deleted rules remain until their pairs are re-indexed. Joins with `rules` exclude these rows, because ids are
# never reused.
rule_pairs = _table(
    "rule_pairs",
    _id("rule_id"),
    _id("pair_id"),
    Column("uses", BigInteger, nullable=False),
    Index("rule_pairs_by_pair", "pair_id"),
    sqlite_with_rowid=False,
)

indexed_pairs = _table(
    "indexed_pairs",
    _id("pair_id"),
    Column("position", BigInteger, nullable=False),
)

rejected_lines = _table(
    "rejected_lines",
    Column("id", SERIAL, primary_key=True),
    Column("batch_id", SERIAL, ForeignKey("ingest_batches.id"), nullable=False),
    Column("origin", TEXT, nullable=False),
    *_required(WHOLE, "line", "last_line"),
    *_required(TEXT, "reason", "message"),
    *_required(LargeBinary(), "content", "digest"),
    Index("rejected_lines_by_digest", "digest", unique=True),
)

failed_files = _table(
    "failed_files",
    Column("id", SERIAL, primary_key=True),
    Column("at", MOMENT, nullable=False),
    *_required(TEXT, "corpus", "file", "path", "reason"),
)

sweeps = _table(
    "sweeps",
    Column("id", SERIAL, primary_key=True),
    Column("stage", Integer, nullable=False),
    Column("pairs", BigInteger, nullable=False),
    Column("log_likelihood", Double),
    *_required(WHOLE, "edges_sampled", "edges_changed", "cuts_sampled", "cuts_changed"),
    Column("seconds", Double, nullable=False),
    Column("finished_at", MOMENT, nullable=False),
    Column("log_likelihood_before", Double),
)

http_requests = _table(
    "http_requests",
    Column("key", TEXT, primary_key=True),
    Column("corpus", TEXT, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("done", Boolean, nullable=False),
    Column("response", TEXT, nullable=False),
    *_required(MOMENT, "started_at", "updated_at"),
    Index("http_requests_by_update", "updated_at"),
)

labels = _table(
    "labels",
    Column("label", TEXT, primary_key=True),
    *_required(Double(), "strength", "expansion_probability"),
    sqlite_with_rowid=False,
)

learning_runs = _table(
    "learning_runs",
    Column("id", SERIAL, primary_key=True),
    *_required(WHOLE, "sweeps", "sweeps_done"),
    Column("after_pair_id", SERIAL, nullable=False),
    Column("sweeps_in_round", BigInteger, nullable=False),
    Column("started_at", MOMENT, nullable=False),
    Column("finished_at", MOMENT),
)

schedule_restarts = _table(
    "schedule_restarts",
    _id("pair_id"),
    Column("restarts", BigInteger, nullable=False),
)


FERTILITIES = 8
"""Number of fertility classes of the aligner: 0 to 6 links, and 7 or more links."""

pair_links = _table(
    "pair_links",
    Column("pair_id", SERIAL, ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
    *_required(LargeBinary(), "forward", "backward"),
    Column("sweep", BigInteger, nullable=False),
)
Index("pair_links_by_sweep", pair_links.c.sweep, pair_links.c.pair_id)

aligner_lexicon = _table(
    "aligner_lexicon",
    Column("source", TEXT, primary_key=True),
    Column("target", TEXT, primary_key=True),
    *_required(WHOLE, "forward", "backward"),
    sqlite_with_rowid=False,
)
on_postgres(aligner_lexicon, "with", {"fillfactor": 80})

aligner_words = _table(
    "aligner_words",
    Column("side", TEXT, primary_key=True),
    Column("word", TEXT, primary_key=True),
    *_required(WHOLE, "links", *(f"fertility_{number}" for number in range(FERTILITIES))),
    sqlite_with_rowid=False,
)
on_postgres(aligner_words, "with", {"fillfactor": 80})

aligner_jumps = _table(
    "aligner_jumps",
    Column("direction", TEXT, primary_key=True),
    Column("width", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

human_links = _table(
    "human_links",
    Column("pair_id", SERIAL, ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
    Column("source", Integer, primary_key=True, autoincrement=False),
    Column("target", Integer, primary_key=True, autoincrement=False),
    Column("fixed", Boolean, nullable=False),
    Column("origin", TEXT, nullable=False),
    Column("added_at", MOMENT, nullable=False),
    sqlite_with_rowid=False,
)

link_corrections = _table(
    "link_corrections",
    Column("pair_id", SERIAL, ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
    *_required(WHOLE, "version", "applied_version"),
    Column("input_alignment", TEXT),
    Column("text_digest", LargeBinary, nullable=False),
)
_partial_index(
    "link_corrections_pending",
    link_corrections.c.applied_version < link_corrections.c.version,
    link_corrections.c.pair_id,
)
Index("link_corrections_by_text", link_corrections.c.text_digest)


events = _table(
    "events",
    _id("id"),
    Column("at", MOMENT, nullable=False),
    Column("kind", TEXT, nullable=False),
    Column("rule_id", BigInteger),
    *_optional(TEXT, "source", "target"),
    *_optional(Double(), "expected_uses_before", "expected_uses_now", "standard_error"),
    Column("count", BigInteger),
    Column("detail", TEXT),
    Index("events_by_kind", "kind", "id"),
)

event_state = _table(
    "event_state",
    Column("id", Integer, primary_key=True, autoincrement=False),
    *_required(WHOLE, "last_event_id", "max_events"),
    CheckConstraint("id = 1", name="event_state_has_one_row"),
)

reported_rules = _table(
    "reported_rules",
    _id("rule_id"),
    *_required(Double(), "expected_uses", "expected_uses_variance"),
)

# URLs are not stored, because they may contain credentials. `name` is derived from the URL.
webhooks = _table(
    "webhooks",
    Column("name", TEXT, primary_key=True),
    Column("origin", TEXT, nullable=False),
    Column("last_event_id", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

webhook_deliveries = _table(
    "webhook_deliveries",
    Column("webhook", TEXT, primary_key=True),
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("state", TEXT, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("retry_at", Double, nullable=False),
    Column("body", TEXT, nullable=False),
    Column("status", Integer),
    Column("error", TEXT),
    CheckConstraint("state IN ('waiting', 'done', 'failed')", name="webhook_deliveries_state"),
    Index("webhook_deliveries_by_state", "state", "retry_at"),
    sqlite_with_rowid=False,
)


exports = _table(
    "exports",
    Column("id", SERIAL, primary_key=True),
    *_required(TEXT, "name", "path", "format"),
    Column("started_at", MOMENT, nullable=False),
    Column("finished_at", MOMENT),
    Column("state", TEXT, nullable=False),
    *_optional(WHOLE, "rules", "bytes"),
    Column("sha256", TEXT),
    Column("position", BigInteger),
    *_optional(TEXT, "error", "manifest", "job", "process"),
    Column("seconds", Double),
    Column("last_event_id", BigInteger),
    CheckConstraint("state IN ('running', 'done', 'failed')", name="exports_state"),
    Index("exports_by_job", "job", "state", "id"),
)
_partial_index("exports_running", exports.c.state == "running", exports.c.id)

scheduled_jobs = _table(
    "scheduled_jobs",
    Column("name", TEXT, primary_key=True),
    Column("configured", Boolean, nullable=False),
    *_optional(Double(), "next_run", "unchanged_at"),
    Column("job", TEXT, nullable=False),
)


pair_scores = _table(
    "pair_scores",
    _id("pair_id"),
    Column("position", BigInteger, nullable=False),
    Column("scored_at", MOMENT, nullable=False),
    Column("tokens", Integer, nullable=False),
    *_required(Double(), "doubt", "log_probability", "evidence", "unseen"),
    Column("pieces", Integer, nullable=False),
    Column("exact", Boolean, nullable=False),
    Column("source_misfit_log_odds", Double),
    Column("source_misfit_position", Integer),
    Column("target_misfit_log_odds", Double),
    Column("target_misfit_position", Integer),
    Column("links", TEXT, nullable=False),
    Column("derivation_log_probability", Double),
    Index("pair_scores_by_evidence", "evidence", "pair_id"),
)
