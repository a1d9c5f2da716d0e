"""Rows of the table `rules`."""

from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any

from sqlalchemy import select

from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.schema.tables import rules

StoredRule = make_dataclass("StoredRule", rules.columns.keys())


def rule_rows(snapshot: Snapshot) -> Iterator[Any]:
    """Yield all rows as `StoredRule`, including zero counts, unordered."""
    for row in snapshot._connection.execute(select(rules)):
        yield StoredRule(*row)
