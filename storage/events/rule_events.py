"""Events about frequent rules, appended at the end of the transaction that changes the rules.

A rule is reported when it becomes frequent, when it becomes rare again, and when its expected uses have changed
since the last report by more than twice the error (as in the view `rule_changes`) and by more than a tenth. A slow
change is therefore reported step by step, and noise is not reported.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from hierogram.storage.database.transactions import WriteTransaction, read_columns, staged_ids
from hierogram.storage.events.feed import append
from hierogram.storage.records.operations import RULE_ADDED, RULE_REMOVED, RULE_UPDATED, RULES_CHANGED, NewEvent
from hierogram.storage.records.uncertainty import squared_errors
from hierogram.storage.schema.tables import reported_rules

ADDED_USES = 8
"""Number of expected uses at which a rule becomes frequent."""
REMOVED_USES = 4
"""A frequent rule becomes rare below this number of expected uses. Less than `ADDED_USES`, to avoid oscillation."""
MIN_STANDARD_ERRORS = 2.0
MIN_RELATIVE_CHANGE = 0.1
MAX_EVENTS = 500
"""Maximum number of rule events of a transaction. For more rules, a single event reports their number."""

Uses = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangedUses:
    """Rules after a transaction: ids, sides, expected uses and variances of their errors, as in `rules`."""

    ids: NDArray[np.int64]
    sources: list[str]
    targets: list[str]
    expected: Uses
    variances: Uses


def watch(transaction: WriteTransaction, changed: ChangedUses) -> None:
    """Record changed rules, so that they are reported at the end of the transaction."""
    if len(changed.ids):
        transaction.watched.append(changed)
        transaction.before_commit = _append_events


def _last_versions(parts: list[ChangedUses]) -> ChangedUses:
    """Return the last recorded uses of each rule, ordered by id."""
    ids = np.concatenate([part.ids for part in parts])
    sources = [source for part in parts for source in part.sources]
    targets = [target for part in parts for target in part.targets]
    _, backwards = np.unique(ids[::-1], return_index=True)
    rows = len(ids) - 1 - backwards
    chosen = rows.tolist()
    return ChangedUses(
        ids[rows],
        [sources[row] for row in chosen],
        [targets[row] for row in chosen],
        np.concatenate([part.expected for part in parts])[rows],
        np.concatenate([part.variances for part in parts])[rows],
    )


def _append_events(transaction: WriteTransaction) -> None:
    changed = _last_versions(transaction.watched)
    reported, reported_variances = _reported_uses(transaction, changed.ids)
    is_reported = reported >= 0
    added = ~is_reported & (changed.expected >= ADDED_USES)
    removed = is_reported & (changed.expected < REMOVED_USES)
    change = np.abs(changed.expected - reported)
    error = np.sqrt(
        squared_errors(changed.expected, changed.variances)
        + squared_errors(np.maximum(reported, 0.0), reported_variances)
    )
    updated = (
        is_reported & ~removed & (change > MIN_STANDARD_ERRORS * error) & (change > MIN_RELATIVE_CHANGE * reported)
    )
    rows = np.flatnonzero(added | removed | updated)
    if not len(rows):
        return
    if len(rows) > MAX_EVENTS:
        parts = {"added": int(added.sum()), "removed": int(removed.sum()), "updated": int(updated.sum())}
        append(transaction, [NewEvent(RULES_CHANGED, count=len(rows), detail=parts)])
    else:
        append(
            transaction,
            [
                NewEvent(
                    RULE_ADDED if added[row] else RULE_REMOVED if removed[row] else RULE_UPDATED,
                    int(changed.ids[row]),
                    changed.sources[row],
                    changed.targets[row],
                    None if added[row] else float(reported[row]),
                    float(changed.expected[row]),
                    float(error[row]),
                )
                for row in rows.tolist()
            ],
        )
    deleted, inserted = removed | updated, added | updated
    if deleted.any():
        transaction.stage_ids(changed.ids[deleted].tolist())
        transaction.delete_staged("reported_rules", column="rule_id")
    columns = (changed.ids[inserted], changed.expected[inserted], changed.variances[inserted])
    transaction.loader.insert(reported_rules, zip(*(column.tolist() for column in columns), strict=True))


def _reported_uses(transaction: WriteTransaction, ids: NDArray[np.int64]) -> tuple[Uses, Uses]:
    """Return the last reported expected uses, -1 for unreported rules, and variances. `ids` are ascending."""
    transaction.stage_ids(ids.tolist())
    reported, variances = np.full(len(ids), -1.0), np.zeros(len(ids))
    stored = select(reported_rules).join(staged_ids, staged_ids.c.id == reported_rules.c.rule_id)
    columns = read_columns(transaction.connection, stored)
    if columns:
        rows = np.searchsorted(ids, np.array(columns[0], np.int64))
        reported[rows], variances[rows] = columns[1], columns[2]
    return reported, variances
