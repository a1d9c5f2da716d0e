"""Rows of the table `rules`."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from sqlalchemy import select

from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.schema.tables import rules


@dataclass(slots=True)
class StoredRule:
    """A row of the table `rules`, including zero counts."""

    id: int
    key_high: int
    key_low: int
    source: str
    target: str
    length: int
    scope: int
    nonterminals: int
    source_terminals: int
    target_terminals: int
    hiero: bool
    count: int
    expected_uses: float
    expected_uses_variance: float
    minimal_uses: int


def rule_rows(snapshot: Snapshot) -> Iterator[StoredRule]:
    """Yield all rows, unordered."""
    columns = [rules.c[field.name] for field in fields(StoredRule)]
    for row in snapshot._connection.execute(select(*columns)):
        yield StoredRule(*row)
