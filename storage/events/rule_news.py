"""News of rules: what a transaction has done to rules that are often used, told at its end.

A rule is told of when it is first expected to be used often, when it no longer is, and when its expected uses have
moved since it was told of last by more than twice the error (as the view `rule_changes` has it) and by a tenth. So what
is told adds up: a rule that creeps is told of step by step, and one that trembles is not.
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
"""Expected uses from which on a rule is told of."""
SELDOM = 4
"""Expected uses below which it no longer is; fewer than `OFTEN`, so that no rule comes and goes with every sweep."""
ERRORS = 2.0
SHARE = 0.1
MOST = 500
"""A transaction with more news of rules only counts them."""

Uses = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moved:
    """Rules as a transaction leaves them: ids, sides, expected uses and variances of their errors, as in `rules`."""

    ids: NDArray[np.int64]
    sources: list[str]
    targets: list[str]
    expected: Uses
    variances: Uses


def is_watched(before: Uses, after: Uses) -> NDArray[np.bool_]:
    """Return whether rules with these expected uses, before and after, can be news."""
    watched: NDArray[np.bool_] = (before != after) & (np.maximum(before, after) >= SELDOM)
    return watched


@dataclass(slots=True)
class _Watch:
    """Gathers what a transaction does to rules, part by part; called at its end."""

    parts: list[Moved] = field(default_factory=list)

    def __call__(self, writing: Writing) -> None:
        """Tells the news."""
        _tell(writing, _last_of(self.parts))


def watch(writing: Writing, moved: Moved) -> None:
    """Notes rules of which `is_watched` holds, to be told of at the end of the transaction."""
    if not len(moved.ids):
        return
    for ending in writing.endings:
        if isinstance(ending, _Watch):
            ending.parts.append(moved)
            return
    writing.endings.append(_Watch([moved]))


def _last_of(parts: list[Moved]) -> Moved:
    """Each rule as the last part that names it has it, in the order of their ids."""
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
    """Return what was told of these rules (ascending): expected uses, -1 where nothing was, and variances."""
    writing.loader.stage(staged_ids, ((rule_id,) for rule_id in ids.tolist()))
    told, variances = np.full(len(ids), -1.0), np.zeros(len(ids))
    wanted = select(reported_rules.c.rule_id, reported_rules.c.expected_uses, reported_rules.c.expected_uses_variance)
    found = columns_of(writing.connection, wanted.join(staged_ids, staged_ids.c.id == reported_rules.c.rule_id))
    if found:
        rows = np.searchsorted(ids, np.array(found[0], np.int64))
        told[rows], variances[rows] = found[1], found[2]
    return told, variances


def _remember(writing: Writing, moved: Moved, out: NDArray[np.bool_], put: NDArray[np.bool_]) -> None:
    """Puts what was told now in the place of what was told before."""
    if out.any():
        writing.loader.stage(staged_ids, ((rule_id,) for rule_id in moved.ids[out].tolist()))
        writing.connection.execute(text("DELETE FROM reported_rules WHERE rule_id IN (SELECT id FROM staged_ids)"))
    columns = (moved.ids[put], moved.expected[put], moved.variances[put])
    writing.loader.insert(
        reported_rules,
        ("rule_id", "expected_uses", "expected_uses_variance"),
        zip(*(column.tolist() for column in columns), strict=True),
    )
