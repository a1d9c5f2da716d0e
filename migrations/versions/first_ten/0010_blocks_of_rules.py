"""On SQLite, rules are indexed by their sides within blocks of ids, so that new rules' entries lie together."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_SIDES = ("source", "target")
_BLOCK_BITS = 17
_RULES = 1 << 20


def upgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    for side in _SIDES:
        op.drop_index(f"rules_by_{side}", "rules")
        op.create_index(f"rules_by_{side}", "rules", [sa.text(f"id >> {_BLOCK_BITS}"), side])
    # What ANALYZE would find in a large store: rules, rules of a block, rules of a block with the same side. Without
    # it, SQLite would read all rules to find one by its side.
    bind.exec_driver_sql("ANALYZE sqlite_master")
    bind.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE tbl = 'rules'")
    for side in _SIDES:
        bind.exec_driver_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('rules', ?, ?)",
            (f"rules_by_{side}", f"{_RULES} {1 << _BLOCK_BITS} 4"),
        )
    # Has the connection read it.
    bind.exec_driver_sql("ANALYZE sqlite_master")


def downgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    for side in _SIDES:
        op.drop_index(f"rules_by_{side}", "rules")
        op.create_index(f"rules_by_{side}", "rules", [side, "count"])
    bind.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE tbl = 'rules'")
    bind.exec_driver_sql("ANALYZE sqlite_master")
