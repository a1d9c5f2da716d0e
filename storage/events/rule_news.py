"""News of frequent rules: changes by a transaction, reported at its end.

A rule is reported when it becomes frequent, when it no longer is, and when its expected uses have
changed since the last report by more than twice the error (as in the view `rule_changes`) and by a tenth. So
reports add up: a slow change is reported step by step, and noise is not.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, text

from hierogram.storage.database.loading import columns_of, staged_ids
from hierogram.storage.database.transactions import Writing
from hierogram.storage.events.feed import append
from hierogram.storage.records.operations import RULE_GONE, RULE_MOVED, RULE_NEW, RULES_CHANGED, NewEvent
from hierogram.storage.schema.tables import reported_rules

OFTEN = 8
"""Expected uses from which a rule is frequent."""
SELDOM = 4
"""Expected uses below which it no longer is.

Lower than `OFTEN`, so that no rule changes back and forth with every sweep.
"""
ERRORS = 2.0
SHARE = 0.1
MOST = 500
"""Number of news beyond which a transaction reports only the number."""

Uses = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moved:
    """Rules after a transaction: ids, sides, expected uses and variances of their errors, as in `rules`."""

    ids: NDArray[np.int64]
    sources: list[str]
    targets: list[str]
    expected: Uses
    variances: Uses


def is_watched(before: Uses, after: Uses) -> NDArray[np.bool_]:
    """Return which rules can be news, given their expected uses before and after."""
    watched: NDArray[np.bool_] = (before != after) & (np.maximum(before, after) >= SELDOM)
    return watched


@dataclass(slots=True)
class _Watch:
    """Collects a transaction's changes of rules; called at its end."""

    parts: list[Moved] = field(default_factory=list)

    def __call__(self, writing: Writing) -> None:
        """Report the news."""
        _tell(writing, _last_of(self.parts))


def watch(writing: Writing, moved: Moved) -> None:
    """Record rules for which `is_watched` holds, to be reported at the end of the transaction."""
    if not len(moved.ids):
        return
    for ending in writing.endings:
        if isinstance(ending, _Watch):
            ending.parts.append(moved)
            return
    writing.endings.append(_Watch([moved]))


def _last_of(parts: list[Moved]) -> Moved:
    """Return each rule's last version, ordered by id."""
    ids = np.concatenate([part.ids for part in parts])
    sources = [source for part in parts for source in part.sources]
    targets = [target for part in parts for target in part.targets]
    _, backwards = np.unique(ids[::-1], return_index=True)
    rows = len(ids) - 1 - backwards
    chosen = rows.tolist()
    return Moved(
        ids[rows],
        [sources[row] for row in chosen],
        [targets[row] for row in chosen],
        np.concatenate([part.expected for part in parts])[rows],
        np.concatenate([part.variances for part in parts])[rows],
    )


def _tell(writing: Writing, moved: Moved) -> None:
    told, told_variances = _told(writing, moved.ids)
    known = told >= 0
    new = ~known & (moved.expected >= OFTEN)
    gone = known & (moved.expected < SELDOM)
    change = np.abs(moved.expected - told)
    error = np.sqrt(moved.variances + told_variances)
    changed = known & ~gone & (change > ERRORS * error) & (change > SHARE * told)
    rows = np.flatnonzero(new | gone | changed)
    if not len(rows):
        return
    if len(rows) > MOST:
        parts = {"new": int(new.sum()), "gone": int(gone.sum()), "moved": int(changed.sum())}
        append(writing, [NewEvent(RULES_CHANGED, number=len(rows), detail=parts)])
    else:
        append(
            writing,
            [
                NewEvent(
                    RULE_NEW if new[row] else RULE_GONE if gone[row] else RULE_MOVED,
                    int(moved.ids[row]),
                    moved.sources[row],
                    moved.targets[row],
                    None if new[row] else float(told[row]),
                    float(moved.expected[row]),
                    float(error[row]),
                )
                for row in rows.tolist()
            ],
        )
    _remember(writing, moved, gone | changed, new | changed)


def _told(writing: Writing, ids: NDArray[np.int64]) -> tuple[Uses, Uses]:
    """Return the last reported expected uses of these rules (ascending), -1 if never reported, and variances."""
    writing.loader.stage(staged_ids, ((rule_id,) for rule_id in ids.tolist()))
    told, variances = np.full(len(ids), -1.0), np.zeros(len(ids))
    wanted = select(reported_rules.c.rule_id, reported_rules.c.expected_uses, reported_rules.c.expected_uses_variance)
    found = columns_of(writing.connection, wanted.join(staged_ids, staged_ids.c.id == reported_rules.c.rule_id))
    if found:
        rows = np.searchsorted(ids, np.array(found[0], np.int64))
        told[rows], variances[rows] = found[1], found[2]
    return told, variances


def _remember(writing: Writing, moved: Moved, out: NDArray[np.bool_], put: NDArray[np.bool_]) -> None:
    """Store the reported values in place of the previous ones."""
    if out.any():
        writing.loader.stage(staged_ids, ((rule_id,) for rule_id in moved.ids[out].tolist()))
        writing.connection.execute(text("DELETE FROM reported_rules WHERE rule_id IN (SELECT id FROM staged_ids)"))
    columns = (moved.ids[put], moved.expected[put], moved.variances[put])
    writing.loader.insert(
        reported_rules,
        ("rule_id", "expected_uses", "expected_uses_variance"),
        zip(*(column.tolist() for column in columns), strict=True),
    )
