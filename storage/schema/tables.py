"""Tables and indexes of the store.

`catalog.toml` describes the tables and columns. Texts compare and sort by their UTF-8 bytes on both databases. The ids
of pairs, rules and words are allocated from `store_state` and not from database sequences, so that the same input gets
the same ids everywhere, and ids are never reused.
"""

from datetime import UTC, datetime
from typing import Any, TypeVar, get_type_hints

from sqlalchemy import ColumnElement, text
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CheckConstraint, Column, ForeignKey, Index, MetaData, SchemaItem, Table
from sqlalchemy.types import (
    BigInteger,
    Boolean,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    Text,
    TypeDecorator,
)

from hierogram.storage.records.operations import StoreState

TEXT = Text().with_variant(Text(collation="C"), "postgresql")
WHOLE = BigInteger()
BLOB = LargeBinary()
_KINDS = {int: WHOLE, float: Double(), str: TEXT}
SERIAL = BigInteger().with_variant(Integer(), "sqlite")
"""Type of ids. On SQLite, only a column of the type INTEGER can be the row id."""
_MOMENT_FORMAT = "%Y-%m-%d %H:%M:%S"


class Moment(TypeDecorator[datetime]):
    """Time in UTC in whole seconds. SQLite stores a text for its date functions, Postgres a timestamp."""

    impl = DateTime(timezone=True).with_variant(Text(), "sqlite")
    cache_ok = True

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
    """Set an option of a table or index when an engine for Postgres is created. Returns the item."""
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


def _clustered(name: str, *items: SchemaItem) -> Table:
    """Return a table whose rows are stored in the primary key on SQLite."""
    return _table(name, *items, sqlite_with_rowid=False)


def _serial() -> Column[int]:
    return Column("id", SERIAL, primary_key=True)


def _key(**kinds: Any) -> list[Column[Any]]:
    """Return primary key columns whose values are not assigned by the database."""
    return [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in kinds.items()]


def _required(**kinds: Any) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name, kind in kinds.items()]


def _optional(**kinds: Any) -> list[Column[Any]]:
    return [Column(name, kind) for name, kind in kinds.items()]


def _reference(name: str, column: str, *, is_key: bool = False) -> Column[int]:
    return Column(name, SERIAL, ForeignKey(column), nullable=False, primary_key=is_key, autoincrement=False)


REVISIONS = ("0001",)
"""Known schema revisions, oldest first. This version reads the last revision, and upgrades the others."""

BLOCK_BITS = 17
"""Number of low bits of a rule id within a block. SQLite's indexes by side are ordered by block first."""


settings = _table("settings", *_key(name=TEXT), *_required(value=TEXT))

store_state = _table(
    "store_state",
    *_key(id=Integer),
    *_required(**{name: _KINDS[kind] for name, kind in get_type_hints(StoreState).items()}),
    CheckConstraint("id = 1", name="store_state_has_one_row"),
)

corpora = _table(
    "corpora",
    _serial(),
    *_required(name=TEXT, pairs=WHOLE, created_at=MOMENT),
    Index("corpora_by_name", "name", unique=True),
)

ingest_batches = _table(
    "ingest_batches",
    _serial(),
    _reference("corpus_id", "corpora.id"),
    *_required(origin=TEXT, format=TEXT, state=TEXT, started_at=MOMENT),
    *_optional(finished_at=MOMENT),
    *_required(accepted=WHOLE, duplicates=WHOLE, rejected=WHOLE),
    *_optional(error=TEXT, notes=TEXT),
    CheckConstraint("state IN ('running', 'done', 'failed')", name="ingest_batches_state"),
)

sentence_pairs = _table(
    "sentence_pairs",
    *_key(id=SERIAL),
    *_required(corpus_id=SERIAL, batch_id=SERIAL),
    *_optional(external_id=TEXT),
    *_required(identity=BLOB, source=TEXT, target=TEXT, alignment=TEXT),
    *_optional(link_probabilities=TEXT),
    *_required(aligned_by=TEXT, source_length=Integer, target_length=Integer),
    *_required(state=TEXT, stage=Integer, sweep=WHOLE, added_at=MOMENT),
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
    _reference("pair_id", "sentence_pairs.id", is_key=True),
    *_required(current=BLOB, averages=BLOB, checksum=WHOLE),
)

damaged_pairs = _table("damaged_pairs", *_key(pair_id=SERIAL), *_required(reason=TEXT, found_at=MOMENT))

pair_positions = _table(
    "pair_positions",
    *_key(pair_id=SERIAL),
    *_required(position=WHOLE),
    Index("pair_positions_by_position", "position", "pair_id"),
)

# The pair id is the primary key, because a pair is withdrawn only once, and its id is never reused.
withdrawals = _table(
    "withdrawals",
    *_key(pair_id=SERIAL),
    *_required(corpus_id=SERIAL, batch_id=SERIAL, requested_at=MOMENT),
    *_optional(done_at=MOMENT),
)
_partial_index("withdrawals_pending", withdrawals.c.done_at.is_(None), withdrawals.c.pair_id)

