"""What rules were expected to be used: at most one row a day for each rule that is often used and changes.

A row is written with the commit that first changes the rule on that day, in the same transaction, and costs nothing
for rules that are rare or stay as they are: so the cost of a commit goes with the commit, not with the store.
"""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, text

from hierogram.storage.database.loading import staged_history
from hierogram.storage.database.transactions import Writing, now
from hierogram.storage.schema.tables import rule_history

REMEMBERED_COUNT = 8
"""Rules used less often are not remembered: they are most of the grammar, and they move with every sweep."""
REMEMBERED_DAYS = 366


def remember_counts(writing: Writing, counts: Sequence[tuple[int, str, str, int, int, int]]) -> None:
    """Keep the uses of rules as they were before this commit, the first time today.

    `counts` holds (id, source, target, count, expected uses, variance of their error).
    """
    if not counts:
        return
    moment = now()
    writing.loader.stage(staged_history, sorted(counts))
    writing.connection.execute(
        text(
            "INSERT INTO rule_history (day, rule_id, source, target, count, sampled_count, sampled_variance)"
            " SELECT :day, rule_id, source, target, count, sampled_count, sampled_variance FROM staged_history"
            " WHERE true ORDER BY rule_id"
            " ON CONFLICT (day, rule_id) DO NOTHING"
        ),
        {"day": moment.strftime("%Y-%m-%d")},
    )
    oldest = (moment - timedelta(days=REMEMBERED_DAYS)).strftime("%Y-%m-%d")
    writing.connection.execute(delete(rule_history).where(rule_history.c.day < oldest))
