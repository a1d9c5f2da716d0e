"""Rules are found by their keys in sorted runs instead of a B-tree, which a commit changes almost everywhere."""

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_ROWS_PER_FETCH = 50_000
_LARGEST_RUN = 16_000_000
_RUNS_A_POSITION = 1_000


def upgrade() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "rule_key_runs",
        sa.Column("id", serial, primary_key=True, autoincrement=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        # Random bytes, which it would try to compress.
        op.execute("ALTER TABLE rule_key_runs ALTER COLUMN content SET STORAGE EXTERNAL")
    insert = sa.text("INSERT INTO rule_key_runs (id, entries, content) VALUES (:id, :entries, :content)")
    insert = insert.bindparams(sa.bindparam("content", type_=sa.LargeBinary))
    for run_id, (entries, content) in enumerate(_runs(), _first_run_id()):
        op.get_bind().execute(insert, {"id": run_id, "entries": entries, "content": content})
    op.drop_index("rules_by_key", "rules")


def _first_run_id() -> int:
    position = op.get_bind().scalar(sa.text("SELECT max(position) FROM store_state")) or 0
    return position * _RUNS_A_POSITION


def _runs() -> Iterator[tuple[int, bytes]]:
    """All rules in ascending order of their fingerprints: entries and content of each run."""
    rules = sa.text("SELECT id, key_high, key_low FROM rules")
    result = op.get_bind().execute(rules)
    parts = [np.array([tuple(row) for row in rows], np.int64) for rows in result.partitions(_ROWS_PER_FETCH)]
    rows = np.concatenate([np.zeros((0, 3), np.int64), *parts])
    for first in range(0, len(rows), _LARGEST_RUN):
        some = rows[first : first + _LARGEST_RUN]
        mixed = (some[:, 1] ^ some[:, 2]).astype(np.uint64)
        fingerprints = (mixed ^ mixed >> np.uint64(32)).astype(np.uint32)
        order = np.argsort(fingerprints, kind="stable")
        ids = some[:, 0][order]
        yield len(ids), fingerprints[order].astype("<u4").tobytes() + ids.astype("<i8").tobytes()


def downgrade() -> None:
    op.create_index("rules_by_key", "rules", ["key_high", "key_low"], unique=True)
    op.drop_table("rule_key_runs")