leases = _table(
    "leases",
    *_key(name=TEXT),
    *_required(token=TEXT, host=TEXT, pid=Integer, process=TEXT, command=TEXT, acquired_at=MOMENT, expires_at=MOMENT),
)

# Expected uses are multiples of 1/4096 use, and the variances of their errors are multiples of 1/4096² squared use.
# Sums below 2^41 uses and 2^29 squared uses (a standard error of 23,000 uses) are therefore exact in a double in any
# order, and a recount gives identical numbers.
rules = _table(
    "rules",
    *_key(id=SERIAL),
    *_required(source=TEXT, target=TEXT, key_high=WHOLE, key_low=WHOLE),
    *_required(length=Integer, scope=Integer, nonterminals=Integer, source_terminals=Integer, target_terminals=Integer),
    *_required(hiero=Boolean, count=WHOLE, expected_uses=Double),
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
for _side in (rules.c.source, rules.c.target):
    Index(f"rules_by_{_side.name}", text(f"id >> {BLOCK_BITS}"), _side).ddl_if(dialect="sqlite")
    on_postgres(Index(f"rules_by_{_side.name}", _side), "using", "hash").ddl_if(dialect="postgresql")

rule_key_runs = _table("rule_key_runs", *_key(id=SERIAL), *_required(entries=WHOLE, content=BLOB))

vocabulary = _table(
    "vocabulary",
    *_key(id=SERIAL),
    *_required(side=TEXT, token=TEXT, count=WHOLE),
    Column("folded", TEXT, nullable=False, server_default=""),
    CheckConstraint("side IN ('source', 'target')", name="vocabulary_side"),
    Index("vocabulary_by_token", "token", "side", unique=True),
    Index("vocabulary_by_form", "folded", "side"),
)
on_postgres(vocabulary, "with", {"fillfactor": 70})

# The index has no foreign keys, because checking them would take longer than the rest of a commit. A rule without a
# count and with less than 0.5 expected uses may have no rows. A negative word id is an anchor of the rule, see
# `hierogram.storage.grammar.word_index`.
rule_words = _clustered("rule_words", *_key(word_id=SERIAL, rule_id=SERIAL))

pair_words = _clustered("pair_words", *_key(block=Integer, word_id=SERIAL), *_required(pairs=BLOB))

rule_history = _clustered(
    "rule_history",
    *_key(day=TEXT, rule_id=SERIAL),
    *_required(source=TEXT, target=TEXT, count=WHOLE, expected_uses=Double, expected_uses_variance=Double),
)

# Rows of deleted rules remain until their pairs are re-indexed. Joins with `rules` exclude these rows, because ids are
# never reused.
rule_pairs = _clustered(
    "rule_pairs", *_key(rule_id=SERIAL, pair_id=SERIAL), *_required(uses=WHOLE), Index("rule_pairs_by_pair", "pair_id")
)

indexed_pairs = _table("indexed_pairs", *_key(pair_id=SERIAL), *_required(position=WHOLE))

rejected_lines = _table(
    "rejected_lines",
    _serial(),
    _reference("batch_id", "ingest_batches.id"),
    *_required(origin=TEXT, line=WHOLE, last_line=WHOLE, reason=TEXT, message=TEXT, content=BLOB, digest=BLOB),
    Index("rejected_lines_by_digest", "digest", unique=True),
)

failed_files = _table("failed_files", _serial(), *_required(at=MOMENT, corpus=TEXT, file=TEXT, path=TEXT, reason=TEXT))

sweeps = _table(
    "sweeps",
    _serial(),
    *_required(stage=Integer, pairs=WHOLE),
    *_optional(log_likelihood=Double),
    *_required(edges_sampled=WHOLE, edges_changed=WHOLE, cuts_sampled=WHOLE, cuts_changed=WHOLE, seconds=Double),
    *_required(finished_at=MOMENT),
    *_optional(log_likelihood_before=Double),
)

http_requests = _table(
    "http_requests",
    *_key(key=TEXT),
    *_required(corpus=TEXT, lines=WHOLE, digest=BLOB, done=Boolean, response=TEXT),
    *_required(started_at=MOMENT, updated_at=MOMENT),
    Index("http_requests_by_update", "updated_at"),
)

labels = _clustered("labels", *_key(label=TEXT), *_required(strength=Double, expansion_probability=Double))

learning_runs = _table(
    "learning_runs",
    _serial(),
    *_required(sweeps=WHOLE, sweeps_done=WHOLE, after_pair_id=SERIAL, sweeps_in_round=WHOLE, started_at=MOMENT),
    *_optional(finished_at=MOMENT),
)

schedule_restarts = _table("schedule_restarts", *_key(pair_id=SERIAL), *_required(restarts=WHOLE))


FERTILITIES = 8
"""Number of fertility classes of the aligner: 0 to 6 links, and 7 or more links."""

pair_links = _table(
    "pair_links",
    _reference("pair_id", "sentence_pairs.id", is_key=True),
    *_required(forward=BLOB, backward=BLOB, sweep=WHOLE),
)
Index("pair_links_by_sweep", pair_links.c.sweep, pair_links.c.pair_id)

aligner_lexicon = _clustered(
    "aligner_lexicon", *_key(source=TEXT, target=TEXT), *_required(forward=WHOLE, backward=WHOLE)
)
on_postgres(aligner_lexicon, "with", {"fillfactor": 80})

aligner_words = _clustered(
    "aligner_words",
    *_key(side=TEXT, word=TEXT),
    *_required(links=WHOLE, **{f"fertility_{number}": WHOLE for number in range(FERTILITIES)}),
)
on_postgres(aligner_words, "with", {"fillfactor": 80})

aligner_jumps = _clustered("aligner_jumps", *_key(direction=TEXT, width=Integer), *_required(count=WHOLE))

human_links = _clustered(
    "human_links",
    _reference("pair_id", "sentence_pairs.id", is_key=True),
    *_key(source=Integer, target=Integer),
    *_required(fixed=Boolean, origin=TEXT, added_at=MOMENT),
)

link_corrections = _table(
    "link_corrections",
    _reference("pair_id", "sentence_pairs.id", is_key=True),
    *_required(version=WHOLE, applied_version=WHOLE),
    *_optional(input_alignment=TEXT),
    *_required(text_digest=BLOB),
)
_partial_index(
    "link_corrections_pending",
    link_corrections.c.applied_version < link_corrections.c.version,
    link_corrections.c.pair_id,
)
Index("link_corrections_by_text", link_corrections.c.text_digest)


events = _table(
    "events",
    *_key(id=SERIAL),
    *_required(at=MOMENT, kind=TEXT),
    *_optional(rule_id=WHOLE, source=TEXT, target=TEXT),
    *_optional(expected_uses_before=Double, expected_uses_now=Double, standard_error=Double, count=WHOLE, detail=TEXT),
    Index("events_by_kind", "kind", "id"),
)

event_state = _table(
    "event_state",
    *_key(id=Integer),
    *_required(last_event_id=WHOLE, max_events=WHOLE),
    CheckConstraint("id = 1", name="event_state_has_one_row"),
)

reported_rules = _table(
    "reported_rules", *_key(rule_id=SERIAL), *_required(expected_uses=Double, expected_uses_variance=Double)
)

# URLs are not stored, because they may contain credentials. `name` is derived from the URL.
webhooks = _clustered("webhooks", *_key(name=TEXT), *_required(origin=TEXT, last_event_id=WHOLE))

webhook_deliveries = _clustered(
    "webhook_deliveries",
    *_key(webhook=TEXT, event_id=WHOLE),
    *_required(state=TEXT, attempts=Integer, retry_at=Double, body=TEXT),
    *_optional(status=Integer, error=TEXT),
    CheckConstraint("state IN ('waiting', 'done', 'failed')", name="webhook_deliveries_state"),
    Index("webhook_deliveries_by_state", "state", "retry_at"),
)


exports = _table(
    "exports",
    _serial(),
    *_required(name=TEXT, path=TEXT, format=TEXT, started_at=MOMENT),
    *_optional(finished_at=MOMENT),
    *_required(state=TEXT),
    *_optional(rules=WHOLE, bytes=WHOLE, sha256=TEXT, position=WHOLE, error=TEXT, manifest=TEXT, job=TEXT),
    *_optional(process=TEXT, seconds=Double, last_event_id=WHOLE),
    CheckConstraint("state IN ('running', 'done', 'failed')", name="exports_state"),
    Index("exports_by_job", "job", "state", "id"),
)
_partial_index("exports_running", exports.c.state == "running", exports.c.id)

scheduled_jobs = _table(
    "scheduled_jobs",
    *_key(name=TEXT),
    *_required(configured=Boolean),
    *_optional(next_run=Double, unchanged_at=Double),
    *_required(job=TEXT),
)

pair_scores = _table(
    "pair_scores",
    *_key(pair_id=SERIAL),
    *_required(position=WHOLE, scored_at=MOMENT, tokens=Integer, doubt=Double, log_probability=Double),
    *_required(evidence=Double, unseen=Double, pieces=Integer, exact=Boolean),
    *_optional(source_misfit_log_odds=Double, source_misfit_position=Integer),
    *_optional(target_misfit_log_odds=Double, target_misfit_position=Integer),
    *_required(links=TEXT),
    *_optional(derivation_log_probability=Double),
    Index("pair_scores_by_evidence", "evidence", "pair_id"),
)
