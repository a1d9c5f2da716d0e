"""News of rules: what a transaction has done to rules that are often used, told at its end.

A rule is told of when it is first expected to be used often, when it no longer is, and when its expected uses have
moved since it was told of last by more than twice the error (as the view `rule_changes` has it) and by a tenth. So what
is told adds up: a rule that creeps is told of step by step, and one that trembles is not.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, text

from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.database.loading import columns_of, staged_ids
from hierogram.storage.database.transactions import Writing
from hierogram.storage.events.feed import append
from hierogram.storage.records.events import RULE_GONE, RULE_MOVED, RULE_NEW, RULES_CHANGED, NewEvent
from hierogram.storage.schema.event_tables import told_rules

OFTEN = 8
"""Expected uses from which on a rule is told of."""
SELDOM = 4
"""Expected uses below which it no longer is; fewer than `OFTEN`, so that no rule comes and goes with every sweep."""
ERRORS = 2.0
SHARE = 0.1
MOST = 500
"""A transaction with more news of rules only counts them."""

_LEAST = SELDOM * ONE_USE
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moved:
    """Rules as a transaction leaves them: ids, sides, expected uses and variances of their errors, as in `rules`."""

    ids: Numbers
    sources: list[str]
    targets: list[str]
    sampled: Numbers
    variances: Numbers


def is_watched(before: Numbers, after: Numbers) -> NDArray[np.bool_]:
    """Whether rules with these expected uses, before and after, can be news."""
    watched: NDArray[np.bool_] = (before != after) & (np.maximum(before, after) >= _LEAST)
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
        np.concatenate([part.sampled for part in parts])[rows],
        np.concatenate([part.variances for part in parts])[rows],
    )


def _tell(writing: Writing, moved: Moved) -> None:
    told, told_variances = _told(writing, moved.ids)
    known = told >= 0
    new = ~known & (moved.sampled >= OFTEN * ONE_USE)
    gone = known & (moved.sampled < _LEAST)
    change = np.abs(moved.sampled - told)
    error = np.sqrt((moved.variances + told_variances).astype(np.float64))
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
                    None if new[row] else float(told[row]) / ONE_USE,
                    float(moved.sampled[row]) / ONE_USE,
                    float(error[row]) / ONE_USE,
                )
                for row in rows.tolist()
            ],
        )
    _remember(writing, moved, gone | changed, new | changed)


def _told(writing: Writing, ids: Numbers) -> tuple[Numbers, Numbers]:
    """What was told of these rules (ascending): expected uses, -1 where nothing was, and variances."""
    writing.loader.stage(staged_ids, ((rule_id,) for rule_id in ids.tolist()))
    told, variances = np.full(len(ids), -1), np.zeros(len(ids), np.int64)
    wanted = select(told_rules.c.rule_id, told_rules.c.sampled_count, told_rules.c.sampled_variance)
    found = columns_of(writing.connection, wanted.join(staged_ids, staged_ids.c.id == told_rules.c.rule_id))
    if found:
        rows = np.searchsorted(ids, np.array(found[0], np.int64))
        told[rows], variances[rows] = found[1], found[2]
    return told, variances


def _remember(writing: Writing, moved: Moved, out: NDArray[np.bool_], put: NDArray[np.bool_]) -> None:
    """Puts what was told now in the place of what was told before."""
    if out.any():
        writing.loader.stage(staged_ids, ((rule_id,) for rule_id in moved.ids[out].tolist()))
        writing.connection.execute(text("DELETE FROM told_rules WHERE rule_id IN (SELECT id FROM staged_ids)"))
    columns = (moved.ids[put], moved.sampled[put], moved.variances[put])
    writing.loader.insert(
        told_rules,
        ("rule_id", "sampled_count", "sampled_variance"),
        zip(*(column.tolist() for column in columns), strict=True),
    )
