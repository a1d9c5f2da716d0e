"""Checks of pairs as comparisons: for `IN` SQLite makes a temporary index of the values for every row inserted."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_CHECKS = {
    "sentence_pairs_state": (
        "state IN ('unaligned', 'waiting', 'sampling', 'settled')",
        "state = 'unaligned' OR state = 'waiting' OR state = 'sampling' OR state = 'settled'",
    ),
    "sentence_pairs_aligned_by": (
        "aligned_by IN ('nobody', 'given', 'aligner')",
        "aligned_by = 'nobody' OR aligned_by = 'given' OR aligned_by = 'aligner'",
    ),
}


def upgrade() -> None:
    _change({name: (before, after) for name, (before, after) in _CHECKS.items()})


def downgrade() -> None:
    _change({name: (after, before) for name, (before, after) in _CHECKS.items()})


def _change(checks: dict[str, tuple[str, str]]) -> None:
    if op.get_bind().dialect.name == "sqlite":
        _rewrite(checks)
        return
    for name, (_, after) in checks.items():
        op.drop_constraint(name, "sentence_pairs")
        op.create_check_constraint(name, "sentence_pairs", after)


def _rewrite(checks: dict[str, tuple[str, str]]) -> None:
    """The text of the table's definition, as SQLite's manual has it for changing a check: no row is touched.

    (https://www.sqlite.org/lang_altertable.html#otheralter)
    """
    bind = op.get_bind()
    version = bind.exec_driver_sql("PRAGMA schema_version").scalar_one()
    found = "FROM sqlite_master WHERE type = 'table' AND name = 'sentence_pairs'"
    definition = bind.exec_driver_sql(f"SELECT sql {found}").scalar_one()
    for name, (before, after) in checks.items():
        if definition.count(f"({before})") != 1:
            raise ValueError(f"table sentence_pairs has not the check {name} as it was made: {definition}")
        definition = definition.replace(f"({before})", f"({after})")
    bind.exec_driver_sql("PRAGMA writable_schema = ON")
    bind.execute(
        sa.text("UPDATE sqlite_master SET sql = :definition WHERE type = 'table' AND name = 'sentence_pairs'"),
        {"definition": definition},
    )
    bind.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    # Also reads the schema anew, on this connection.
    bind.exec_driver_sql("PRAGMA writable_schema = RESET")
